package starlark

import (
	"bufio"
	bin "encoding/binary"
	"errors"
	"fmt"
	"io"
	"time"

	"understudy/audit"
	"understudy/audit/diff"
)

// Calls and observations cross the pipe in a form of their own, because JSON
// would cost more than the call: tagCall or tagDryRun, then the fields in order,
// each text behind its length. Everything else is JSON, which begins with {.
const (
	tagCall        = 'C'
	tagDryRun      = 'D'
	tagObservation = 'O'
)

// maxFrame bounds one message of a child; beyond it the child is broken.
const maxFrame = 256 << 20

var errFrame = errors.New("a malformed message")

// writeFrame writes a message behind its length.
func writeFrame(w *bufio.Writer, message []byte) error {
	var size [4]byte
	bin.BigEndian.PutUint32(size[:], uint32(len(message)))
	_, err := w.Write(size[:])
	if err == nil {
		_, err = w.Write(message)
	}
	return errors.Join(err, w.Flush())
}

// readFrame reads one message into buf, which it grows.
func readFrame(r *bufio.Reader, buf []byte) ([]byte, error) {
	var size [4]byte
	if _, err := io.ReadFull(r, size[:]); err != nil {
		return nil, err
	}
	n := int(bin.BigEndian.Uint32(size[:]))
	if n > maxFrame {
		return nil, fmt.Errorf("%w of %d bytes", errFrame, n)
	}
	if cap(buf) < n {
		buf = make([]byte, n)
	}
	_, err := io.ReadFull(r, buf[:n])
	return buf[:n], err
}

func appendBytes[T ~string | ~[]byte](b []byte, text T) []byte {
	return append(bin.AppendUvarint(b, uint64(len(text))), text...)
}

// appendCall writes a call or dry run of a session.
func appendCall(b []byte, tag byte, session int, call *audit.Call) []byte {
	b = bin.AppendUvarint(append(b, tag), uint64(session))
	return appendBytes(appendBytes(appendBytes(b, call.Tool), call.Arguments), call.Role)
}

func appendObservation(b []byte, o *audit.Observation) []byte {
	b = appendBytes(append(b, tagObservation), o.Status)
	b = appendBytes(appendBytes(b, o.Raw), o.Evidence)
	e := audit.CallError{}
	if o.Error != nil {
		e = *o.Error
	}
	b = appendBytes(appendBytes(appendBytes(b, e.Family), e.Message), e.Details)
	b = append(append(b, o.Before[:]...), o.After[:]...)
	for _, n := range []uint64{o.Cost.Steps, o.Cost.Bytes, uint64(o.Cost.Wall), uint64(len(o.Delta))} {
		b = bin.AppendUvarint(b, n)
	}
	for i := range o.Delta {
		op := &o.Delta[i]
		b = appendBytes(appendBytes(appendBytes(appendBytes(b, op.Op), op.Path), op.Value), op.Old)
	}
	return b
}

// fields reads what the append functions wrote; the first fault sticks.
type fields struct {
	b   []byte
	bad bool
}

func (f *fields) uint() uint64 {
	n, size := bin.Uvarint(f.b)
	if size <= 0 {
		f.bad = true
		return 0
	}
	f.b = f.b[size:]
	return n
}

func (f *fields) take(n uint64) []byte {
	if f.bad || n > uint64(len(f.b)) {
		f.bad = true
		return nil
	}
	part := f.b[:n]
	f.b = f.b[n:]
	return part
}

// bytes is the next text in memory of its own, nil when it is empty.
func (f *fields) bytes() []byte { return append([]byte(nil), f.take(f.uint())...) }

func (f *fields) text() string { return string(f.take(f.uint())) }

func (f *fields) digest() (d audit.Digest) {
	copy(d[:], f.take(uint64(len(d))))
	return d
}

// readCall reads a request that appendCall wrote.
func readCall(message []byte) (request, error) {
	f := fields{b: message[1:]}
	req := request{Op: opCall, Session: int(f.uint())}
	if message[0] == tagDryRun {
		req.Op = opDryRun
	}
	req.Call = &audit.Call{Tool: f.text(), Arguments: f.bytes(), Role: f.text()}
	if f.bad || len(f.b) > 0 {
		return req, errFrame
	}
	return req, nil
}

func readObservation(message []byte, o *audit.Observation) error {
	f := fields{b: message[1:]}
	o.Status, o.Raw, o.Evidence = audit.Status(f.text()), f.bytes(), audit.Evidence(f.text())
	e := &audit.CallError{Family: audit.Family(f.text()), Message: f.text(), Details: f.bytes()}
	if e.Family != "" {
		o.Error = e
	}
	o.Before, o.After = f.digest(), f.digest()
	o.Cost = audit.Cost{Steps: f.uint(), Bytes: f.uint(), Wall: time.Duration(f.uint())}
	n := f.uint()
	if n > uint64(len(f.b)) {
		return errFrame
	}
	o.Delta = make(diff.Patch, n)
	for i := range o.Delta {
		o.Delta[i] = diff.Op{Op: f.text(), Path: f.text(), Value: f.bytes(), Old: f.bytes()}
	}
	if f.bad || len(f.b) > 0 {
		return errFrame
	}
	return nil
}
