package diff

import (
	"bytes"
	"errors"
	"slices"
)

// Encoding names how a JSON value was wrapped in the text that carried it.
type Encoding string

// The encodings seen in the wild.
const (
	EncodingBOM        Encoding = "byte_order_mark" // a UTF-8 byte order mark before the value
	EncodingJSONString Encoding = "json_string"     // JSON inside a JSON string
	EncodingPython     Encoding = "python_repr"     // {'ok': True, 'x': None}
	EncodingMCP        Encoding = "mcp_text"        // {"content":[{"type":"text","text":"{…}"}]}
	EncodingErrorText  Encoding = "error_text"      // Error: …
	EncodingText       Encoding = "text"            // bare text; the value is a JSON string of it
)

// Normal is an answer freed from its wrapping.
type Normal struct {
	Value     Value      // the innermost value; a JSON string for error_text and text
	Envelope  Value      // the value as decoded, before an MCP result was unwrapped; equals Value otherwise
	Encodings []Encoding // outermost first; empty for plain JSON
}

// Has reports whether the answer was wrapped so.
func (n Normal) Has(e Encoding) bool {
	return slices.Contains(n.Encodings, e)
}

// Normalise decodes raw and unwraps the encodings seen in the wild, each tagged.
// Text that begins like a JSON container but is none stays an error, so that a
// cut body is never taken for prose. The error is always a *DecodeError.
func Normalise(raw []byte, limits Limits) (Normal, error) {
	var n Normal
	if rest, ok := bytes.CutPrefix(raw, []byte("\xEF\xBB\xBF")); ok {
		n.Encodings, raw = append(n.Encodings, EncodingBOM), rest
	}
	v, err := Decode(raw, limits)
	if err != nil {
		if v, err = n.fromText(raw, limits, err); err != nil {
			return Normal{}, err
		}
	}
	n.Value, n.Envelope = v, v
	const layers = 4 // deeper than any wrapping seen, and bounded
	for range layers {
		if !n.unwrap(limits) {
			break
		}
	}
	return n, nil
}

// fromText reads what is not JSON: Python's repr, an error text, bare text.
func (n *Normal) fromText(raw []byte, limits Limits, cause error) (Value, error) {
	failure, _ := errors.AsType[*DecodeError](cause)
	switch failure.Class {
	case ClassSyntax, ClassTruncated, ClassTrailing:
	case ClassEmpty, ClassEncoding, ClassNonFinite,
		ClassOversizeBytes, ClassOversizeDepth, ClassOversizeLeaves, ClassOversizeExponent:
		return Value{}, cause
	}
	text := bytes.TrimSpace(raw)
	if len(text) == 0 {
		return Value{}, &DecodeError{ClassEmpty, len(raw), "no value"}
	}
	if bytes.IndexByte([]byte(`{[("'TFN`), text[0]) >= 0 {
		if converted, ok := pythonToJSON(text, limits.withDefaults()); ok {
			n.Encodings = append(n.Encodings, EncodingPython)
			return Decode(converted, limits)
		}
	}
	if bytes.IndexByte([]byte(`{["`), text[0]) >= 0 {
		return Value{}, cause
	}
	tag := EncodingText
	if isErrorText(text) {
		tag = EncodingErrorText
	}
	n.Encodings = append(n.Encodings, tag)
	return Decode(appendString(nil, text), Limits{Bytes: 2 * len(text) * 6})
}

// isErrorText reports whether a text begins as tools report errors.
func isErrorText(text []byte) bool {
	return len(text) >= 6 && bytes.EqualFold(text[:6], []byte("error:"))
}

// unwrap removes one layer from n.Value and reports whether there was one.
func (n *Normal) unwrap(limits Limits) bool {
	switch n.Value.Type() {
	case TypeString:
		return n.unwrapString(n.Value, EncodingJSONString, limits)
	case TypeObject:
		if text, ok := mcpText(n.Value); ok {
			if !n.unwrapString(text, EncodingMCP, limits) {
				n.Value, n.Encodings = text, append(n.Encodings, EncodingMCP)
			}
			return true
		}
	case TypeAbsent, TypeNull, TypeBool, TypeNumber, TypeArray:
	}
	return false
}

// unwrapString replaces n.Value by the container that a string holds as JSON or
// as Python's repr.
func (n *Normal) unwrapString(v Value, tag Encoding, limits Limits) bool {
	text := bytes.TrimSpace(v.text())
	if len(text) == 0 || text[0] != '{' && text[0] != '[' && text[0] != '"' {
		return false
	}
	inner, err := Decode(text, limits)
	if err != nil {
		converted, ok := pythonToJSON(text, limits.withDefaults())
		if !ok {
			return false
		}
		if inner, err = Decode(converted, limits); err != nil {
			return false
		}
		n.Encodings = append(n.Encodings, tag, EncodingPython)
		n.Value = inner
		return true
	}
	n.Encodings = append(n.Encodings, tag)
	n.Value = inner
	return true
}

// mcpText is the text of an MCP tool result whose content is one text block.
func mcpText(v Value) (Value, bool) {
	content, ok := v.Get("content")
	if !ok || content.Type() != TypeArray || content.Len() != 1 {
		return Value{}, false
	}
	for name := range v.Members() {
		switch name {
		case "content", "isError", "structuredContent", "_meta":
		default:
			return Value{}, false
		}
	}
	kind, _ := content.At(0).Get("type")
	text, ok := content.At(0).Get("text")
	return text, ok && kind.Text() == "text" && text.Type() == TypeString
}
