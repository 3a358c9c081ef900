package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// NVIDIA's assembler accepts the embedded PTX for the oldest cards and for those of the benchmarks.
func TestPTXAssembles(t *testing.T) {
	t.Parallel()
	assembler, err := exec.LookPath("ptxas")
	if err != nil {
		t.Skip("ptxas is not in PATH (pip install nvidia-cuda-nvcc-cu12 has it in nvidia/cuda_nvcc/bin): the PTX was not assembled")
	}
	files, err := filepath.Glob(filepath.Join("..", "kernels", "*.ptx"))
	if err != nil || len(files) == 0 {
		t.Fatal("there is no PTX: ", err)
	}
	for _, architecture := range []string{"sm_80", "sm_90"} {
		for _, file := range files {
			command := exec.CommandContext(t.Context(), assembler, "-arch="+architecture, "-o", filepath.Join(t.TempDir(), "out"), file)
			if said, err := command.CombinedOutput(); err != nil {
				t.Errorf("%s for %s: %v\n%s", filepath.Base(file), architecture, err, said)
			}
		}
	}
}

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
