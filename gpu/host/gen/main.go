// Command gen writes the Go assembler of package host: the same kernels for AVX-512 and
// for AVX2, from one description each. Go's compiler has no vector type that would keep a
// register tile in registers (design of the host device: doc.go of package host).
//
// Run it with go generate ./gpu/host. Its test fails when a committed file differs from
// what it writes.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

func main() {
	for name, text := range generate() {
		if err := os.WriteFile(filepath.Clean(name), text, 0o644); err != nil {
			fmt.Fprintln(os.Stderr, "gen:", err)
			os.Exit(1)
		}
	}
}

// generate returns every file by its name in package host's folder.
func generate() map[string][]byte {
	files := map[string][]byte{}
	stubs := &stubs{}
	for _, s := range []isa{avx512(), avx2()} {
		for _, t := range s.tiles {
			a := newAsm(s.name)
			for rows := 1; rows <= s.rows; rows++ {
				stubs.add(a.tile(s, t, rows), "("+tileParams+")")
			}
			files[fmt.Sprintf("tile_%s_%s_amd64.s", s.name, strings.ToLower(t.name))] = a.bytes()
			stubs.list(tileName(s, t, 0), "tileFunc", s.rows, func(rows int) string { return tileName(s, t, rows) })
		}
		tall := newAsm(s.name)
		for _, bf16 := range []bool{false, true} {
			for rows := 1; rows <= s.tall; rows++ {
				stubs.add(tall.tall(s, bf16, rows), "("+tallParams+")")
			}
			stubs.list(tallName(s, bf16, 0), "tallFunc", s.tall, func(rows int) string { return tallName(s, bf16, rows) })
		}
		files[fmt.Sprintf("tall_%s_amd64.s", s.name)] = tall.bytes()
		if s.alone > 0 {
			alone := newAsm(s.name + "alone")
			for rows := 1; rows <= s.alone; rows++ {
				stubs.add(alone.alone(s, rows), "("+aloneParams+")")
			}
			stubs.list(aloneName(s, 0), "aloneFunc", s.alone, func(rows int) string { return aloneName(s, rows) })
			files[fmt.Sprintf("alone_%s_amd64.s", s.name)] = alone.bytes()
		}
		a := newAsm(s.name)
		for _, l := range loops() {
			a.kernel(s, l)
			stubs.add(s.name+l.name, l.signature())
		}
		a.softmax(s)
		a.transpose(s)
		a.gather(s)
		a.packTile(s)
		a.squares(s)
		a.fetch(s)
		for _, f := range others() {
			stubs.add(s.name+f[0], f[1])
		}
		files[fmt.Sprintf("loop_%s_amd64.s", s.name)] = a.bytes()
		stubs.loops(s)
	}
	files["stubs_amd64.go"] = stubs.bytes()
	files["loops.go"] = loopTypes()
	return files
}
