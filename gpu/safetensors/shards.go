package safetensors

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"understudy/gpu/regular"
)

// openShards reads the index and maps the shards that it names.
func (f *File) openShards() error {
	weightMap, err := readIndex(f.path)
	if err != nil {
		return err
	}
	shards := map[string]map[string]Tensor{}
	f.metadata = map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(weightMap)) {
		shard := weightMap[name]
		if shards[shard] == nil {
			path := filepath.Join(filepath.Dir(f.path), shard)
			tensors, metadata, err := f.mapFile(path)
			if err != nil {
				return err
			}
			maps.Copy(f.metadata, metadata)
			shards[shard] = make(map[string]Tensor, len(tensors))
			for _, t := range tensors {
				shards[shard][t.Name] = t
			}
		}
		t, ok := shards[shard][name]
		if !ok {
			return &FormatError{File: f.path, Tensor: name, Reason: "is not in " + shard}
		}
		f.add(t)
	}
	return nil
}

// readIndex is the index's map from tensor to shard. A shard must lie beside the
// index: a name with a path in it is refused.
func readIndex(path string) (map[string]string, error) {
	data, err := readAtMost(path, maxHeader)
	if err != nil {
		return nil, err
	}
	var weightMap map[string]string
	dec := json.NewDecoder(bytes.NewReader(data))
	err = parseObject(dec, func(key string) (err error) {
		if key == "weight_map" {
			weightMap, err = parseStrings(dec)
			return err
		}
		var ignored json.RawMessage // metadata.total_size, which readers do not need
		return dec.Decode(&ignored)
	})
	if err != nil {
		return nil, &FormatError{File: path, Reason: err.Error()}
	}
	if len(weightMap) == 0 {
		return nil, &FormatError{File: path, Reason: "has no weight_map"}
	}
	for name, shard := range weightMap {
		if shard == "" || filepath.Base(shard) != shard || strings.ContainsAny(shard, `/\`) || !filepath.IsLocal(shard) {
			return nil, &FormatError{
				File: path, Tensor: name,
				Reason: fmt.Sprintf("shard %q must be the name of a file beside the index", shorten(shard)),
			}
		}
	}
	return weightMap, nil
}

func readAtMost(path string, most int64) ([]byte, error) {
	data, err := regular.Read(path, most)
	if err != nil {
		return nil, irregular(err)
	}
	return data, nil
}
