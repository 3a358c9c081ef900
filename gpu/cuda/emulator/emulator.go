// Package emulator makes a stand-in for the CUDA driver and cuBLASLt out of the kernels
// themselves: g++ compiles each .cu over standin/shim.h, whose fibers are the threads of a block,
// and standin/driver.cpp and standin/blas.cpp give them the entry points that package cuda calls. It is for tests;
// no program that is shipped imports it.
//
// What it can and cannot show: indices, layouts, fragments, barriers, memory that was not
// written, and all of the Go code are as on a card; races between warps, the memory model,
// approximate instructions and speed are not.
package emulator

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
)

// Build compiles the stand-in, unless that was done before with the same sources, and gives
// the folder with its libcuda.so.1 and libcublasLt.so.13: the first of cuda.Options.Libraries.
func Build() (folder string, err error) {
	_, here, _, _ := runtime.Caller(0)
	return build(filepath.Dir(here))
}

// isKernel finds the kernels of a .cu, which driver.cpp needs a table of.
var isKernel = regexp.MustCompile(`(?m)extern "C" __global__ void(?: __launch_bounds__\([^)]*\))?\s+(\w+)\(`) //nolint:gochecknoglobals // a constant

func build(here string) (string, error) {
	cu, err := filepath.Glob(filepath.Join(here, "..", "kernels", "*.cu"))
	if err != nil {
		return "", err
	}
	headers, err := filepath.Glob(filepath.Join(here, "..", "kernels", "*.h"))
	if err != nil {
		return "", err
	}
	own := []string{"shim.h", "driver.cpp", "blas.cpp"}
	for i := range own {
		own[i] = filepath.Join(here, "standin", own[i])
	}
	key, source := sha256.New(), bytes.Buffer{}
	fmt.Fprintf(&source, "#include %q\n", own[0])
	var names []string
	for _, path := range slices.Concat(headers, cu, own) {
		text, err := os.ReadFile(path)
		if err != nil {
			return "", fmt.Errorf("emulator: %w", err)
		}
		fmt.Fprintf(key, "%s %d\n%s", filepath.Base(path), len(text), text)
		if filepath.Ext(path) == ".cu" {
			fmt.Fprintf(&source, "#include %q\n", path)
			for _, m := range isKernel.FindAllSubmatch(text, -1) {
				names = append(names, string(m[1]))
			}
		}
	}
	source.WriteString("#define EMULATED_KERNELS(X)")
	for _, name := range names {
		fmt.Fprintf(&source, " X(%s)", name)
	}
	fmt.Fprintf(&source, "\n#include %q\n#include %q\n", own[1], own[2])

	cache, err := os.UserCacheDir()
	if err != nil {
		cache = os.TempDir()
	}
	folder := filepath.Join(cache, "understudy", "cuda-emulator-"+hex.EncodeToString(key.Sum(nil))[:16])
	if _, err := os.Stat(filepath.Join(folder, "libcuda.so.1")); err == nil {
		return folder, nil
	}
	return folder, compile(folder, source.Bytes())
}

// compile makes the library in a folder of its own and moves it into place at once: tests of
// several packages may build it at the same time.
func compile(folder string, source []byte) (err error) {
	if err := os.MkdirAll(filepath.Dir(folder), 0o755); err != nil {
		return fmt.Errorf("emulator: %w", err)
	}
	work, err := os.MkdirTemp(filepath.Dir(folder), "building-")
	if err != nil {
		return fmt.Errorf("emulator: %w", err)
	}
	defer os.RemoveAll(work)
	unit := filepath.Join(work, "all.cpp")
	if err := os.WriteFile(unit, source, 0o644); err != nil {
		return fmt.Errorf("emulator: %w", err)
	}
	library := filepath.Join(work, "libcuda.so.1")
	command := exec.Command("g++", "-std=c++17", "-O2", "-ffp-contract=off", "-shared", "-fPIC", "-w", "-o", library, unit) //nolint:noctx // it ends by itself
	if out, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("emulator: g++: %w\n%s", err, out)
	}
	if err := os.Symlink("libcuda.so.1", filepath.Join(work, "libcublasLt.so.13")); err != nil {
		return fmt.Errorf("emulator: %w", err)
	}
	if err := os.Rename(work, folder); err != nil {
		if _, exists := os.Stat(filepath.Join(folder, "libcuda.so.1")); exists != nil {
			return fmt.Errorf("emulator: %w", err)
		}
	}
	return nil
}
