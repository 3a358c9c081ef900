package safetensors

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"unicode/utf8"
)

// maxHeader is the header length that the format's reference implementation
// allows. A header is never longer than its file, so a short file cannot ask for
// memory.
const maxHeader = 100_000_000

// lengthSize is the bytes of the header's length.
const lengthSize = 8

// metadataKey is the header's one key that is no tensor.
const metadataKey = "__metadata__"

// entry is what the header says of one tensor.
type entry struct {
	name       string
	typ        Type
	shape      []int
	begin, end int // offsets into the data part
}

// Parse reads a whole file that is in memory; the tensors, in the order of their
// bytes, are views of data. The name is used in errors only.
func Parse(name string, data []byte) ([]Tensor, map[string]string, error) {
	fail := func(tensor, format string, args ...any) ([]Tensor, map[string]string, error) {
		return nil, nil, &FormatError{File: name, Tensor: tensor, Reason: fmt.Sprintf(format, args...)}
	}
	if len(data) < lengthSize {
		return fail("", "truncated: %d bytes, no room for the header's length", len(data))
	}
	length := binary.LittleEndian.Uint64(data)
	if length > maxHeader {
		return fail("", "header of %d bytes, more than %d; this is no safetensors file", length, maxHeader)
	}
	if length > uint64(len(data)-lengthSize) {
		return fail("", "truncated: header of %d bytes in a file of %d", length, len(data))
	}
	header, body := data[lengthSize:lengthSize+length], data[lengthSize+length:]
	entries, metadata, err := parseHeader(header)
	if bad, ok := errors.AsType[*entryError](err); ok {
		return fail(bad.tensor, "%v", bad.err)
	}
	if err != nil {
		return fail("", "header: %v", err)
	}
	if tensor, err := checkLayout(entries, len(body)); err != nil {
		return fail(tensor, "%v", err)
	}
	tensors := make([]Tensor, len(entries))
	for i, e := range entries {
		tensors[i] = Tensor{
			Name: e.name, Type: e.typ, Shape: e.shape,
			Data: body[e.begin:e.end:e.end], File: name,
		}
	}
	return tensors, metadata, nil
}

// checkLayout sorts the entries by their offsets and reports the first that
// disagrees with its shape, overlaps its neighbour, leaves a hole, or ends outside.
func checkLayout(entries []entry, size int) (tensor string, err error) {
	for _, e := range entries {
		want, err := bytesOf(e.typ, e.shape)
		switch {
		case err != nil:
			return e.name, err
		case e.begin > e.end:
			return e.name, fmt.Errorf("begins at byte %d, after its end %d", e.begin, e.end)
		case e.end > size:
			return e.name, fmt.Errorf("ends at byte %d of %d: the file is truncated or the offset is wrong", e.end, size)
		case e.end-e.begin != want:
			return e.name, fmt.Errorf("%s%v needs %d bytes, its offsets span %d", e.typ, e.shape, want, e.end-e.begin)
		}
	}
	slices.SortStableFunc(entries, func(a, b entry) int {
		return cmp.Or(cmp.Compare(a.begin, b.begin), cmp.Compare(a.end, b.end))
	})
	at := 0
	for _, e := range entries {
		switch {
		case e.begin < at:
			return e.name, fmt.Errorf("begins at byte %d, within the tensor before it, which ends at %d", e.begin, at)
		case e.begin > at:
			return e.name, fmt.Errorf("begins at byte %d; bytes %d to %d belong to no tensor", e.begin, at, e.begin)
		}
		at = e.end
	}
	if at != size {
		return "", fmt.Errorf("%d bytes after the last tensor belong to none", size-at)
	}
	return "", nil
}

// entryError is a mistake within one tensor's entry.
type entryError struct {
	tensor string
	err    error
}

func (e *entryError) Error() string { return fmt.Sprintf("tensor %q: %v", shorten(e.tensor), e.err) }

// parseHeader reads the header token by token: what is nested deeper than the
// format allows is refused where it begins, and duplicate keys are seen.
func parseHeader(header []byte) ([]entry, map[string]string, error) {
	if len(header) == 0 || header[0] != '{' {
		return nil, nil, errors.New("does not begin with {")
	}
	if !utf8.Valid(header) {
		return nil, nil, errors.New("is not valid UTF-8")
	}
	var (
		entries  []entry
		metadata map[string]string
	)
	dec := json.NewDecoder(bytes.NewReader(header))
	dec.UseNumber()
	err := parseObject(dec, func(key string) error {
		if key == metadataKey {
			var err error
			metadata, err = parseStrings(dec)
			return err
		}
		e, err := parseEntry(dec, key)
		if err != nil {
			return &entryError{tensor: key, err: err}
		}
		entries = append(entries, e)
		return nil
	})
	if err != nil {
		return nil, nil, err
	}
	if rest := header[dec.InputOffset():]; len(bytes.Trim(rest, " ")) > 0 {
		return nil, nil, errors.New("has something after its object")
	}
	return entries, metadata, nil
}

// parseObject reads an object; value must consume the value of the key it is given.
func parseObject(dec *json.Decoder, value func(key string) error) error {
	if err := expect(dec, json.Delim('{')); err != nil {
		return err
	}
	seen := map[string]bool{}
	for dec.More() {
		token, err := next(dec)
		if err != nil {
			return err
		}
		key, ok := token.(string)
		if !ok {
			return fmt.Errorf("%v is no key", token)
		}
		if seen[key] {
			return fmt.Errorf("%q is there twice", shorten(key))
		}
		seen[key] = true
		if err := value(key); err != nil {
			return err
		}
	}
	return expect(dec, json.Delim('}'))
}

// parseStrings reads an object whose values are strings.
func parseStrings(dec *json.Decoder) (map[string]string, error) {
	out := map[string]string{}
	err := parseObject(dec, func(key string) error {
		token, err := next(dec)
		if err != nil {
			return err
		}
		text, ok := token.(string)
		if !ok {
			return fmt.Errorf("%q must be a string", shorten(key))
		}
		out[key] = text
		return nil
	})
	return out, err
}

func parseEntry(dec *json.Decoder, name string) (entry, error) {
	e := entry{name: name}
	var offsets []int
	err := parseObject(dec, func(key string) (err error) {
		switch key {
		case "dtype":
			token, err := next(dec)
			text, ok := token.(string)
			if err == nil && !ok {
				err = errors.New("dtype must be a string")
			}
			e.typ = Type(text)
			return err
		case "shape":
			e.shape, err = parseInts(dec, key)
			return err
		case "data_offsets":
			offsets, err = parseInts(dec, key)
			return err
		}
		return fmt.Errorf("key %q is not known", shorten(key))
	})
	switch {
	case err != nil:
		return e, err
	case e.typ == "":
		return e, errors.New("has no dtype")
	case e.shape == nil:
		return e, errors.New("has no shape")
	case len(offsets) != 2:
		return e, errors.New("needs two data_offsets")
	}
	e.begin, e.end = offsets[0], offsets[1]
	return e, nil
}

// parseInts reads an array of whole numbers that are not negative.
func parseInts(dec *json.Decoder, what string) ([]int, error) {
	if err := expect(dec, json.Delim('[')); err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	out := []int{}
	for dec.More() {
		token, err := next(dec)
		if err != nil {
			return nil, err
		}
		number, ok := token.(json.Number)
		if !ok {
			return nil, fmt.Errorf("%s: %v is no number", what, token)
		}
		n, err := strconv.ParseUint(number.String(), 10, 63)
		if err != nil {
			return nil, fmt.Errorf("%s: %s is no whole number from 0 to 2^63", what, shorten(number.String()))
		}
		out = append(out, int(n))
	}
	return out, expect(dec, json.Delim(']'))
}

func expect(dec *json.Decoder, want json.Delim) error {
	token, err := next(dec)
	if err != nil {
		return err
	}
	if got, ok := token.(json.Delim); !ok || got != want {
		return fmt.Errorf("want %v at byte %d", want, dec.InputOffset())
	}
	return nil
}

// next is Token, with an end that comes too early as an error of its own.
func next(dec *json.Decoder) (json.Token, error) {
	token, err := dec.Token()
	if errors.Is(err, io.EOF) {
		return nil, errors.New("ends within its JSON")
	}
	return token, err
}
