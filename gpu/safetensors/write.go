package safetensors

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"understudy/audit/atomicfile"
)

// Encode writes tensors in the given order, or, when an element would then not be
// aligned, with larger elements first. A file that was written by this package or by
// the reference implementation (with at most one metadata entry: it leaves their
// order to chance) comes back byte by byte when its tensors are encoded again.
func Encode(w io.Writer, tensors []Tensor, metadata map[string]string) error {
	tensors = aligned(tensors)
	header, err := encodeHeader(tensors, metadata)
	if err != nil {
		return err
	}
	if _, err := w.Write(header); err != nil {
		return err
	}
	chunk := make([]byte, 1<<16)
	for _, t := range tensors {
		if err := t.writeTo(w, chunk); err != nil {
			return fmt.Errorf("tensor %q: %w", t.Name, err)
		}
	}
	return nil
}

// writeTo writes the tensor's bytes, through chunk when they have to be converted.
func (t Tensor) writeTo(w io.Writer, chunk []byte) (err error) {
	if t.pending == nil {
		fault := Guard(func() { _, err = w.Write(t.Data) })
		return errors.Join(fault, err)
	}
	for part := range slices.Chunk(t.pending, len(chunk)/2) {
		encode(chunk, part, t.Type)
		if _, err := w.Write(chunk[:2*len(part)]); err != nil {
			return err
		}
	}
	return nil
}

// aligned is the tensors in an order in which each begins at a multiple of its
// element's size.
func aligned(tensors []Tensor) []Tensor {
	at := 0
	for _, t := range tensors {
		if size := t.Type.Size(); size > 0 && at%size != 0 {
			tensors = slices.Clone(tensors)
			slices.SortStableFunc(tensors, func(a, b Tensor) int {
				return cmp.Compare(b.Type.Size(), a.Type.Size())
			})
			break
		}
		at += t.size()
	}
	return tensors
}

// encodeHeader is the length and the JSON, padded so that the data begins at a
// multiple of eight.
func encodeHeader(tensors []Tensor, metadata map[string]string) ([]byte, error) {
	var b bytes.Buffer
	b.Write(make([]byte, lengthSize))
	b.WriteByte('{')
	if metadata != nil {
		b.WriteString(`"` + metadataKey + `":`)
		if err := appendJSON(&b, metadata); err != nil {
			return nil, err
		}
	}
	seen, at := map[string]bool{metadataKey: true}, 0
	for _, t := range tensors {
		want, err := bytesOf(t.Type, t.Shape)
		switch {
		case err != nil:
			return nil, fmt.Errorf("tensor %q: %w", t.Name, err)
		case want != t.size():
			return nil, fmt.Errorf("tensor %q: %s%v needs %d bytes, has %d", t.Name, t.Type, t.Shape, want, t.size())
		case seen[t.Name]:
			return nil, fmt.Errorf("tensor %q: this name is taken", t.Name)
		}
		seen[t.Name] = true
		if b.Len() > lengthSize+1 {
			b.WriteByte(',')
		}
		if err := appendJSON(&b, t.Name); err != nil {
			return nil, err
		}
		b.WriteByte(':')
		shape := t.Shape
		if shape == nil {
			shape = []int{}
		}
		err = appendJSON(&b, struct {
			Type    Type   `json:"dtype"`
			Shape   []int  `json:"shape"`
			Offsets [2]int `json:"data_offsets"`
		}{t.Type, shape, [2]int{at, at + want}})
		if err != nil {
			return nil, err
		}
		at += want
	}
	b.WriteByte('}')
	for b.Len()%8 != 0 {
		b.WriteByte(' ')
	}
	if b.Len()-lengthSize > maxHeader {
		return nil, fmt.Errorf("header of %d bytes, more than %d", b.Len()-lengthSize, maxHeader)
	}
	binary.LittleEndian.PutUint64(b.Bytes(), uint64(b.Len()-lengthSize))
	return b.Bytes(), nil
}

// appendJSON is json.Encode without HTML escapes and without a newline.
func appendJSON(b *bytes.Buffer, v any) error {
	enc := json.NewEncoder(b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return err
	}
	b.Truncate(b.Len() - 1)
	return nil
}

// Write writes one file. Whoever opens the path sees the old file or the new one,
// whatever happens: the bytes go to a temporary file beside it, are synced, and are
// renamed.
func Write(path string, tensors []Tensor, metadata map[string]string) error {
	staged, err := atomicfile.Stage(path, 0o644, func(w io.Writer) error { return Encode(w, tensors, metadata) })
	if err != nil {
		return err
	}
	return staged.Commit()
}

// Save writes a model into a folder as model.safetensors, or, when it is larger than
// maxShard bytes (0 means never), as shards and an index. Shards are not replaced at
// once as one file is: after a crash in the moment of renaming, the folder has no index
// and [Open] says so, rather than mixing old and new. Checkpoints belong in a folder of
// their own.
func Save(dir string, tensors []Tensor, metadata map[string]string, maxShard int) error {
	stale := filesOf(dir)
	var (
		written []string
		err     error
	)
	if shards := split(tensors, maxShard); len(shards) > 1 {
		written, err = saveShards(dir, shards, metadata)
	} else {
		written = []string{singleName}
		err = Write(filepath.Join(dir, singleName), tensors, metadata)
	}
	if err != nil {
		return err
	}
	for _, name := range stale {
		if slices.Contains(written, name) {
			continue
		}
		if err := os.Remove(filepath.Join(dir, name)); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("replace weights: %w", err)
		}
	}
	return nil
}

// filesOf is the files of the weights that a folder holds, the deciding ones first.
func filesOf(dir string) []string {
	var names []string
	for _, name := range []string{singleName, indexName} {
		if _, err := os.Stat(filepath.Join(dir, name)); err == nil {
			names = append(names, name)
		}
	}
	if weightMap, err := readIndex(filepath.Join(dir, indexName)); err == nil {
		for _, shard := range slices.Sorted(maps.Values(weightMap)) {
			if _, err := os.Stat(filepath.Join(dir, shard)); err == nil && !slices.Contains(names, shard) {
				names = append(names, shard)
			}
		}
	}
	return names
}

// split fills shards in order, each up to most bytes but with one tensor at least.
func split(tensors []Tensor, most int) [][]Tensor {
	if most <= 0 {
		return [][]Tensor{tensors}
	}
	var shards [][]Tensor
	size := 0
	for _, t := range tensors {
		if len(shards) == 0 || size+t.size() > most {
			shards, size = append(shards, nil), 0
		}
		last := len(shards) - 1
		shards[last] = append(shards[last], t)
		size += t.size()
	}
	return shards
}

func saveShards(dir string, shards [][]Tensor, metadata map[string]string) (names []string, err error) {
	var files []*atomicfile.Staged
	defer func() {
		for _, file := range files { // those that did not get their place
			err = errors.Join(err, file.Discard())
		}
	}()
	weightMap, total := map[string]string{}, 0
	for i, shard := range shards {
		name := fmt.Sprintf("model-%05d-of-%05d.safetensors", i+1, len(shards))
		path := filepath.Join(dir, name)
		file, err := atomicfile.Stage(path, 0o644, func(w io.Writer) error { return Encode(w, shard, metadata) })
		if err != nil {
			return nil, err
		}
		files, names = append(files, file), append(names, name)
		for _, t := range shard {
			if _, taken := weightMap[t.Name]; taken {
				return nil, fmt.Errorf("write %s: tensor %q: this name is taken", path, t.Name)
			}
			weightMap[t.Name] = name
			total += t.size()
		}
	}
	index, err := atomicfile.Stage(filepath.Join(dir, indexName), 0o644, func(w io.Writer) error {
		enc := json.NewEncoder(w)
		enc.SetEscapeHTML(false)
		enc.SetIndent("", "  ")
		return enc.Encode(map[string]any{"metadata": map[string]int{"total_size": total}, "weight_map": weightMap})
	})
	if err != nil {
		return nil, err
	}
	files, names = append(files, index), append(names, indexName)
	for _, old := range []string{singleName, indexName} {
		if err := os.Remove(filepath.Join(dir, old)); err != nil && !errors.Is(err, os.ErrNotExist) {
			return nil, fmt.Errorf("replace weights: %w", err)
		}
	}
	for _, file := range files { // the index is the last
		if err := file.Commit(); err != nil {
			return nil, err
		}
	}
	return names, nil
}
