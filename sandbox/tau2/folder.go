package tau2

import (
	"bytes"
	"io"
	"io/fs"
	"path"
	"time"
)

// folder is a read-only file system of a few files in memory.
type folder map[string][]byte

var _ fs.ReadFileFS = folder(nil)

// ReadFile implements fs.ReadFileFS.
func (f folder) ReadFile(name string) ([]byte, error) {
	text, ok := f[name]
	if !ok {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	return bytes.Clone(text), nil
}

// Open implements fs.FS.
func (f folder) Open(name string) (fs.File, error) {
	text, err := f.ReadFile(name)
	if err != nil {
		return nil, err
	}
	return &file{Reader: bytes.NewReader(text), name: path.Base(name)}, nil
}

// file is an open file of a folder.
type file struct {
	*bytes.Reader
	name string
}

var (
	_ fs.File     = (*file)(nil)
	_ fs.FileInfo = (*file)(nil)
	_ io.ReaderAt = (*file)(nil)
)

func (f *file) Stat() (fs.FileInfo, error) { return f, nil }
func (f *file) Close() error               { return nil }
func (f *file) Name() string               { return f.name }
func (f *file) Mode() fs.FileMode          { return 0o444 }
func (f *file) ModTime() time.Time         { return time.Time{} }
func (f *file) IsDir() bool                { return false }
func (f *file) Sys() any                   { return nil }
