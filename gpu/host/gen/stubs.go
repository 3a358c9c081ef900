package main

import (
	"bytes"
	"fmt"
	"go/format"
	"strings"
)

// stubs collects the Go declarations of the functions in assembler.
type stubs struct{ buf bytes.Buffer }

func (s *stubs) add(name, signature string) {
	fmt.Fprintf(&s.buf, "\n//go:noescape\nfunc %s%s\n", name, signature)
}

// list writes a function that gives kernels by their number of rows.
func (s *stubs) list(name, kind string, most int, kernel func(rows int) string) {
	fmt.Fprintf(&s.buf, "\nfunc %s() []%s {\n\treturn []%s{", name, kind, kind)
	for rows := 1; rows <= most; rows++ {
		fmt.Fprintf(&s.buf, "\n\t\t%d: %s,", rows, kernel(rows))
	}
	s.buf.WriteString("\n\t}\n}\n")
}

// loops writes a function that lists the loops of one instruction set.
func (s *stubs) loops(i isa) {
	fmt.Fprintf(&s.buf, "\nfunc %sLoops() loops {\n\treturn loops{", i.name)
	for _, l := range loops() {
		fmt.Fprintf(&s.buf, "\n\t\t%s: %s%s,", field(l.name), i.name, l.name)
	}
	for _, f := range others() {
		fmt.Fprintf(&s.buf, "\n\t\t%s: %s%s,", field(f[0]), i.name, f[0])
	}
	s.buf.WriteString("\n\t}\n}\n")
}

func (s *stubs) bytes() []byte {
	return goFile("import \"unsafe\"\n" + s.buf.String())
}

// loopTypes declares the table of loops, which plain Go fills too.
func loopTypes() []byte {
	var buf strings.Builder
	buf.WriteString("// loops are the loops over rows for one instruction set; n > 0. gen/loops.go has the\n// formulas.\ntype loops struct {\n")
	for _, l := range loops() {
		fmt.Fprintf(&buf, "\t%s func%s\n", field(l.name), l.signature())
	}
	for _, f := range others() {
		fmt.Fprintf(&buf, "\t%s func%s\n", field(f[0]), f[1])
	}
	buf.WriteString("}\n")
	return goFile(buf.String())
}

// others are the functions beside the loops, each with its signature.
func others() [][2]string {
	return [][2]string{
		{"Softmax", softmaxParams},
		{"Transpose", transposeParams},
		{"Gather", gatherParams},
		{"PackTile", packTileParams},
		{"Squares", squaresParams},
		{"Fetch", fetchParams},
	}
}

// field is the name of a loop in the table.
func field(name string) string { return strings.ToLower(name[:1]) + name[1:] }

func goFile(text string) []byte {
	out, err := format.Source([]byte(header + "package host\n\n" + text))
	if err != nil {
		panic(err) // a fault of this program
	}
	return out
}
