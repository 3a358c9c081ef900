package cm2

import (
	"bytes"
	_ "embed"
)

//go:embed sample.jsonl
var builtIn []byte

// BuiltIn is a file of four short conversations of our own making, two in each
// layout: enough for a dry run, and to see what a file has to look like.
func BuiltIn() *bytes.Reader { return bytes.NewReader(builtIn) }
