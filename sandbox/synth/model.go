package synth

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
)

// Model is the author: it answers a prompt with JSON that fits a schema. An answer
// that was cut off is ErrTruncated; any other error ends the run.
type Model interface {
	Complete(ctx context.Context, p Prompt) (text string, used Tokens, err error)
}

// Prompt is one question to the author.
type Prompt struct {
	System, User string
	Schema       json.RawMessage // of the answer
	Temperature  float64
}

// Tokens counts what was read and written by a model.
type Tokens struct {
	Prompt     int `json:"prompt"`
	Completion int `json:"completion"`
}

func (t Tokens) add(u Tokens) Tokens {
	return Tokens{Prompt: t.Prompt + u.Prompt, Completion: t.Completion + u.Completion}
}

// total is all tokens together.
func (t Tokens) total() int { return t.Prompt + t.Completion }

// ErrBudget is returned when a run has used the tokens that it was given.
var ErrBudget = errors.New("the token budget is spent")

// ErrTruncated is returned by a Model whose answer was cut off.
var ErrTruncated = errors.New("it was cut off: be shorter")

// errModel marks a failure of the model's server: no environment is to blame.
var errModel = errors.New("ask the model")

// budget is what a whole run may still use; many authors share it.
type budget struct {
	limit int64 // 0 = no limit
	spent atomic.Int64
}

// author asks the model and counts what one environment costs.
type author struct {
	model  Model
	budget *budget
	tokens Tokens
}

// attempts is how often a question is put whose answer was not the JSON asked for.
const attempts = 3

// ask puts the question until the answer decodes into T and accept finds no fault
// with it; each time the author is told what was wrong.
func ask[T any](ctx context.Context, a *author, p Prompt, accept func(*T) error) (T, error) {
	var last error
	user := p.User
	for range attempts {
		var answer T
		text, err := a.once(ctx, p)
		switch {
		case errors.Is(err, ErrTruncated):
			last = ErrTruncated
		case err != nil:
			return answer, err
		default:
			last = decode(text, &answer)
		}
		if last == nil && accept != nil {
			last = accept(&answer)
		}
		if last == nil {
			return answer, nil
		}
		p.User = user + "\n\nYour previous answer was refused: " + last.Error() + "\nAnswer again, whole."
	}
	var none T
	return none, fmt.Errorf("%d answers were refused, the last because %w", attempts, last)
}

func (a *author) once(ctx context.Context, p Prompt) (string, error) {
	if a.budget.limit > 0 && a.budget.spent.Load() >= a.budget.limit {
		return "", ErrBudget
	}
	text, used, err := a.model.Complete(ctx, p)
	a.tokens = a.tokens.add(used)
	a.budget.spent.Add(int64(used.total()))
	if err != nil {
		return "", fmt.Errorf("%w: %w", errModel, err)
	}
	return text, nil
}

// decode reads the JSON value in text; models like to fence it.
func decode(text string, into any) error {
	text = strings.TrimSpace(text)
	if fenced, ok := strings.CutPrefix(text, "```"); ok {
		_, fenced, _ = strings.Cut(fenced, "\n")
		text, _, _ = strings.Cut(fenced, "\n```")
	}
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(into); err != nil {
		return fmt.Errorf("it is not the JSON that was asked for: %w", err)
	}
	return nil
}
