package audit

import (
	"errors"

	"understudy/audit/diff"
)

// Answer is an answer as it was understood: what it says happened, and the
// value to compare.
type Answer struct {
	Outcome  Outcome
	Body     diff.Value // absent when the text could not be decoded
	Message  string     // error text
	Inferred bool       // the family comes from the error's text, not from a code
	Valid    bool       // decoded within the limits
	Oversize bool       // beyond the limits
	Decode   diff.DecodeClass
	Flags    []string // how it was encoded: python_repr, nested_json, duplicate_key, ...
}

// Read understands raw bytes by a tool's envelopes. It never fails: text that
// cannot be decoded is an answer with the family unparseable.
func (r *ToolRules) Read(raw []byte) Answer {
	n, err := diff.Normalise(raw, r.limits)
	if err != nil {
		a := Answer{Outcome: Outcome{Failed, Unparseable}}
		if e, ok := errors.AsType[*diff.DecodeError](err); ok {
			a.Decode, a.Oversize = e.Class, e.Class.Oversize()
			a.Message = e.Message
		}
		return a
	}
	a := Answer{Body: n.Value, Valid: true, Flags: encodings(n.Encodings)}
	f, found := r.unwrap(n)
	if !found || !f.failed {
		a.Outcome.Class = OK
		if r.isEmpty(n.Value) {
			a.Outcome.Class = OKEmpty
		}
		return a
	}
	a.Message = f.message
	a.Outcome.Class = Failed
	a.Outcome.Family, a.Inferred = r.family(f)
	return a
}

// unwrap finds the envelope that the answer uses. The tool's own come first.
func (r *ToolRules) unwrap(n diff.Normal) (failure, bool) {
	v := n.Value
	for _, e := range r.fields {
		if f, found := e.open(v); found {
			return f, true
		}
	}
	for _, e := range r.envelopes {
		if e == MCPResult {
			v = n.Envelope // the flag lies outside of the text block
		} else {
			v = n.Value
		}
		if f, found := e.open(v); found {
			return f, true
		}
	}
	return failure{}, false
}

// family decides by code, then by text.
func (r *ToolRules) family(f failure) (family Family, inferred bool) {
	if f.code != "" {
		if family, ok := r.inference.Code(f.code); ok {
			return family, false
		}
	}
	return r.inference.Text(f.message), true
}

// isEmpty reports whether an ok answer says "nothing": null, "", {} or [], an
// object whose arrays are all empty and whose other members are zeros, flags or
// nulls (a search without a hit), or one of the tool's own empty pointers.
func (r *ToolRules) isEmpty(v diff.Value) bool {
	for _, pointer := range r.empty {
		if at, ok := v.Lookup(pointer); ok && (at.IsEmpty() || at.Type() == diff.TypeNull) {
			return true
		}
	}
	if v.Type() != diff.TypeObject {
		return v.IsEmpty() || v.Type() == diff.TypeNull
	}
	if v.Len() == 0 {
		return true
	}
	arrays := 0
	for _, at := range v.Members() {
		switch at.Type() {
		case diff.TypeArray:
			if at.Len() > 0 {
				return false
			}
			arrays++
		case diff.TypeNumber:
			if at.Text() != "0" {
				return false
			}
		case diff.TypeString, diff.TypeObject:
			return false
		case diff.TypeBool, diff.TypeNull, diff.TypeAbsent:
		}
	}
	return arrays > 0
}

// encodings names how an answer was wrapped. Bare text is how text comes, and no
// encoding of something else.
func encodings(wrapped []diff.Encoding) []string {
	var flags []string
	for _, e := range wrapped {
		if e != diff.EncodingText && e != diff.EncodingErrorText {
			flags = append(flags, string(e))
		}
	}
	return flags
}
