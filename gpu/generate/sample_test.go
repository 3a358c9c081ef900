package generate_test

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"testing"

	"golang.org/x/sync/errgroup"

	"understudy/gpu/generate"
)

// Weights that give NaN fail the request, not the engine.
func TestLogitsThatAreNoNumbers(t *testing.T) {
	t.Parallel()
	m := tinyModel(t)
	embed, _ := m.Params.Find("model.embed_tokens.weight")
	row := make([]float32, 16)
	for i := range row {
		row[i] = float32(math.NaN())
	}
	m.Device().Upload(embed.Slice(7*16, 8*16), row)
	e, err := generate.New(m, generate.Config{Batch: 4, Tokens: tokens()})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	r := request(1, 5, 3)
	if _, err := e.Generate(t.Context(), r); !errors.Is(err, generate.ErrNotFinite) {
		t.Errorf("got %v: token 7's logit is NaN for every prompt of a tied model", err)
	}
	noLeaks(t, e)
}

// Log-probabilities are what they say.
func TestLogProbs(t *testing.T) {
	t.Parallel()
	e := newEngine(t, generate.Config{})
	r := request(5, 9, 1)
	r.TopLogProbs = 20
	counts, draws := map[int32]int{}, rounds(3000)
	chance := map[int32]float64{}
	var group errgroup.Group
	var mu sync.Mutex
	group.SetLimit(16)
	for i := range draws {
		group.Go(func() error {
			one := r
			one.Sampling = generate.Sampling{Temperature: 0.7, TopK: 12, Seed: uint64(i)}
			out, err := e.Generate(t.Context(), one)
			if err != nil {
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			token := out.Tokens[0]
			counts[token.ID]++
			chance[token.ID] = math.Exp(float64(token.Drawn))
			if token.Drawn < token.Tempered {
				return fmt.Errorf("token %d: drawn at %v, below %v of the whole distribution", token.ID, token.Drawn, token.Tempered)
			}
			if !slices.ContainsFunc(token.Top, func(l generate.Likely) bool { return l.ID == token.ID && l.LogProb == token.LogProb }) {
				return fmt.Errorf("token %d at %v is not among the most likely %v", token.ID, token.LogProb, token.Top)
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	sum, statistic := 0.0, 0.0
	for id, p := range chance {
		sum += p
		expected := p * float64(draws)
		statistic += (float64(counts[id]) - expected) * (float64(counts[id]) - expected) / expected
	}
	if math.Abs(sum-1) > 1e-3 || len(chance) != 12 {
		t.Errorf("%d tokens were drawn with a total probability of %v, want 12 of top-k and 1", len(chance), sum)
	}
	if statistic > 31.3 { // chi-square with 11 degrees of freedom, p = 0.001
		t.Errorf("chi-square %v: tokens are not drawn as often as they say", statistic)
	}
	at1 := run(t, e, request(5, 9, 4))
	for _, token := range at1.Tokens {
		if token.LogProb != token.Tempered || math.Abs(float64(token.Drawn-token.LogProb)) > 1e-5 {
			t.Errorf("at temperature 1 without truncation all three are one: %+v", token)
		}
	}
}

func TestTruncation(t *testing.T) {
	t.Parallel()
	e := newEngine(t, generate.Config{})
	base := request(6, 11, 8)
	greedy := base
	greedy.Sampling = generate.Sampling{}
	want := run(t, e, greedy).IDs()
	for name, s := range map[string]generate.Sampling{
		"top-k of one":     {Temperature: 1, TopK: 1, Seed: 4},
		"top-p of nothing": {Temperature: 1, TopP: 1e-9, Seed: 4},
		"min-p of all":     {Temperature: 1, MinP: 1, Seed: 4},
		"cold":             {Temperature: 1e-3, Seed: 4},
	} {
		r := base
		r.Sampling = s
		if got := run(t, e, r).IDs(); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want the most likely %v", name, got, want)
		}
	}
	open := base
	open.Sampling = generate.Sampling{Temperature: 1, TopP: 1, TopK: vocab, Seed: 4}
	all := base
	all.Sampling = generate.Sampling{Temperature: 1, Seed: 4}
	if !slices.Equal(run(t, e, open).IDs(), run(t, e, all).IDs()) {
		t.Error("truncation that keeps everything changes the text")
	}
}
