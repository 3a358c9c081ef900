// Package regular reads files that come from elsewhere: opening a named pipe would wait
// for its other end, and reading a device may never end.
package regular

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
)

// Error says that a path is no file that can be read whole.
type Error struct {
	Path   string
	Reason string
}

// Error names the path, the reason and what to do.
func (e *Error) Error() string { return e.Path + " " + e.Reason }

// Open opens a regular file, or a link to one. It does not wait for anything.
func Open(path string) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a pipe without a writer opens at once
	if err != nil {
		return nil, err
	}
	info, err := file.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = &Error{path, fmt.Sprintf("is %s, no regular file: copy what it should hold to a file of that name", kind(info.Mode()))}
	}
	if err != nil {
		_ = file.Close() // only read
		return nil, err
	}
	return file, nil
}

// Read is the whole of a regular file of at most so many bytes.
func Read(path string, most int64) ([]byte, error) {
	file, err := Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, most+1))
	if err != nil {
		return nil, err
	}
	if int64(len(data)) > most {
		return nil, &Error{path, fmt.Sprintf("is longer than %d bytes, which no such file is: look whether it is the right one", most)}
	}
	return data, nil
}

func kind(m fs.FileMode) string {
	switch {
	case m.IsDir():
		return "a folder"
	case m&fs.ModeNamedPipe != 0:
		return "a named pipe"
	case m&fs.ModeSocket != 0:
		return "a socket"
	case m&fs.ModeDevice != 0:
		return "a device"
	}
	return "a special file"
}
