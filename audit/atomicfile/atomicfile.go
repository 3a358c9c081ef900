// Package atomicfile replaces files and folders whole: who reads them, and who
// looks after a crash or a power cut, finds the old content or the new one and
// never a part of either. New content is written and synced beside its place,
// renamed into it, and the folder that holds the name is synced.
package atomicfile

import (
	"bufio"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// Write replaces the file at path, or makes it with mode less the umask.
func Write(path string, content []byte, mode os.FileMode) error {
	staged, err := stage(path, mode, func(f *os.File) error {
		_, err := f.Write(content)
		return err
	})
	if err != nil {
		return err
	}
	return staged.Commit()
}

// Staged is the new content of a file, complete and synced, but not yet in its place.
type Staged struct{ temp, path string }

// Stage writes new content for the file at path, for Commit or Discard. Use it
// where several files must be complete before the first of them is replaced.
func Stage(path string, mode os.FileMode, write func(io.Writer) error) (*Staged, error) {
	return stage(path, mode, func(f *os.File) error {
		w := bufio.NewWriterSize(f, 1<<20)
		return errors.Join(write(w), w.Flush())
	})
}

// stage makes the temporary file by itself, since os.CreateTemp has only mode 0600.
func stage(path string, mode os.FileMode, write func(*os.File) error) (*Staged, error) {
	temp := filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+"."+rand.Text())
	f, err := os.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return nil, fmt.Errorf("write %s: %w", path, err)
	}
	err = write(f)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, errors.Join(fmt.Errorf("write %s: %w", path, err), os.Remove(temp))
	}
	return &Staged{temp, path}, nil
}

// Commit puts the content in its place.
func (s *Staged) Commit() error {
	if err := os.Rename(s.temp, s.path); err != nil {
		return errors.Join(fmt.Errorf("replace %s: %w", s.path, err), s.Discard())
	}
	return SyncFolder(filepath.Dir(s.path))
}

// Discard removes what was staged. After Commit it does nothing.
func (s *Staged) Discard() error {
	if err := os.Remove(s.temp); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("discard new content of %s: %w", s.path, err)
	}
	return nil
}

// Folder replaces the folder at path by one that fill fills, making the folders
// above it. What an earlier, killed call left is cleared.
func Folder(path string, fill func(partial string) error) error {
	partial := filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".partial")
	if err := os.RemoveAll(partial); err != nil {
		return fmt.Errorf("clear %s: %w", partial, err)
	}
	if err := os.MkdirAll(partial, 0o755); err != nil {
		return fmt.Errorf("make %s: %w", partial, err)
	}
	if err := fill(partial); err != nil {
		return err
	}
	return MoveFolder(partial, path)
}

// MoveFolder syncs a complete folder and moves it to path, on the same file system.
// An old folder is removed before the new one gets its name, so for a moment there
// may be none.
func MoveFolder(complete, path string) error {
	if err := syncAll(complete); err != nil {
		return err
	}
	if err := os.RemoveAll(path); err != nil {
		return fmt.Errorf("replace %s: %w", path, err)
	}
	if err := os.Rename(complete, path); err != nil {
		return fmt.Errorf("complete %s: %w", path, err)
	}
	return SyncFolder(filepath.Dir(path))
}

// SyncFolder makes the names in a folder survive a crash of the machine.
func SyncFolder(path string) error {
	err := syncOne(path)
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, errors.ErrUnsupported) {
		return nil // a file system that has no such thing, such as some network shares
	}
	return err
}

func syncAll(root string) error {
	return filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return fmt.Errorf("sync %s: %w", path, err)
		case entry.IsDir():
			return SyncFolder(path)
		case entry.Type().IsRegular():
			return syncOne(path)
		}
		return nil
	})
}

func syncOne(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("sync %s: %w", path, err)
	}
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("sync %s: %w", path, err)
	}
	return nil
}
