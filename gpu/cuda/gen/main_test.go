package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// The embedded PTX is what the sources say.
func TestPTXIsCurrent(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("clang-19"); err != nil {
		t.Skip("clang-19 is not installed (make deps): the PTX was not compared with the kernels' sources")
	}
	folder := filepath.Join("..", "kernels")
	files, err := generate(folder)
	if err != nil {
		t.Fatal(err)
	}
	committed, err := filepath.Glob(filepath.Join(folder, "*.ptx"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range committed {
		if files[filepath.Base(path)] == nil {
			t.Errorf("%s has no source any more: delete it", path)
		}
	}
	for name, want := range files {
		got, err := os.ReadFile(filepath.Join(folder, name))
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s is not what %s gives (%v): run go generate ./gpu/cuda/...", name, "clang-19", err)
		}
	}
}
