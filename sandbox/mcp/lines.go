package mcp

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"sync"

	"understudy/sandbox/adapter"
)

// maxAnswerLine is the longest line with an answer to a call that is decoded: an
// answer of the largest size as text and once more as structured content, with
// room for escapes. What is longer is kept as the beginning of its bytes, which
// every reader finds to be oversize: decoding it again and again, as the layers
// above do, would cost seconds and hundreds of megabytes for nothing.
const maxAnswerLine = 4 * adapter.MaxAnswer

// lines reads a server's stdout line by line for the SDK.
type lines struct {
	io.Closer
	in   *bufio.Reader
	tap  *tap
	rest []byte // of the line that is being handed on
	once sync.Once
	end  chan struct{} // closed when the server has closed its stdout
}

func newLines(stdout io.ReadCloser, t *tap) *lines {
	return &lines{Closer: stdout, in: bufio.NewReaderSize(stdout, 1<<16), tap: t, end: make(chan struct{})}
}

// Read implements io.Reader. Only one goroutine reads, the SDK's.
func (l *lines) Read(p []byte) (int, error) {
	if len(l.rest) == 0 {
		line, err := l.next()
		if len(line) == 0 {
			if errors.Is(err, io.EOF) {
				l.once.Do(func() { close(l.end) })
			}
			return 0, err
		}
		l.rest = line
	}
	n := copy(p, l.rest)
	l.rest = l.rest[n:]
	return n, nil
}

func (l *lines) next() ([]byte, error) {
	var line []byte
	for {
		part, err := l.in.ReadSlice('\n')
		line = append(line, part...)
		if len(line) > adapter.MaxTransfer {
			return nil, errTransfer
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		if len(line) > maxAnswerLine {
			line = l.short(line)
		}
		if len(line) > 0 {
			err = nil // it comes again with the next read
		}
		return line, err
	}
}

// short replaces an answer that is too long by an empty one, if a call waits for it.
func (l *lines) short(line []byte) []byte {
	var response struct {
		ID     json.RawMessage `json:"id"`
		Method string          `json:"method"`
	}
	if json.Unmarshal(line, &response) != nil || len(response.ID) == 0 || response.Method != "" || !l.tap.cut(line) {
		return line
	}
	return bytes.Join([][]byte{[]byte(`{"jsonrpc":"2.0","id":`), response.ID, []byte(`,"result":{"content":[]}}` + "\n")}, nil)
}
