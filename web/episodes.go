package web

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"

	"github.com/gin-gonic/gin"

	"understudy/audit"
	"understudy/web/access"
)

const (
	// maxLine is the longest line of a streamed episode: a rehearsal of the
	// largest size that is compared, with its call.
	maxLine = 4 << 20
	// maxWaiting is how many steps that have come in already share a batch.
	maxWaiting = 64
)

// episodeHeader is the first line of a streamed episode.
type episodeHeader struct {
	Run         string      `json:"run,omitempty"`
	Policy      string      `json:"policy"`
	Checkpoint  int64       `json:"checkpoint"`
	Environment string      `json:"environment"`
	Start       audit.Start `json:"start,omitzero"`
	Mode        audit.Mode  `json:"mode,omitempty"`
	Episode     string      `json:"episode"`
	PromptGroup string      `json:"prompt_group,omitempty"`
	Attempt     int         `json:"attempt,omitempty"`
}

// episodeStep is every other line: one call with its rehearsal.
type episodeStep struct {
	Call       audit.Call `json:"call"`
	Rehearsal  *string    `json:"rehearsal"`
	Confidence *float64   `json:"confidence,omitempty"`
	Truncated  bool       `json:"truncated,omitempty"`
	Success    *bool      `json:"success,omitempty"` // with the last one
}

// postEpisodes scores the steps of an episode as they come in, one JSON object a
// line, and answers each with a line of its own. An error ends the answer with a
// line {"error": ...}; what was answered before it stands.
func (cfg Config) postEpisodes(c *gin.Context) {
	// Answers begin before the request has ended.
	if err := http.NewResponseController(c.Writer).EnableFullDuplex(); err != nil && !errors.Is(err, http.ErrNotSupported) {
		cfg.fail(c, fmt.Errorf("stream an episode: %w", err))
		return
	}
	access.Patient(c)
	ctx, cancel := context.WithCancelCause(c.Request.Context())
	defer cancel(nil)
	lines := make(chan []byte, maxWaiting)
	go readLines(ctx, c.Request.Body, lines, cancel)
	s := episodeStream{cfg: cfg, c: c}
	if err := s.run(ctx, lines); err != nil {
		s.fail(err)
	}
}

// readLines sends the lines of a body that are not empty, then closes lines. A
// body that cannot be read ends ctx with why.
func readLines(ctx context.Context, body io.Reader, lines chan<- []byte, cancel context.CancelCauseFunc) {
	defer close(lines)
	scanner := bufio.NewScanner(body)
	scanner.Buffer(make([]byte, 0, 64<<10), maxLine)
	for scanner.Scan() {
		if line := bytes.TrimSpace(scanner.Bytes()); len(line) > 0 {
			select {
			case lines <- bytes.Clone(line):
			case <-ctx.Done():
				return
			}
		}
	}
	if err := scanner.Err(); errors.Is(err, bufio.ErrTooLong) {
		cancel(&audit.Error{Code: audit.CodeLimit, Message: "a line of the episode is over 4 MiB", Hint: "a rehearsal may have 1 MiB"})
	} else if err != nil {
		cancel(&audit.Error{Code: audit.CodeInvalid, Message: "the episode broke off", Hint: "send it again: it is paid once", Err: err})
	}
}

// episodeStream is one streamed episode.
type episodeStream struct {
	cfg     Config
	c       *gin.Context
	header  episodeHeader
	history []audit.Earlier
	line    int  // that was read last, from 1; empty ones do not count
	began   bool // the answer's status is out
}

func (s *episodeStream) run(ctx context.Context, lines <-chan []byte) error {
	first, ok := <-lines
	if !ok {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		return invalid("an empty episode", `begin with {"policy": ..., "environment": ..., "episode": ...}`)
	}
	if err := s.decode(first, &s.header); err != nil {
		return err
	}
	for more := true; more; {
		var (
			steps []episodeStep
			err   error
		)
		steps, more, err = s.take(lines)
		if len(steps) > 0 {
			if err := s.score(ctx, steps); err != nil {
				return err
			}
		}
		if err != nil {
			return err
		}
	}
	return context.Cause(ctx)
}

// take waits for a step and takes those that are there already, too. A line that
// cannot be read is the error; the steps before it are good.
func (s *episodeStream) take(lines <-chan []byte) (steps []episodeStep, more bool, err error) {
	line, ok := <-lines
	for ok {
		var step episodeStep
		if err := s.decode(line, &step); err != nil {
			return steps, true, err
		}
		if steps = append(steps, step); len(steps) == maxWaiting {
			return steps, true, nil
		}
		select {
		case line, ok = <-lines:
		default:
			return steps, true, nil
		}
	}
	return steps, false, nil
}

// decode reads the next line.
func (s *episodeStream) decode(line []byte, into any) error {
	s.line++
	if err := audit.DecodeStrict(line, into); err != nil {
		return &audit.Error{
			Code: audit.CodeInvalid, Message: "line " + strconv.Itoa(s.line) + " of the episode cannot be read", Err: err,
			Hint: `send one object a line (curl --data-binary): first {"policy", "environment", "episode"}, then {"call", "rehearsal"} for each step`,
		}
	}
	return nil
}

// score scores steps that follow one another, and answers them.
func (s *episodeStream) score(ctx context.Context, steps []episodeStep) error {
	h := &s.header
	batch := audit.ScoreBatch{Run: h.Run, Policy: h.Policy, Checkpoint: h.Checkpoint}
	for i := range steps {
		step := &steps[i]
		batch.Outputs = append(batch.Outputs, audit.Output{
			Environment: h.Environment, Start: h.Start, Mode: h.Mode, Episode: h.Episode, PromptGroup: h.PromptGroup, Attempt: h.Attempt,
			History: slices.Clip(s.history), Call: step.Call, Rehearsal: step.Rehearsal, Sample: new(0),
			Confidence: step.Confidence, Truncated: step.Truncated, Success: step.Success,
		})
		s.history = append(s.history, audit.Earlier{Call: step.Call, Answer: step.Rehearsal})
	}
	scores, err := s.cfg.Scorer.Score(ctx, batch)
	if err != nil {
		return err
	}
	if scores.Pending > 0 {
		if scores, err = s.cfg.Scorer.Scores(ctx, scores.ID, maxPull); err != nil {
			return err
		}
	}
	for i := range scores.Scores {
		if err := s.answer(&scores.Scores[i]); err != nil {
			return err
		}
	}
	if err := http.NewResponseController(s.c.Writer).Flush(); err != nil {
		return fmt.Errorf("answer a step: %w", err)
	}
	return nil
}

func (s *episodeStream) answer(v any) error {
	if !s.began {
		s.began = true
		s.c.Header("Content-Type", "application/x-ndjson")
		s.c.Status(http.StatusOK)
	}
	text, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode a score: %w", err)
	}
	_, err = s.c.Writer.Write(append(text, '\n'))
	return err
}

// fail says what went wrong: as the status where that is not out yet.
func (s *episodeStream) fail(err error) {
	if !s.began {
		s.cfg.fail(s.c, err)
		return
	}
	s.cfg.logOwn(s.c, err)
	_ = s.answer(audit.ReportError(err)) // a client that is gone is told nothing
}
