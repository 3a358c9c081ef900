package chat

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// pythonJSON writes valid JSON as Python's json.loads and json.dumps do, with
// ensure_ascii off: keys in their order (the last of equal ones counts, in the place of
// the first), a space after commas and colons, numbers in Python's notation.
func pythonJSON(raw json.RawMessage) string {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var b strings.Builder
	writeValue(&b, dec)
	return b.String()
}

// writeValue writes the next value; the text is known to be valid.
func writeValue(b *strings.Builder, dec *json.Decoder) {
	token, err := dec.Token()
	if err != nil {
		return
	}
	switch v := token.(type) {
	case json.Delim:
		if v == '{' {
			writeObject(b, dec)
			return
		}
		b.WriteByte('[')
		for i := 0; dec.More(); i++ {
			if i > 0 {
				b.WriteString(", ")
			}
			writeValue(b, dec)
		}
		_, _ = dec.Token()
		b.WriteByte(']')
	case string:
		writeString(b, v)
	case json.Number:
		b.WriteString(pythonNumber(v.String()))
	case bool:
		b.WriteString(strconv.FormatBool(v))
	default:
		b.WriteString("null")
	}
}

func writeObject(b *strings.Builder, dec *json.Decoder) {
	var keys []string
	values := map[string]string{}
	for dec.More() {
		token, _ := dec.Token()
		key, _ := token.(string)
		if _, twice := values[key]; !twice {
			keys = append(keys, key)
		}
		var value strings.Builder
		writeValue(&value, dec)
		values[key] = value.String()
	}
	_, _ = dec.Token()
	b.WriteByte('{')
	for i, key := range keys {
		if i > 0 {
			b.WriteString(", ")
		}
		writeString(b, key)
		b.WriteString(": ")
		b.WriteString(values[key])
	}
	b.WriteByte('}')
}

func writeString(b *strings.Builder, s string) {
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"', r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\r':
			b.WriteString(`\r`)
		case r == '\t':
			b.WriteString(`\t`)
		case r == '\b':
			b.WriteString(`\b`)
		case r == '\f':
			b.WriteString(`\f`)
		case r < 0x20:
			fmt.Fprintf(b, `\u%04x`, r)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
}

// pythonNumber is a whole number as it is, another one as Python's repr of the float.
func pythonNumber(s string) string {
	if !strings.ContainsAny(s, ".eE") {
		if s == "-0" {
			return "0"
		}
		return s
	}
	f, _ := strconv.ParseFloat(s, 64) // out of range is infinite, as in Python
	switch magnitude := math.Abs(f); {
	case math.IsInf(f, 1):
		return "Infinity"
	case math.IsInf(f, -1):
		return "-Infinity"
	case magnitude != 0 && (magnitude < 1e-4 || magnitude >= 1e16):
		return strconv.FormatFloat(f, 'e', -1, 64)
	}
	text := strconv.FormatFloat(f, 'f', -1, 64)
	if !strings.Contains(text, ".") {
		text += ".0"
	}
	return text
}
