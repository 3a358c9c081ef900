package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

// The committed files are what this generator writes, and nothing else is generated.
func TestGeneratedFilesAreCurrent(t *testing.T) {
	want := generate()
	for name, text := range want {
		got, err := os.ReadFile(filepath.Join("..", name))
		if err != nil || !bytes.Equal(got, text) {
			t.Errorf("%s is not what gen writes (%v); run: go generate ./gpu/host", name, err)
		}
	}
	found, err := filepath.Glob("../*.s")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range found {
		if _, ok := want[filepath.Base(path)]; !ok {
			t.Errorf("%s is not written by gen; remove it, or generate it", path)
		}
	}
}
