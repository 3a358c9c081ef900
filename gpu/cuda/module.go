package cuda

import (
	"strings"
	"unsafe"
)

// Options of cuModuleLoadDataEx (CUjit_option of cuda.h).
const (
	jitErrorLog      = 5 // CU_JIT_ERROR_LOG_BUFFER
	jitErrorLogBytes = 6 // CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES
)

// jitLog is where the driver's compiler writes what is wrong.
type jitLog struct {
	options [2]int32
	values  [2]uintptr
	text    [8 << 10]byte // the last byte stays 0
}

// loadModule gives kernels to the driver, which translates them for its card. What its compiler
// says against them is in the error.
func (d *driver) loadModule(file kernelFile) (module uintptr, err error) {
	image, log := append([]byte(file.text), 0), &jitLog{}
	log.options = [2]int32{jitErrorLog, jitErrorLogBytes}
	log.values = [2]uintptr{uintptr(unsafe.Pointer(&log.text[0])), uintptr(len(log.text) - 1)} // in the heap: call keeps it
	err = d.call("load the kernels of "+file.name, d.moduleLoad,
		uintptr(unsafe.Pointer(&module)), uintptr(unsafe.Pointer(&image[0])),
		uintptr(len(log.options)), uintptr(unsafe.Pointer(&log.options)), uintptr(unsafe.Pointer(&log.values)))
	if e, ok := err.(*Error); ok { //nolint:errorlint // call wraps nothing
		if said := firstLines(text(&log.text[0])); said != "" {
			e.Doing += ": " + said
		}
	}
	return module, err
}

// firstLines are the first lines of a compiler's log, which say the most, as one.
func firstLines(log string) string {
	var lines []string
	for line := range strings.Lines(log) {
		if line = strings.TrimSpace(line); line != "" && len(lines) < 3 {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "; ")
}
