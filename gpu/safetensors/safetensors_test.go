package safetensors_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"understudy/gpu/safetensors"
)

const reference = "testdata/reference.safetensors" // gpu/testdata/safetensors_golden.py

func open(t *testing.T, path string) *safetensors.File {
	t.Helper()
	f, err := safetensors.Open(path)
	if err != nil {
		t.Fatalf("open %s: %v", path, err)
	}
	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	})
	return f
}

func TestReferenceFile(t *testing.T) {
	f := open(t, reference)
	if got := f.Metadata()["format"]; got != "pt" {
		t.Errorf("metadata format = %q, want pt", got)
	}
	for _, c := range []struct {
		name   string
		typ    safetensors.Type
		shape  []int
		values []float32 // nil: not convertible
		reason string
	}{
		{"embed.weight", safetensors.BF16, []int{3, 4}, []float32{-.5, -.375, -.25, -.125, 0, .125, .25, .375, .5, .625, .75, .875}, "bf16 widens"},
		{"norm.weight", safetensors.F16, []int{3}, []float32{0, 0.33325195, 0.66650391}, "f16 keeps eleven bits"},
		{"wide", safetensors.F64, []int{5}, []float32{-1, -.5, 0, .5, 1}, "f64 narrows"},
		{"head.bias", safetensors.F32, []int{5}, []float32{-2.25, -1.25, -.25, .75, 1.75}, "f32 is itself"},
		{"scalar", safetensors.F32, []int{}, []float32{3.5}, "no dimension is one element"},
		{"empty", safetensors.F32, []int{0, 7}, []float32{}, "a dimension of 0 is no element"},
		{"ids", safetensors.I64, []int{1, 2}, nil, "recognised, not converted"},
		{"mask", safetensors.Bool, []int{3}, nil, "recognised, not converted"},
		{"na\"me ü<&>", safetensors.U8, []int{1}, nil, "names are any text"},
	} {
		got, err := f.Tensor(c.name)
		if err != nil {
			t.Errorf("%v (%s)", err, c.reason)
			continue
		}
		if got.Type != c.typ || !slices.Equal(got.Shape, c.shape) {
			t.Errorf("%s is %s%v, want %s%v (%s)", c.name, got.Type, got.Shape, c.typ, c.shape, c.reason)
		}
		values := make([]float32, got.Len())
		err = got.Read(values, 0)
		if (err != nil) != (c.values == nil) || c.values != nil && !slices.Equal(values, c.values) {
			t.Errorf("%s reads %v, %v; want %v (%s)", c.name, values, err, c.values, c.reason)
		}
	}
	if _, err := f.Tensor("absent"); !errors.Is(err, safetensors.ErrNotFound) || !strings.Contains(err.Error(), "absent") {
		t.Errorf("absent tensor: %v, want ErrNotFound with its name", err)
	}
}

func TestRoundTripKeepsEveryByte(t *testing.T) {
	want, err := os.ReadFile(reference)
	if err != nil {
		t.Fatal(err)
	}
	f := open(t, reference)
	path := filepath.Join(t.TempDir(), "copy.safetensors")
	if err := safetensors.Write(path, f.Tensors(), f.Metadata()); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("the copy of the reference file differs:\n%q\nwant\n%q", got, want)
	}
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(path), ".*")); len(left) > 0 {
		t.Errorf("temporary files are left: %v", left)
	}
}

func TestViewsShareTheMapping(t *testing.T) {
	f := open(t, reference)
	bias, err := f.Tensor("head.bias")
	if err != nil {
		t.Fatal(err)
	}
	values, ok := bias.Float32s()
	if !ok || len(values) != 5 || values[4] != 1.75 {
		t.Errorf("view of head.bias = %v, %v; want five values that end in 1.75", values, ok)
	}
	embed, err := f.Tensor("embed.weight")
	if err != nil {
		t.Fatal(err)
	}
	if bits, ok := embed.Uint16s(); !ok || len(bits) != 12 || bits[0] != 0xbf00 {
		t.Errorf("view of embed.weight = %x, %v; want twelve values that begin with bf00", bits, ok)
	}
	if _, ok := embed.Float32s(); ok {
		t.Error("a BF16 tensor can be viewed as float32")
	}
	aligned, buffer := 0, make([]byte, 8)
	for shift := range 4 { // one of four neighbours is aligned
		tensor := safetensors.Tensor{Type: safetensors.F32, Shape: []int{1}, Data: buffer[shift : shift+4]}
		if _, ok := tensor.Float32s(); ok {
			aligned++
		}
	}
	if aligned == 4 {
		t.Error("an unaligned tensor can be viewed as float32")
	}
	part := make([]float32, 2)
	if err := bias.Read(part, 3); err != nil || part[1] != 1.75 {
		t.Errorf("elements 3 to 5 = %v, %v; want .75 1.75", part, err)
	}
	if err := bias.Read(part, 4); err == nil {
		t.Error("elements 4 to 6 of 5 can be read")
	}
}

func TestConversionsRoundToNearestEven(t *testing.T) {
	// All halves and all bfloats survive; between two neighbours, the middle goes to
	// the even one and anything beyond the middle to its side.
	for _, typ := range []safetensors.Type{safetensors.F16, safetensors.BF16} {
		data := make([]byte, 2<<16)
		for i := range 1 << 16 {
			data[2*i], data[2*i+1] = byte(i), byte(i>>8)
		}
		all := make([]float32, 1<<16)
		if err := (safetensors.Tensor{Type: typ, Shape: []int{1 << 16}, Data: data}).Read(all, 0); err != nil {
			t.Fatal(err)
		}
		back := encodeTo(t, typ, all)
		top := 0x7c00 // the bits of infinity
		if typ == safetensors.BF16 {
			top = 0x7f80
		}
		var middles []float32
		for i := range 1 << 16 {
			isNaN := i&0x7fff > top
			if isNaN != math.IsNaN(float64(all[i])) || !isNaN && back[i] != uint16(i) {
				t.Fatalf("%s %04x reads %v and is written %04x", typ, i, all[i], back[i])
			}
			if i < top-1 {
				middle := float32((float64(all[i]) + float64(all[i+1])) / 2) // exact: one more bit
				middles = append(middles, middle, math.Nextafter32(middle, 0), math.Nextafter32(middle, float32(math.Inf(1))))
			}
		}
		rounded := encodeTo(t, typ, middles)
		for i := range len(middles) / 3 {
			even := uint16(i + i&1)
			if got := rounded[3*i : 3*i+3]; got[0] != even || got[1] != uint16(i) || got[2] != uint16(i+1) {
				t.Fatalf("%s: around the middle of %04x and its successor: %04x, want %04x %04x %04x", typ, i, got, even, i, i+1)
			}
		}
	}
}

// encodeTo writes values as the type and returns the bits that the file then holds.
func encodeTo(t *testing.T, typ safetensors.Type, values []float32) []uint16 {
	t.Helper()
	var b bytes.Buffer
	err := safetensors.Encode(&b, []safetensors.Tensor{
		safetensors.FromFloat32s("x", typ, []int{len(values)}, values),
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	tensors, _, err := safetensors.Parse("memory", b.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	bits, ok := tensors[0].Uint16s()
	if !ok {
		t.Fatal("what this package writes is not aligned")
	}
	return bits
}

func TestSaveShards(t *testing.T) {
	dir := t.TempDir()
	values := func(from float32) []float32 { return []float32{from, from + 1, from + 2, from + 3} }
	tensors := []safetensors.Tensor{
		safetensors.FromFloat32s("a", safetensors.F32, []int{4}, values(0)),
		safetensors.FromFloat32s("b", safetensors.BF16, []int{2, 2}, values(10)),
		safetensors.FromFloat32s("c", safetensors.F16, []int{4, 1}, values(20)),
		safetensors.FromFloat32s("d", safetensors.F32, []int{4}, values(30)),
	}
	check := func(want ...string) {
		t.Helper()
		f := open(t, dir)
		for i, name := range []string{"a", "b", "c", "d"} {
			tensor, err := f.Tensor(name)
			if err != nil {
				t.Fatal(err)
			}
			got := make([]float32, 4)
			if err := tensor.Read(got, 0); err != nil || !slices.Equal(got, values(float32(10*i))) {
				t.Errorf("%s = %v, %v; want %v", name, got, err, values(float32(10*i)))
			}
		}
		if got := f.Metadata()["format"]; got != "pt" {
			t.Errorf("metadata format = %q, want pt", got)
		}
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, e := range entries {
			names = append(names, e.Name())
		}
		if !slices.Equal(names, want) {
			t.Errorf("the folder holds %v, want %v", names, want)
		}
	}
	metadata := map[string]string{"format": "pt"}
	save := func(most int) {
		t.Helper()
		if err := safetensors.Save(dir, tensors, metadata, most); err != nil {
			t.Fatal(err)
		}
	}
	const index = "model.safetensors.index.json"
	save(17) // 16, 8 + 8, 16 bytes
	check("model-00001-of-00003.safetensors", "model-00002-of-00003.safetensors", "model-00003-of-00003.safetensors", index)
	save(24) // replaces three shards by two: none of the old is left
	check("model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors", index)
	save(0)
	check("model.safetensors")
	save(1) // every tensor has a shard of its own, however small the limit
	check("model-00001-of-00004.safetensors", "model-00002-of-00004.safetensors", "model-00003-of-00004.safetensors",
		"model-00004-of-00004.safetensors", index)
}

func TestWriteKeepsElementsAligned(t *testing.T) {
	var b bytes.Buffer
	err := safetensors.Encode(&b, []safetensors.Tensor{
		safetensors.FromFloat32s("odd", safetensors.BF16, []int{3}, make([]float32, 3)),
		safetensors.FromFloat32s("whole", safetensors.F32, []int{2}, []float32{1, 2}),
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	tensors, _, err := safetensors.Parse("memory", b.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	if v, ok := tensors[0].Float32s(); !ok || tensors[0].Name != "whole" || v[1] != 2 {
		t.Errorf("first is %q %v, %v; want whole, aligned", tensors[0].Name, v, ok)
	}
}

func TestWriteRefuses(t *testing.T) {
	one := safetensors.FromFloat32s("x", safetensors.F32, []int{1}, []float32{1})
	for _, c := range []struct {
		tensors []safetensors.Tensor
		want    string
	}{
		{[]safetensors.Tensor{one, one}, `tensor "x": this name is taken`},
		{[]safetensors.Tensor{{Name: "x", Type: "F31", Shape: []int{1}}}, `tensor "x": element type "F31" is not known`},
		{[]safetensors.Tensor{{Name: "x", Type: safetensors.F32, Shape: []int{2}, Data: make([]byte, 4)}}, `needs 8 bytes, has 4`},
		{[]safetensors.Tensor{{Name: "__metadata__", Type: safetensors.F32, Shape: []int{0}}}, `name is taken`},
	} {
		path := filepath.Join(t.TempDir(), "x.safetensors")
		if err := safetensors.Write(path, c.tensors, nil); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("error %v, want %q", err, c.want)
		}
		if left, _ := os.ReadDir(filepath.Dir(path)); len(left) > 0 {
			t.Errorf("a refused write left %v", left)
		}
	}
}

func TestCheckFinite(t *testing.T) {
	for _, typ := range []safetensors.Type{safetensors.F64, safetensors.F32, safetensors.BF16, safetensors.F16} {
		for _, v := range []float64{math.NaN(), math.Inf(1), math.Inf(-1), -60000, 0, 1} {
			for at := range 11 { // a place in whole words, and one in what is left of them
				w := safetensors.Tensor{Name: "w", Type: typ, Shape: []int{11}, File: "model.safetensors", Data: onesBut(typ, 11, at, v)}
				err := w.CheckFinite()
				if finite := !math.IsNaN(v) && !math.IsInf(v, 0); finite != (err == nil) {
					t.Fatalf("%s with %v at %d: %v", typ, v, at, err)
				}
				if want := fmt.Sprintf(`model.safetensors: tensor "w": element %d is NaN or infinite`, at); err != nil && err.Error() != want {
					t.Fatalf("error %q, want %q", err, want)
				}
			}
		}
	}
	if err := (safetensors.Tensor{Type: safetensors.I64, Data: bytes.Repeat([]byte{255}, 8)}).CheckFinite(); err != nil {
		t.Errorf("whole numbers: %v", err)
	}
}

// onesBut is the bytes of n elements, all 1 but one.
func onesBut(typ safetensors.Type, n, at int, v float64) []byte {
	var out []byte
	for i := range n {
		x := 1.0
		if i == at {
			x = v
		}
		out = append(out, bitsOf(typ, x)...)
	}
	return out
}

// bitsOf is a number's bytes; halves are written out by hand.
func bitsOf(typ safetensors.Type, x float64) []byte {
	if typ == safetensors.F16 {
		half, ok := map[float64]uint16{1: 0x3c00, 0: 0, -60000: 0xfb53, math.Inf(1): 0x7c00, math.Inf(-1): 0xfc00}[x]
		if !ok {
			half = 0x7e00
		}
		return binary.LittleEndian.AppendUint16(nil, half)
	}
	if typ == safetensors.F64 {
		return binary.LittleEndian.AppendUint64(nil, math.Float64bits(x))
	}
	single := binary.LittleEndian.AppendUint32(nil, math.Float32bits(float32(x)))
	if typ == safetensors.BF16 {
		return single[2:]
	}
	return single
}

func BenchmarkTensor(b *testing.B) {
	const n = 1 << 22
	data := make([]byte, 2*n)
	w := safetensors.Tensor{Name: "w", Type: safetensors.BF16, Shape: []int{n}, Data: data}
	b.Run("read bf16", func(b *testing.B) {
		b.SetBytes(2 * n)
		dst := make([]float32, n)
		for b.Loop() {
			if err := w.Read(dst, 0); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("check finite", func(b *testing.B) {
		b.SetBytes(2 * n)
		for b.Loop() {
			if err := w.CheckFinite(); err != nil {
				b.Fatal(err)
			}
		}
	})
}
