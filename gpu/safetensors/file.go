package safetensors

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"understudy/gpu/regular"
)

// The names that a model's folder uses, by Hugging Face's convention.
const (
	singleName = "model.safetensors"
	indexName  = "model.safetensors.index.json"
)

// File is one opened file, or all shards of an index. It may be read from any number
// of goroutines; Close must come after the last use of its tensors.
type File struct {
	path     string
	maps     [][]byte
	tensors  []Tensor
	byName   map[string]int
	metadata map[string]string
}

// Open maps a *.safetensors file, the shards of a *.index.json file, or what a folder
// holds: model.safetensors, else model.safetensors.index.json. The error is
// ErrNotFound, a *FormatError, or the system's.
func Open(path string) (*File, error) {
	path, err := locate(path)
	if err != nil {
		return nil, err
	}
	f := &File{path: path, byName: map[string]int{}}
	if filepath.Ext(path) == ".json" {
		err = f.openShards()
	} else {
		err = f.openSingle()
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// locate is the file that a path means.
func locate(path string) (string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", fmt.Errorf("open weights: %w", err)
	}
	if !info.IsDir() {
		return path, nil
	}
	for _, name := range []string{singleName, indexName} {
		file := filepath.Join(path, name)
		if _, err := os.Stat(file); err == nil {
			return file, nil
		}
	}
	return "", fmt.Errorf("open weights: %s holds neither %s nor %s: %w", path, singleName, indexName, ErrNotFound)
}

func (f *File) openSingle() error {
	tensors, metadata, err := f.mapFile(f.path)
	if err != nil {
		return err
	}
	f.metadata = metadata
	for _, t := range tensors {
		f.add(t)
	}
	return nil
}

func (f *File) add(t Tensor) {
	f.byName[t.Name] = len(f.tensors)
	f.tensors = append(f.tensors, t)
}

// mapFile maps one file and parses its header.
func (f *File) mapFile(path string) ([]Tensor, map[string]string, error) {
	file, err := regular.Open(path)
	if err != nil {
		return nil, nil, irregular(err)
	}
	defer file.Close() // the mapping outlives the descriptor
	info, err := file.Stat()
	if err != nil {
		return nil, nil, fmt.Errorf("open weights: %w", err)
	}
	if info.Size() < lengthSize { // an empty file cannot be mapped
		return nil, nil, &FormatError{File: path, Reason: fmt.Sprintf("truncated: %d bytes", info.Size())}
	}
	data, err := syscall.Mmap(int(file.Fd()), 0, int(info.Size()), syscall.PROT_READ, syscall.MAP_SHARED)
	if err != nil {
		return nil, nil, fmt.Errorf("map %s: %w", path, err)
	}
	f.maps = append(f.maps, data)
	var (
		tensors  []Tensor
		metadata map[string]string
	)
	if fault := Guard(func() { tensors, metadata, err = Parse(path, data) }); fault != nil {
		return nil, nil, &FormatError{File: path, Reason: fault.Error()}
	}
	return tensors, metadata, err
}

// irregular is the error of a file that could not be opened.
func irregular(err error) error {
	if e, ok := errors.AsType[*regular.Error](err); ok {
		return &FormatError{File: e.Path, Reason: e.Reason}
	}
	return fmt.Errorf("open weights: %w", err)
}

// Path is the file that Open chose: the single file, or the index.
func (f *File) Path() string { return f.path }

// Tensors are all tensors: in the order of their bytes for a single file, sorted by
// name for shards. The caller must not change the slice.
func (f *File) Tensors() []Tensor { return f.tensors }

// Tensor is the tensor of that name, or ErrNotFound.
func (f *File) Tensor(name string) (Tensor, error) {
	i, ok := f.byName[name]
	if !ok {
		return Tensor{}, fmt.Errorf("%s: tensor %q: %w", f.path, name, ErrNotFound)
	}
	return f.tensors[i], nil
}

// Metadata is a copy of the "__metadata__" of the file, or of all shards together.
func (f *File) Metadata() map[string]string { return maps.Clone(f.metadata) }

// Close unmaps the files. Views of them must not be used afterwards.
func (f *File) Close() error {
	var all []error
	for _, data := range f.maps {
		if err := syscall.Munmap(data); err != nil {
			all = append(all, fmt.Errorf("unmap %s: %w", f.path, err))
		}
	}
	f.maps, f.tensors, f.byName = nil, nil, nil
	return errors.Join(slices.Compact(all)...)
}
