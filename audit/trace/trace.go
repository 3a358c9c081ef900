package trace

import (
	"bufio"
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"understudy/audit"
)

// Answers says what the answers in a file are to the audit.
type Answers string

// The readings of a recorded answer.
const (
	AsRehearsal Answers = "rehearsal" // what a model imagined: it is judged
	AsReal      Answers = "real"      // what a real system answered: evidence, kept beside the sandbox's own
	AsBoth      Answers = "both"      // the recording plays the rehearser: a faithful one scores 100 %
)

// Options says how to read a file. The zero value detects the format and reads
// the answers as rehearsals.
type Options struct {
	Format      string     // one of Formats; "" = detect
	Environment string     // the sandbox to audit against; "" = what the file names
	Policy      string     // "" = what the file names, else the file's name
	Mode        audit.Mode // "" = open
	Answers     Answers    // "" = AsRehearsal
	MaxRecord   int        // bytes of one record; 0 = 128 MiB
}

// maxRecord holds a 100 MB episode; a longer line is skipped and counted.
const maxRecord = 128 << 20

// Report counts what an import did.
type Report struct {
	Format   string
	Episodes int
	Calls    int
	Skipped  []Skip // most frequent first
}

// Skip counts what was left out for one reason.
type Skip struct {
	Reason string
	Count  int
	Line   int // of the first one; 0 = not a matter of lines
}

// String is the one line that people read after an import.
func (r Report) String() string {
	total := 0
	reasons := make([]string, 0, len(r.Skipped))
	for _, s := range r.Skipped {
		total += s.Count
		reason := fmt.Sprintf("%s (%d", s.Reason, s.Count)
		if s.Line > 0 {
			reason += fmt.Sprintf(", first at line %d", s.Line)
		}
		reasons = append(reasons, reason+")")
	}
	text := fmt.Sprintf("imported %d calls in %d episodes (%s)", r.Calls, r.Episodes, r.Format)
	if total == 0 {
		return text + ", skipped 0"
	}
	return fmt.Sprintf("%s, skipped %d because %s", text, total, strings.Join(reasons, "; "))
}

// Import reads the episodes of the file at path and yields them in order. An
// error of yield ends the import and is returned as it is. A file that is
// missing or of no known format is an *audit.Error.
func Import(path string, opts Options, yield func(audit.Episode) error) (Report, error) {
	// Asked before it is opened: a pipe that nobody writes to would be waited for.
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return Report{}, &audit.Error{
			Code: audit.CodeInvalid, Message: "trajectory file " + path + " is a folder, a pipe or a device",
			Hint: "name a file; write what a pipe brings into one first",
		}
	}
	file, err := os.Open(path)
	if err != nil {
		return Report{}, &audit.Error{
			Code: audit.CodeNotFound, Message: "trajectory file",
			Hint: "name a readable file", Err: err,
		}
	}
	defer func() { _ = file.Close() }()
	opts.MaxRecord = cmp.Or(opts.MaxRecord, maxRecord)
	s := &sink{opts: opts, file: path, yield: yield, skips: map[string]*Skip{}}
	if opts.Format != "" && !slices.Contains(Formats(), opts.Format) {
		return Report{}, unknownFormat(opts.Format, path)
	}
	in := bufio.NewReaderSize(file, 1<<20)
	if head, _ := in.Peek(4); string(head) == zipMagic {
		err = importInspect(file, s)
	} else {
		err = importRecords(in, s)
	}
	return s.report(), err
}

func importRecords(in *bufio.Reader, s *sink) error {
	var (
		r      reader
		format = s.opts.Format
	)
	err := records(in, s, func(rec record) error {
		if r == nil {
			format = cmp.Or(format, detect(rec.body))
			if r = newReader(format); r == nil {
				return unknownFormat("", s.file)
			}
			s.format = format
		}
		r.read(rec, s)
		return s.err
	})
	if r != nil && err == nil {
		r.flush(s)
		err = s.err
	}
	if r == nil && err == nil {
		err = unknownFormat("", s.file)
	}
	return err
}

func unknownFormat(name, path string) error {
	message := "trajectory file " + path + " is in no format that we know"
	if name != "" {
		message = fmt.Sprintf("trajectory format %q is unknown", name)
	}
	return &audit.Error{
		Code: audit.CodeInvalid, Message: message,
		Hint: "known formats: " + strings.Join(Formats(), ", ") + "; one JSON object a line with \"messages\" always works",
	}
}

// sink collects episodes and skips on their way out.
type sink struct {
	opts   Options
	file   string
	format string
	yield  func(audit.Episode) error
	err    error // of yield; readers stop at it
	out    Report
	skips  map[string]*Skip
}

func (s *sink) skip(reason string, count, line int) {
	if count == 0 {
		return
	}
	if found, ok := s.skips[reason]; ok {
		found.Count += count
		return
	}
	s.skips[reason] = &Skip{Reason: reason, Count: count, Line: line}
}

func (s *sink) report() Report {
	r := s.out
	r.Format = cmp.Or(s.format, s.opts.Format, "unknown")
	for _, skip := range s.skips {
		r.Skipped = append(r.Skipped, *skip)
	}
	slices.SortFunc(r.Skipped, func(a, b Skip) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), strings.Compare(a.Reason, b.Reason))
	})
	return r
}

func baseName(path string) string {
	name := filepath.Base(path)
	return strings.TrimSuffix(name, filepath.Ext(name))
}
