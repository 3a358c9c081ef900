// Package lockfile keeps two programs from working in one folder. The lock is
// the operating system's (flock), so it ends with the process that holds it,
// kill -9 included; the file itself only tells people who the holder is.
package lockfile

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// HeldError says that another process holds the lock.
type HeldError struct {
	Path string
	PID  int // 0 when the holder did not write it yet
}

// Error names the file and the holder.
func (e *HeldError) Error() string {
	if e.PID == 0 {
		return e.Path + " is locked by another process"
	}
	return fmt.Sprintf("%s is locked by process %d", e.Path, e.PID)
}

// Lock is a held lock.
type Lock struct {
	file *os.File
}

// Acquire creates the file where it is missing and locks it without waiting.
// It returns a *HeldError when another process (or another Lock of this one)
// holds it.
func Acquire(path string) (*Lock, error) {
	for {
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
		if err != nil {
			return nil, fmt.Errorf("open lock file: %w", err)
		}
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		switch {
		case errors.Is(err, unix.EWOULDBLOCK):
			f.Close()
			return nil, &HeldError{Path: path, PID: readPID(path)}
		case err != nil:
			f.Close()
			return nil, fmt.Errorf("lock %s: %w", path, err)
		case !stands(f, path):
			f.Close() // the former holder removed it between our open and our lock
			continue
		}
		l := &Lock{file: f}
		if err := l.writePID(); err != nil {
			f.Close()
			return nil, fmt.Errorf("write lock file: %w", err)
		}
		return l, nil
	}
}

func stands(f *os.File, path string) bool {
	held, err1 := f.Stat()
	named, err2 := os.Stat(path)
	return err1 == nil && err2 == nil && os.SameFile(held, named)
}

// Remove gives the lock back and removes the file.
func (l *Lock) Remove() error {
	return errors.Join(os.Remove(l.file.Name()), l.file.Close())
}

// Release gives the lock back. The file stays. To close it would not do: a
// program that another goroutine is just starting holds a copy of the descriptor
// until it runs, and with it the lock.
func (l *Lock) Release() error {
	err := l.file.Truncate(0)
	if err == nil {
		err = unix.Flock(int(l.file.Fd()), unix.LOCK_UN)
	}
	if err = errors.Join(err, l.file.Close()); err != nil {
		return fmt.Errorf("release lock file: %w", err)
	}
	return nil
}

func (l *Lock) writePID() error {
	if err := l.file.Truncate(0); err != nil {
		return err
	}
	_, err := l.file.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	return err
}

func readPID(path string) int {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return 0
	}
	return pid
}
