// Command gen compiles the kernels of package cuda to PTX with clang-19, which needs neither a
// GPU nor NVIDIA's toolkit: the driver makes machine code of the PTX when it loads it.
//
// Run it with go generate ./gpu/cuda/.... Its test fails when a committed file differs from what
// it writes.
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
)

//go:generate go run .

// flags: sm_80 is the oldest GPU with bfloat16 tensor cores, and what is made for it runs on all later
// ones; PTX 7.1 is read by drivers from CUDA 11.1 on. No product and sum are contracted (dev.h). A toolkit that
// is installed, whose version clang may not know, is not looked for.
func flags() []string {
	return []string{
		"-x", "cuda", "--cuda-gpu-arch=sm_80", "--cuda-feature=+ptx71", "--cuda-device-only", "-nocudainc", "-nocudalib", "--cuda-path=/nonexistent",
		"-std=c++17", "-O3", "-ffp-contract=off", "-Wall", "-Wextra", "-Werror", "-Wno-unused-function",
		"-Wno-unused-const-variable", "-S", "-o", "-",
	}
}

func main() {
	files, err := generate(filepath.Join("..", "kernels"))
	for name, text := range files {
		err = errors.Join(err, os.WriteFile(filepath.Join("..", "kernels", name), text, 0o644)) //nolint:gosec // source
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "gen:", err)
		os.Exit(1)
	}
}

// generate gives the PTX of each .cu of folder, by file name.
func generate(folder string) (map[string][]byte, error) {
	sources, err := filepath.Glob(filepath.Join(folder, "*.cu"))
	if err != nil {
		return nil, err
	}
	files, failed := map[string][]byte{}, make([]error, len(sources))
	var lock sync.Mutex
	var group sync.WaitGroup
	for i, source := range sources {
		group.Go(func() {
			text, err := compile(source)
			lock.Lock()
			defer lock.Unlock()
			failed[i] = err
			files[strings.TrimSuffix(filepath.Base(source), ".cu")+".ptx"] = text
		})
	}
	group.Wait()
	return files, errors.Join(failed...)
}

// compile gives the PTX of one source.
func compile(source string) ([]byte, error) {
	var out, said bytes.Buffer
	c := exec.CommandContext(context.Background(), "clang-19", append(flags(), filepath.Base(source))...) //nolint:gosec // the compiler on our own sources
	c.Dir, c.Stdout, c.Stderr = filepath.Dir(source), &out, &said
	if err := c.Run(); err != nil {
		return nil, fmt.Errorf("compile %s with clang-19: %w\n%s", source, err, said.Bytes())
	}
	return out.Bytes(), nil
}
