package trace

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
)

// record is one JSON value of a file and the line where it starts.
type record struct {
	body json.RawMessage
	line int
}

const (
	reasonTruncated = "truncated or invalid JSON"
	reasonOversize  = "record over the size limit"
)

// records yields the JSON values of a file: the elements of a top-level array,
// the lines of a JSON Lines file, or a single document over many lines. A
// broken line is skipped and counted; its neighbours are read.
func records(in *bufio.Reader, s *sink, yield func(record) error) error {
	first, err := firstByte(in)
	if err != nil {
		return nil //nolint:nilerr // an empty file holds no record; the caller says what that means
	}
	if first == '[' {
		return arrayRecords(in, s, yield)
	}
	line, oversize, readErr := readLine(in, s.opts.MaxRecord)
	if !oversize && !json.Valid(line) && readErr == nil {
		done, rest, err := documentRecord(line, in, s, yield)
		if done || err != nil {
			return err
		}
		in = bufio.NewReader(io.MultiReader(bytes.NewReader(rest), in))
		line, oversize, readErr = readLine(in, s.opts.MaxRecord)
	}
	for n := 1; ; n++ {
		switch {
		case oversize:
			s.skip(reasonOversize, 1, n)
		case len(bytes.TrimSpace(line)) == 0:
		case !json.Valid(line):
			s.skip(reasonTruncated, 1, n)
		default:
			if err := yield(record{body: line, line: n}); err != nil {
				return err
			}
		}
		if readErr != nil {
			return endOf(readErr)
		}
		line, oversize, readErr = readLine(in, s.opts.MaxRecord)
	}
}

// documentRecord reads the rest of the file as one pretty-printed document. If
// it is none, the bytes read so far are handed back for reading line by line.
func documentRecord(head []byte, in *bufio.Reader, s *sink, yield func(record) error) (done bool, rest []byte, err error) {
	body, err := io.ReadAll(io.LimitReader(in, int64(s.opts.MaxRecord)))
	if err != nil {
		return false, nil, err
	}
	whole := bytes.Join([][]byte{head, body}, []byte("\n"))
	if !json.Valid(whole) {
		return false, whole, nil
	}
	return true, nil, yield(record{body: whole, line: 1})
}

func arrayRecords(in *bufio.Reader, s *sink, yield func(record) error) error {
	capped := &cappedReader{in: in, left: s.opts.MaxRecord}
	decoder := json.NewDecoder(capped)
	_, broken := decoder.Token()
	for n := 1; broken == nil && decoder.More(); n++ {
		var body json.RawMessage
		if broken = decoder.Decode(&body); broken != nil {
			break
		}
		capped.left = s.opts.MaxRecord
		if err := yield(record{body: body, line: n}); err != nil {
			return err
		}
	}
	switch {
	case errors.Is(broken, errOversize):
		s.skip(reasonOversize, 1, 0)
	case broken != nil:
		s.skip(reasonTruncated, 1, 0) // a broken element hides where the next one starts
	}
	return nil
}

var errOversize = errors.New(reasonOversize)

// cappedReader ends with errOversize when left bytes were read: a decoder holds
// a whole element in memory.
type cappedReader struct {
	in   io.Reader
	left int
}

func (r *cappedReader) Read(b []byte) (int, error) {
	if r.left <= 0 {
		return 0, errOversize
	}
	n, err := r.in.Read(b)
	r.left -= n
	return n, err
}

func firstByte(in *bufio.Reader) (byte, error) {
	for {
		b, err := in.ReadByte()
		if err != nil {
			return 0, err
		}
		if b != ' ' && b != '\n' && b != '\r' && b != '\t' && b != 0xEF && b != 0xBB && b != 0xBF {
			return b, in.UnreadByte()
		}
	}
}

// readLine returns the next line without its end. A line longer than limit is
// read to its end and dropped.
func readLine(in *bufio.Reader, limit int) (line []byte, oversize bool, err error) {
	for {
		part, err := in.ReadSlice('\n')
		if len(line)+len(part) > limit {
			oversize, line = true, nil
		} else if !oversize {
			line = append(line, part...)
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return bytes.TrimRight(line, "\r\n"), oversize, err
		}
	}
}

func endOf(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}
