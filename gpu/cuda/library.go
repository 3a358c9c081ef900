package cuda

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
)

// Names of the libraries, the newest first.
func driverNames() []string { return []string{"libcuda.so.1", "libcuda.so"} }
func blasNames() []string   { return []string{"libcublasLt.so.13", "libcublasLt.so.12"} }

// open opens the first of these names that is in one of the folders, and else where the
// system's loader finds it. It gives the path that was opened.
func open(names, folders []string) (library uintptr, path string, err error) {
	var errs []error
	for _, name := range names {
		for _, folder := range folders {
			path := filepath.Join(folder, name)
			if _, err := os.Stat(path); err != nil {
				continue
			}
			library, err := dlopen(path)
			if err == nil {
				return library, path, nil
			}
			errs = append(errs, err)
		}
		library, err := dlopen(name)
		if err == nil {
			return library, name, nil
		}
		errs = append(errs, err)
	}
	return 0, "", errors.Join(errs...)
}

// folders are where CUDA's libraries lie: LD_LIBRARY_PATH as it is now, the toolkit's, and
// those of Python's nvidia wheels.
func folders() []string {
	list := filepath.SplitList(os.Getenv("LD_LIBRARY_PATH"))
	for _, name := range []string{"CUDA_HOME", "CUDA_PATH"} {
		if root := os.Getenv(name); root != "" {
			list = append(list, filepath.Join(root, "lib64"), filepath.Join(root, "targets/x86_64-linux/lib"))
		}
	}
	list = append(list, "/usr/local/cuda/lib64", "/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib/wsl/lib")
	python := []string{"/usr/lib/python3*", "/usr/lib/python3", "/usr/local/lib/python3*", "/opt/*/lib/python3*"}
	for _, name := range []string{"VIRTUAL_ENV", "CONDA_PREFIX"} {
		if root := os.Getenv(name); root != "" {
			python = append(python, filepath.Join(root, "lib/python3*"))
		}
	}
	for _, root := range python {
		for _, packages := range []string{"site-packages", "dist-packages"} {
			// A wheel of CUDA 12 has a folder a library, one of CUDA 13 a folder for all.
			for _, part := range []string{"cublas", "cu13", "cuda_nvrtc"} {
				found, _ := filepath.Glob(filepath.Join(root, packages, "nvidia", part, "lib")) // the pattern is well-formed
				slices.Reverse(found)                                                           // the newest Python first
				list = append(list, found...)
			}
		}
	}
	return slices.DeleteFunc(list, func(s string) bool { return s == "" })
}

// openLibrary looks in these folders before all others.
func openLibrary(names, first []string) (library uintptr, path string, err error) {
	return open(names, append(slices.Clone(first), folders()...))
}

// openDriver opens libcuda.so.1, looking in these folders first.
func openDriver(first []string) (*driver, error) {
	library, path, err := openLibrary(driverNames(), first)
	if err != nil {
		return nil, fmt.Errorf("%w: the driver's library is not on this machine: %w", ErrNoDevice, err)
	}
	d := &driver{}
	if err := bind(library, path, d.symbols()); err != nil {
		return nil, err
	}
	return d, nil
}
