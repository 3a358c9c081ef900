package safetensors_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"understudy/gpu/safetensors"
)

// raw is a file with this header and so many bytes of data.
func raw(header string, data int) []byte {
	out := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	return append(append(out, header...), make([]byte, data)...)
}

type malformed struct {
	name string
	file []byte
	want string // in the error
}

func malformedFiles() []malformed {
	entry := func(shape, offsets string) string {
		return `"w":{"dtype":"F32","shape":[` + shape + `],"data_offsets":[` + offsets + `]}`
	}
	return []malformed{
		{"empty", nil, "truncated"},
		{"short", []byte("1234567"), "truncated"},
		{"header beyond the file", binary.LittleEndian.AppendUint64(nil, 90_000_000), "truncated: header of 90000000 bytes"},
		{"huge header", binary.LittleEndian.AppendUint64(nil, 1<<63), "no safetensors file"},
		{"a picture", []byte("\x89PNG\r\n\x1a\n and so on"), "no safetensors file"},
		{"no header", raw("", 0), "does not begin with {"},
		{"not JSON", raw("{nonsense", 0), "header"},
		{"ends early", raw(`{"w":{"dtype":"F32"`, 0), "ends within its JSON"},
		{"an array", raw(`[]`, 0), "does not begin with {"},
		{"trailing garbage", raw(`{}x`, 0), "something after its object"},
		{"second object", raw(`{}{}`, 0), "something after its object"},
		{"invalid UTF-8", raw("{\"\xff\":{}}", 0), "UTF-8"},
		{"deep JSON", raw(`{"w":{"dtype":`+strings.Repeat("[", 100_000), 0), `tensor "w": dtype must be a string`},
		{"deep shape", raw(`{"w":{"dtype":"F32","shape":`+strings.Repeat("[", 100_000), 0), `tensor "w": shape`},
		{"many dimensions", raw(`{`+entry(strings.Repeat("1,", 40)+"1", "0,4")+`}`, 4), `tensor "w": shape has 41 dimensions`},
		{"duplicate tensor", raw(`{`+entry("1", "0,4")+`,`+entry("1", "4,8")+`}`, 8), `"w" is there twice`},
		{"duplicate key", raw(`{"w":{"dtype":"F32","dtype":"F16","shape":[1],"data_offsets":[0,4]}}`, 4), `"dtype" is there twice`},
		{"unknown key", raw(`{"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4],"evil":1}}`, 4), `"evil" is not known`},
		{"unknown type", raw(`{"w":{"dtype":"F31","shape":[1],"data_offsets":[0,4]}}`, 4), `tensor "w": element type "F31"`},
		{"missing type", raw(`{"w":{"shape":[1],"data_offsets":[0,4]}}`, 4), "has no dtype"},
		{"missing shape", raw(`{"w":{"dtype":"F32","data_offsets":[0,4]}}`, 4), "has no shape"},
		{"one offset", raw(`{`+entry("1", "0")+`}`, 4), "needs two data_offsets"},
		{"negative dimension", raw(`{`+entry("-1", "0,4")+`}`, 4), `tensor "w": shape: -1`},
		{"fraction", raw(`{`+entry("1.5", "0,6")+`}`, 6), `1.5 is no whole number`},
		{"exponent", raw(`{`+entry("1e3", "0,4000")+`}`, 4000), `1e3 is no whole number`},
		{"number beyond 63 bits", raw(`{`+entry("9223372036854775808", "0,4")+`}`, 4), "no whole number"},
		{"overflowing product", raw(`{`+entry("4294967296,4294967296", "0,4")+`}`, 4), "overflows"},
		{"overflowing bytes", raw(`{`+entry("4611686018427387904", "0,4")+`}`, 4), "overflows"},
		{"wrapping to the right size", raw(`{`+entry("4611686018427387905", "0,4")+`}`, 4), "overflows"},
		{"size disagrees", raw(`{`+entry("2", "0,4")+`}`, 4), `tensor "w": F32[2] needs 8 bytes, its offsets span 4`},
		{"end outside", raw(`{`+entry("2", "0,8")+`}`, 4), `tensor "w": ends at byte 8 of 4`},
		{"begin after end", raw(`{`+entry("1", "8,4")+`}`, 8), "after its end"},
		{"overlap", raw(`{"v":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},`+entry("2", "4,12")+`}`, 12), `tensor "w": begins at byte 4, within`},
		{"same bytes twice", raw(`{"v":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},`+entry("1", "0,4")+`}`, 4), "within the tensor before it"},
		{"hole", raw(`{"v":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},`+entry("1", "8,12")+`}`, 12), "bytes 4 to 8 belong to no tensor"},
		{"hole at the start", raw(`{`+entry("1", "4,8")+`}`, 8), "bytes 0 to 4 belong to no tensor"},
		{"bytes left over", raw(`{`+entry("1", "0,4")+`}`, 5), "1 bytes after the last tensor"},
		{"metadata is no text", raw(`{"__metadata__":{"format":1}}`, 0), `"format" must be a string`},
		{"metadata is deep", raw(`{"__metadata__":{"format":{"a":"b"}}}`, 0), `"format" must be a string`},
	}
}

func TestMalformedFiles(t *testing.T) {
	for _, c := range malformedFiles() {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "model.safetensors")
			if err := os.WriteFile(path, c.file, 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := safetensors.Open(path)
			bad, ok := errors.AsType[*safetensors.FormatError](err)
			if !ok || !strings.Contains(err.Error(), c.want) || bad.File != path {
				t.Errorf("error %v, want a FormatError of the file with %q", err, c.want)
			}
			if strings.Contains(c.want, `tensor "w"`) && bad != nil && bad.Tensor != "w" {
				t.Errorf("the error is about tensor %q, want w", bad.Tensor)
			}
			if err != nil && len(err.Error()) > 1000 {
				t.Errorf("the error has %d bytes", len(err.Error()))
			}
		})
	}
}

func TestEveryTruncationIsRefused(t *testing.T) {
	whole, err := os.ReadFile(reference)
	if err != nil {
		t.Fatal(err)
	}
	for n := range len(whole) {
		if _, _, err := safetensors.Parse("x", whole[:n]); err == nil {
			t.Errorf("%d of %d bytes are accepted", n, len(whole))
		}
	}
}

func TestShardsThatDisagree(t *testing.T) {
	one := []safetensors.Tensor{safetensors.FromFloat32s("w", safetensors.F32, []int{1}, []float32{1})}
	for _, c := range []struct {
		index, want, reason string
	}{
		{`{"weight_map":{"w":"../secret.safetensors"}}`, `tensor "w": shard "../secret.safetensors" must be the name`, "no way up"},
		{`{"weight_map":{"w":"/etc/passwd"}}`, "must be the name", "no absolute path"},
		{`{"weight_map":{"w":"sub/a.safetensors"}}`, "must be the name", "no way down"},
		{`{"weight_map":{"w":"..\\a.safetensors"}}`, "must be the name", "no way up elsewhere"},
		{`{"weight_map":{"w":""}}`, "must be the name", "no empty name"},
		{`{"weight_map":{"w":".."}}`, "must be the name", "no parent"},
		{`{"weight_map":{"w":"absent.safetensors"}}`, "absent.safetensors", "a missing shard is named"},
		{`{"weight_map":{"w":"a.safetensors","v":"a.safetensors"}}`, `tensor "v": is not in a.safetensors`, "a missing tensor is named"},
		{`{"weight_map":{"w":"a.safetensors","w":"b.safetensors"}}`, `"w" is there twice`, "one place for a tensor"},
		{`{"weight_map":{}}`, "has no weight_map", "nothing"},
		{`{"metadata":{}}`, "has no weight_map", "nothing"},
		{`{"weight_map":["a"]}`, "want {", "no object"},
		{`{`, "ends within its JSON", "truncated"},
	} {
		dir := t.TempDir()
		if err := safetensors.Write(filepath.Join(dir, "a.safetensors"), one, nil); err != nil {
			t.Fatal(err)
		}
		index := filepath.Join(dir, "model.safetensors.index.json")
		if err := os.WriteFile(index, []byte(c.index), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := safetensors.Open(dir); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %q (%s)", c.index, err, c.want, c.reason)
		}
	}
	if _, err := safetensors.Open(t.TempDir()); !errors.Is(err, safetensors.ErrNotFound) {
		t.Errorf("empty folder: %v, want ErrNotFound", err)
	}
	pipe := filepath.Join(t.TempDir(), "model.safetensors")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := safetensors.Open(pipe); err == nil || !strings.Contains(err.Error(), "no regular file") {
		t.Errorf("a pipe: got %v", err)
	}
	if _, err := safetensors.Open("/dev/null"); err == nil || !strings.Contains(err.Error(), "no regular file") {
		t.Errorf("device: %v, want a refusal", err)
	}
}

func TestFileThatShrinksIsAnError(t *testing.T) {
	path := filepath.Join(t.TempDir(), "model.safetensors")
	const n = 1 << 20
	err := safetensors.Write(path, []safetensors.Tensor{safetensors.FromFloat32s("w", safetensors.F32, []int{n}, make([]float32, n))}, nil)
	if err != nil {
		t.Fatal(err)
	}
	f := open(t, path)
	w, err := f.Tensor("w")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, 4096); err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf("%s: tensor %q: its bytes are gone", path, "w")
	if err := w.Read(make([]float32, 10), n-10); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("read: %v, want %q", err, want)
	}
	if err := w.CheckFinite(); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("check: %v, want %q", err, want)
	}
	values, ok := w.Float32s()
	if !ok {
		t.Fatal("no view")
	}
	var sum float32
	err = safetensors.Guard(func() {
		for _, v := range values {
			sum += v
		}
	})
	if err == nil {
		t.Errorf("a guarded view sums to %v, want an error", sum)
	}
	if err := safetensors.Write(filepath.Join(t.TempDir(), "copy"), f.Tensors(), nil); err == nil {
		t.Error("lost bytes can be copied")
	}
}

func TestGuardPassesOtherPanics(t *testing.T) {
	defer func() {
		if v := recover(); v != "mine" {
			t.Errorf("recovered %v, want mine", v)
		}
	}()
	_ = safetensors.Guard(func() { panic("mine") })
}

func FuzzParse(f *testing.F) {
	whole, err := os.ReadFile(reference)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(whole)
	for _, c := range malformedFiles() {
		if len(c.file) < 1<<12 {
			f.Add(c.file)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		tensors, metadata, err := safetensors.Parse("fuzz", data)
		if err != nil {
			if _, ok := errors.AsType[*safetensors.FormatError](err); !ok {
				t.Fatalf("error %v is no FormatError", err)
			}
			return
		}
		// What is accepted can be written, and writing that again changes nothing.
		var once, twice bytes.Buffer
		if err := safetensors.Encode(&once, tensors, metadata); err != nil {
			t.Fatal(err)
		}
		again, metadata, err := safetensors.Parse("fuzz", once.Bytes())
		if err != nil {
			t.Fatalf("cannot read what was written: %v", err)
		}
		if err := safetensors.Encode(&twice, again, metadata); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(once.Bytes(), twice.Bytes()) {
			t.Fatalf("written once\n%q\nand twice\n%q", once.Bytes(), twice.Bytes())
		}
		for _, a := range tensors {
			i := slices.IndexFunc(again, func(b safetensors.Tensor) bool { return a.Name == b.Name })
			if i < 0 || !bytes.Equal(a.Data, again[i].Data) || !slices.Equal(a.Shape, again[i].Shape) || a.Type != again[i].Type {
				t.Fatalf("tensor %q changed", a.Name)
			}
			_, _ = a.Float32s()
			_ = a.Read(make([]float32, a.Len()), 0)
			_ = a.CheckFinite()
		}
	})
}
