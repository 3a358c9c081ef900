package safetensors

import (
	"errors"
	"runtime"
	"runtime/debug"
)

// Guard runs do, and makes an error of a memory fault in it: what reading a mapped
// file raises once another program has truncated it, or the disk fails. Other
// panics pass. It covers the calling goroutine only, so workers that read views call
// it each for themselves; assembler called from do is covered.
func Guard(do func()) (err error) {
	old := debug.SetPanicOnFault(true)
	defer func() {
		debug.SetPanicOnFault(old)
		v := recover()
		if v == nil {
			return
		}
		if fault, ok := v.(interface {
			runtime.Error
			Addr() uintptr
		}); ok && fault.Addr() != 0 {
			err = errors.New("its bytes are gone: the file was truncated while it was in use, or the disk failed")
			return
		}
		panic(v)
	}()
	do()
	return nil
}
