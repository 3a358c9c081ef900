package guard

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"understudy/audit"
	"understudy/audit/atomicfile"
	"understudy/audit/lockfile"
)

// Phase is how far a call, or the whole execution, has come.
type Phase string

// The phases.
const (
	Decided  Phase = "decided"  // before the call is made
	Answered Phase = "answered" // after it
	Done     Phase = "done"     // the execution has ended; Answer is its outcome
)

// Entry is one line of a journal.
type Entry struct {
	Time      time.Time       `json:"time"`
	Execution string          `json:"execution"`
	Index     int             `json:"index"` // of the call in its execution
	Phase     Phase           `json:"phase"`
	Key       audit.Digest    `json:"key,omitzero"` // idempotency key of the call
	Call      *audit.Call     `json:"call,omitempty"`
	Decision  *Decision       `json:"decision,omitempty"`
	Rules     audit.Digest    `json:"rules,omitzero"` // by which rehearsals were read, where somebody wrote some
	Status    audit.Status    `json:"status,omitempty"`
	Answer    json.RawMessage `json:"answer,omitempty"`
	Text      string          `json:"text,omitempty"` // an answer that is no JSON
}

// Journal keeps decisions and answers.
type Journal interface {
	// Entries are those of an execution, in order.
	Entries(ctx context.Context, execution string) ([]Entry, error)
	// Append returns when the entry is durable.
	Append(ctx context.Context, e Entry) error
}

// File is a journal in a file of JSON Lines, held by one process. It is safe for
// concurrent use.
type File struct {
	mu      sync.Mutex
	file    *os.File
	lock    *lockfile.Lock
	entries map[string][]Entry
	broken  error // after a write that did not reach the disk nothing more is promised
}

var _ Journal = (*File)(nil)

// OpenFile reads a journal, or begins one. A last line that a crash cut is taken
// away: it was not durable, so nothing was done because of it. Any other line that
// cannot be read is an error.
func OpenFile(path string) (*File, error) {
	lock, err := lockfile.Acquire(path + ".lock")
	if err != nil {
		return nil, &audit.Error{Code: audit.CodeConflict, Message: "open journal " + path, Err: err, Hint: "wait for the other process, or give another journal"}
	}
	f := &File{lock: lock, entries: map[string][]Entry{}}
	if f.file, err = os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600); err == nil {
		err = f.read(path)
	}
	if err == nil { // a new journal must not go with a crash of the machine
		err = atomicfile.SyncFolder(filepath.Dir(path))
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

func (f *File) read(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("read journal: %w", err)
	}
	whole := bytes.LastIndexByte(text, '\n') + 1
	for line := range bytes.Lines(text[:whole]) {
		var e Entry
		if err := json.Unmarshal(line, &e); err != nil {
			return &audit.Error{Code: audit.CodeInvalid, Message: fmt.Sprintf("journal %s: %.60q", path, line), Err: err, Hint: "what is in doubt must not be guessed: restore the file"}
		}
		f.entries[e.Execution] = append(f.entries[e.Execution], e)
	}
	if err := f.file.Truncate(int64(whole)); err != nil {
		return fmt.Errorf("take a cut line from the journal: %w", err)
	}
	_, err = f.file.Seek(int64(whole), 0)
	return err
}

// Entries implements Journal.
func (f *File) Entries(_ context.Context, execution string) ([]Entry, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]Entry(nil), f.entries[execution]...), nil
}

// Append implements Journal.
func (f *File) Append(_ context.Context, e Entry) error {
	line, err := json.Marshal(e)
	if err != nil {
		return fmt.Errorf("encode a journal entry: %w", err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.broken != nil {
		return f.broken
	}
	if _, err = f.file.Write(append(line, '\n')); err == nil {
		err = f.file.Sync()
	}
	if err != nil {
		f.broken = fmt.Errorf("write the journal: %w", err)
		return f.broken
	}
	f.entries[e.Execution] = append(f.entries[e.Execution], e)
	return nil
}

// Close gives the file back.
func (f *File) Close() error {
	var err error
	if f.file != nil {
		err = f.file.Close()
	}
	return errors.Join(err, f.lock.Release())
}

// Volatile is a journal in memory, for environments whose state ends with the
// process. It is safe for concurrent use.
type Volatile struct {
	mu      sync.Mutex
	entries map[string][]Entry
}

var _ Journal = (*Volatile)(nil)

// Entries implements Journal.
func (v *Volatile) Entries(_ context.Context, execution string) ([]Entry, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return append([]Entry(nil), v.entries[execution]...), nil
}

// Append implements Journal.
func (v *Volatile) Append(_ context.Context, e Entry) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.entries == nil {
		v.entries = map[string][]Entry{}
	}
	v.entries[e.Execution] = append(v.entries[e.Execution], e)
	return nil
}
