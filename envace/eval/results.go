package eval

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"understudy/audit"
	"understudy/audit/atomicfile"
	"understudy/audit/lockfile"
	"understudy/envace"
)

// Result is one sample of one task: a line of a results file.
type Result struct {
	Task    string      `json:"task"`
	Sample  int         `json:"sample"` // from 0
	Success bool        `json:"success"`
	Score   float64     `json:"score"`
	Unknown string      `json:"unknown,omitempty"` // why nobody can say; it is tried again
	Failed  []string    `json:"failed,omitempty"`
	Stop    envace.Stop `json:"stop"`
	Tools   *ToolUse    `json:"tools,omitempty"`
	Initial bool        `json:"initial,omitempty"`
	Calls   int         `json:"calls"`  // executed
	Tokens  int         `json:"tokens"` // sampled, in private too; 0 where the server does not say
	Memory  int         `json:"memory,omitempty"`
}

type sampleKey struct {
	task   string
	sample int
}

// Book is the results file of one run: a line that says what is played, then one for
// each sample. It is safe for concurrent use; no other process may have it open.
type Book struct {
	lock *lockfile.Lock

	mu     sync.Mutex
	file   *os.File
	broken error // after a line that was not written whole none may follow: the file could not be read
	done   map[sampleKey]Result
	all    []Result
}

// bookName is the file of a benchmark in a folder of results.
func bookName(benchmark string) string {
	clean := strings.Map(func(r rune) rune {
		if strings.ContainsRune(`/\:*?"<>| `, r) {
			return '-'
		}
		return r
	}, benchmark)
	return clean + ".jsonl"
}

// OpenBook opens the results of a run in folder, to go on with. What a crash cut off
// and what was unknown is dropped, to be played again. Results of anything else than
// run, and a file that another process has open, are an *audit.Error.
func OpenBook(folder string, run Run) (_ *Book, err error) {
	path := filepath.Join(folder, bookName(run.Benchmark))
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return nil, fmt.Errorf("make the folder of results: %w", err)
	}
	b := &Book{done: map[sampleKey]Result{}}
	if b.lock, err = claim(path); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, b.lock.Remove())
		}
	}()
	found, results, err := readBook(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
	case err != nil:
		return nil, err
	case found != run:
		return nil, &audit.Error{
			Code: audit.CodeConflict, Message: fmt.Sprintf("%s holds results of another run: %s", path, differences(found, run)),
			Hint: "give the same flags to go on with it, or another --out",
		}
	}
	text, err := json.Marshal(run)
	if err != nil {
		return nil, fmt.Errorf("encode the run: %w", err)
	}
	text = append(text, '\n')
	for _, r := range results {
		key := sampleKey{r.Task, r.Sample}
		if _, twice := b.done[key]; twice || r.Unknown != "" {
			continue
		}
		b.done[key], b.all = r, append(b.all, r)
		line, err := json.Marshal(r)
		if err != nil {
			return nil, fmt.Errorf("encode a result: %w", err)
		}
		text = append(append(text, line...), '\n')
	}
	if err := atomicfile.Write(path, text, 0o644); err != nil {
		return nil, err
	}
	if b.file, err = os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0o644); err != nil {
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	return b, nil
}

// claim keeps a second process from the file: it would play the same samples, and
// each would drop what the other wrote.
func claim(path string) (*lockfile.Lock, error) {
	lock, err := lockfile.Acquire(path + ".lock")
	if held, ok := errors.AsType[*lockfile.HeldError](err); ok {
		return nil, &audit.Error{
			Code: audit.CodeConflict, Message: path + " is being written by another evaluation", Err: held,
			Hint: "wait for that process or stop it, or give another --out folder",
		}
	}
	return lock, err
}

// readBook reads a results file; a last line that was cut off is left out.
func readBook(path string) (run Run, results []Result, err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return run, nil, fmt.Errorf("read the results: %w", err)
	}
	lines := bytes.Split(text, []byte("\n"))
	lines = lines[:len(lines)-1] // after the last newline: nothing, or what was cut off
	damaged := func(i int, err error) error {
		return &audit.Error{Code: audit.CodeInvalid, Message: fmt.Sprintf("%s, line %d", path, i+1), Err: err, Hint: "the file is no results file, or damaged: move it away"}
	}
	for i, line := range lines {
		if i == 0 {
			err = json.Unmarshal(line, &run)
		} else {
			var r Result
			err = json.Unmarshal(line, &r)
			results = append(results, r)
		}
		if err != nil {
			return run, nil, damaged(i, err)
		}
	}
	if run.Benchmark == "" {
		return run, nil, damaged(0, errors.New("it names no benchmark"))
	}
	return run, results, nil
}

// differences names the settings in which two runs differ.
func differences(found, wanted Run) string {
	fields := func(r Run) map[string]any {
		text, _ := json.Marshal(r) // plain values
		var m map[string]any
		_ = json.Unmarshal(text, &m)
		return m
	}
	a, b := fields(found), fields(wanted)
	names := map[string]bool{}
	for name := range a {
		names[name] = true
	}
	for name := range b {
		names[name] = true
	}
	var out []string
	for name := range names {
		if a[name] != b[name] {
			out = append(out, fmt.Sprintf("%s was %v and is %v", name, a[name], b[name]))
		}
	}
	slices.Sort(out)
	return strings.Join(out, ", ")
}

// Has says whether a sample is known.
func (b *Book) Has(task string, sample int) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	_, found := b.done[sampleKey{task, sample}]
	return found
}

// Write keeps a result.
func (b *Book) Write(r Result) error {
	line, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("encode a result: %w", err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.broken != nil {
		return b.broken
	}
	if _, err := b.file.Write(append(line, '\n')); err != nil {
		b.broken = fmt.Errorf("keep a result: %w", err)
		return b.broken
	}
	b.done[sampleKey{r.Task, r.Sample}], b.all = r, append(b.all, r)
	return nil
}

// Results are all that are kept, unknown ones of this run included.
func (b *Book) Results() []Result {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.all)
}

// Close closes the file and lets others have it.
func (b *Book) Close() error { return errors.Join(b.file.Close(), b.lock.Remove()) }

// ReadAll reads the benchmarks that were played into a folder, in the order of their
// names.
func ReadAll(folder string) ([]Played, error) {
	paths, err := filepath.Glob(filepath.Join(folder, "*.jsonl"))
	if err != nil {
		return nil, fmt.Errorf("look for results: %w", err)
	}
	played := make([]Played, 0, len(paths))
	for _, path := range paths {
		run, results, err := readBook(path)
		if err != nil {
			return nil, err
		}
		played = append(played, Played{run, Compute(results, run.Samples)})
	}
	return played, nil
}
