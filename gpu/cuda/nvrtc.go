package cuda

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"unsafe"

	"github.com/ebitengine/purego"
)

func nvrtcNames() []string { return []string{"libnvrtc.so.13", "libnvrtc.so.12"} }

// nvrtc is NVIDIA's compiler as a library, for developers: it compiles kernels from their sources where
// this build's PTX would be loaded. It needs neither a toolkit nor headers.
type nvrtc struct {
	create, compile, destroy, message    uintptr
	ptxSize, ptx, programLogSize, logged uintptr
}

func (c *nvrtc) symbols() []symbol {
	return []symbol{
		{"nvrtcCreateProgram", &c.create},
		{"nvrtcCompileProgram", &c.compile},
		{"nvrtcDestroyProgram", &c.destroy},
		{"nvrtcGetErrorString", &c.message},
		{"nvrtcGetPTXSize", &c.ptxSize},
		{"nvrtcGetPTX", &c.ptx},
		{"nvrtcGetProgramLogSize", &c.programLogSize},
		{"nvrtcGetProgramLog", &c.logged},
	}
}

func openNVRTC(first []string) (*nvrtc, error) {
	library, path, err := openLibrary(nvrtcNames(), first)
	if err != nil {
		return nil, fmt.Errorf("kernels are compiled by NVRTC of CUDA 12 or 13, which pip install nvidia-cuda-nvrtc-cu12 brings; without Options.Sources it is not needed: %w", err)
	}
	c := &nvrtc{}
	return c, bind(library, path, c.symbols())
}

//go:uintptrescapes
func (c *nvrtc) call(doing string, fn uintptr, args ...uintptr) error {
	r, _, _ := purego.SyscallN(fn, args...)
	code := int(int32(r))
	if code == 0 {
		return nil
	}
	name := fmt.Sprintf("NVRTC error %d", code)
	if at, _, _ := purego.SyscallN(c.message, uintptr(code)); at != 0 {
		name = text(*(**byte)(unsafe.Pointer(&at)))
	}
	return &Error{Code: code, Name: name, Doing: doing}
}

// cStrings is an array of C strings, and what must stay alive with it.
func cStrings(list []string) (array []uintptr, keep [][]byte) {
	for _, s := range list {
		b := append([]byte(s), 0)
		keep = append(keep, b)
		array = append(array, uintptr(unsafe.Pointer(&b[0])))
	}
	return append(array, 0), keep
}

// sources are the files of a folder of kernels.
type sources struct {
	names, texts []string // *.cu
	headers      [2][]string
}

func readSources(folder string) (s sources, err error) {
	for pattern, into := range map[string][2]*[]string{"*.cu": {&s.names, &s.texts}, "*.h": {&s.headers[0], &s.headers[1]}} {
		paths, err := filepath.Glob(filepath.Join(folder, pattern))
		if err != nil || len(paths) == 0 {
			return s, fmt.Errorf("the folder %s holds no %s: give that of the kernels, gpu/cuda/kernels", folder, pattern)
		}
		for _, path := range paths {
			text, err := os.ReadFile(filepath.Clean(path))
			if err != nil {
				return s, fmt.Errorf("read a kernel: %w", err)
			}
			*into[0], *into[1] = append(*into[0], filepath.Base(path)), append(*into[1], string(text))
		}
	}
	return s, nil
}

// compileSources compiles the kernels of a folder for cards of an architecture, such as compute_90.
func compileSources(folder, architecture string, libraries []string) ([]kernelFile, error) {
	all, err := readSources(folder)
	if err != nil {
		return nil, err
	}
	c, err := openNVRTC(libraries)
	if err != nil {
		return nil, err
	}
	var files []kernelFile
	for i, name := range all.names {
		text, err := c.translate(name, all.texts[i], all.headers, architecture)
		if err != nil {
			return nil, err
		}
		files = append(files, kernelFile{name, text})
	}
	return files, nil
}

// translate gives the PTX of a source. What the compiler says against it is in the error.
func (c *nvrtc) translate(name, source string, headers [2][]string, architecture string) (ptx string, err error) {
	program := new(uintptr)
	own, keepOwn := cStrings([]string{name, source})
	names, keepNames := cStrings(headers[0])
	texts, keepTexts := cStrings(headers[1])
	err = c.call("read "+name, c.create, uintptr(unsafe.Pointer(program)), own[1], own[0],
		uintptr(len(headers[0])), uintptr(unsafe.Pointer(&texts[0])), uintptr(unsafe.Pointer(&names[0])))
	runtime.KeepAlive([][][]byte{keepOwn, keepNames, keepTexts})
	if err != nil {
		return "", err
	}
	defer func() { _ = c.call("free a program", c.destroy, uintptr(unsafe.Pointer(program))) }()
	// No product and sum are contracted, as in this build's PTX (dev.h).
	options, keep := cStrings([]string{"--gpu-architecture=" + architecture, "--std=c++17", "--fmad=false"})
	err = c.call("compile "+name, c.compile, *program, uintptr(len(keep)), uintptr(unsafe.Pointer(&options[0])))
	runtime.KeepAlive(keep)
	if e, ok := err.(*Error); ok { //nolint:errorlint // call wraps nothing
		if said, err := c.get(*program, c.programLogSize, c.logged); err == nil {
			e.Doing += ": " + firstLines(said)
		}
		return "", e
	}
	return c.get(*program, c.ptxSize, c.ptx)
}

// get reads a text of a program.
func (c *nvrtc) get(program, size, read uintptr) (string, error) {
	n := new(uintptr)
	if err := c.call("read what was compiled", size, program, uintptr(unsafe.Pointer(n))); err != nil {
		return "", err
	}
	buffer := make([]byte, *n+1)
	err := c.call("read what was compiled", read, program, uintptr(unsafe.Pointer(&buffer[0])))
	return text(&buffer[0]), err
}
