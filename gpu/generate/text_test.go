package generate_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"golang.org/x/sync/errgroup"

	"understudy/gpu/generate"
	"understudy/gpu/grammar"
)

// A text in a form may also end with a stop token of the request's own.
func TestStopTokenUnderGrammar(t *testing.T) {
	t.Parallel()
	e := newEngine(t, generate.Config{})
	v, err := grammar.NewVocabulary(tokens())
	if err != nil {
		t.Fatal(err)
	}
	g, err := grammar.New(v, grammar.Tools(grammar.Calls{Before: "<tool_call>\n", After: "\n</tool_call>", Tools: []grammar.Call{{Name: "get"}}}))
	if err != nil {
		t.Fatal(err)
	}
	ended := 0
	for seed := range uint64(40) {
		r := request(seed, 5, 100)
		r.Grammar, r.StopTokens = g, []int32{298}
		if out := run(t, e, r); out.Tokens[len(out.Tokens)-1].ID == 298 && out.Finish == generate.FinishStop {
			ended++
		}
	}
	if ended == 0 {
		t.Error("free text around calls never ended with the stop token")
	}
}

func TestGrammar(t *testing.T) {
	t.Parallel()
	e := newEngine(t, generate.Config{Workers: 2})
	v, err := grammar.NewVocabulary(tokens())
	if err != nil {
		t.Fatal(err)
	}
	g, err := grammar.New(v, grammar.Schema(json.RawMessage(`{"type":"object","properties":{"the":{"type":"string","maxLength":9},"n":{"type":"integer"}},"required":["the","n"],"additionalProperties":false}`)))
	if err != nil {
		t.Fatal(err)
	}
	var group errgroup.Group
	for i := range 64 {
		group.Go(func() error {
			r := request(uint64(i), 6, 22+i%20)
			r.Grammar, r.IgnoreEnd = g, i%2 == 0
			out, err := e.Generate(t.Context(), r)
			if err != nil {
				return err
			}
			var value struct {
				The *string
				N   *int
			}
			if err := json.Unmarshal([]byte(out.Text), &value); err != nil || value.The == nil || value.N == nil || out.Finish != generate.FinishStop {
				return fmt.Errorf("%q (%s): %w", out.Text, out.Finish, err)
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		t.Error(err)
	}
	noLeaks(t, e)
}

// forced is a grammar that writes text, and so a request whose text is known.
func forced(tb testing.TB, text string) *grammar.Grammar {
	tb.Helper()
	v, err := grammar.NewVocabulary(tokens())
	if err != nil {
		tb.Fatal(err)
	}
	g, err := grammar.New(v, grammar.Literal(text))
	if err != nil {
		tb.Fatal(err)
	}
	return g
}

func TestStopStringsAndStreaming(t *testing.T) {
	t.Parallel()
	e := newEngine(t, generate.Config{})
	tests := []struct {
		written string
		stop    []string
		want    string
		reason  string
	}{
		{"the cat sat", nil, "the cat sat", "no stop"},
		{"the cat STOP!", []string{"STOP"}, "the cat ", "a stop that may be one token or several"},
		{"the SSTOP cat", []string{"STOP"}, "the S", "a stop after its own beginning"},
		{"the STO cat", []string{"STOP", "zzz"}, "the STO cat", "a stop that began only"},
		{"the ST", []string{"STOP"}, "the ST", "held back until the end"},
		{"a€é€b", []string{"€b"}, "a€é", "characters of several tokens"},
		{"the cat", []string{"cat", "the c"}, "", "the earliest stop, not the first in the list"},
	}
	for _, test := range tests {
		for seed := range uint64(5) {
			r := request(seed, 4, 40)
			r.Grammar, r.Stop = forced(t, test.written), test.stop
			var streamed strings.Builder
			count := 0
			r.Emit = func(d generate.Delta) error {
				if !utf8.ValidString(d.Text) {
					return fmt.Errorf("half a character: %q", d.Text)
				}
				if d.Token != nil {
					count++
				}
				streamed.WriteString(d.Text)
				return nil
			}
			out := run(t, e, r)
			if out.Text != test.want || streamed.String() != out.Text || count != len(out.Tokens) || out.Finish != generate.FinishStop {
				t.Errorf("%s: text %q, streamed %q, want %q (%d of %d tokens, %s)", test.reason, out.Text, streamed.String(), test.want, count, len(out.Tokens), out.Finish)
			}
		}
	}
	r := request(1, 4, 40)
	fault := errors.New("the client is gone")
	r.Emit = func(generate.Delta) error { return fault }
	if _, err := e.Generate(t.Context(), r); !errors.Is(err, fault) {
		t.Errorf("got %v, want Emit's error", err)
	}
	noLeaks(t, e)
}
