package cuda_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"understudy/gpu"
	"understudy/gpu/cuda"
	"understudy/gpu/sample"
)

func TestPadded(t *testing.T) {
	t.Parallel()
	d := open(t, cuda.Options{})
	sizes := map[int]bool{}
	for n := range 513 {
		size := d.Padded(n)
		if size < n || size >= n+gpu.PageSize || d.Padded(size) != size {
			t.Errorf("%d rows are padded to %d, and those to %d", n, size, d.Padded(size))
		}
		sizes[size] = true
	}
	if len(sizes) != 1+3+32+16 {
		t.Errorf("%d sizes up to 512 rows, want 0, 1, 2, 4, 8 and so on to 256, 272 and so on", len(sizes))
	}
	if d.Padded(8449) != 8449 {
		t.Error("a long prefill is padded")
	}
}

// decoding is sequences of which some write at a time.
type decoding struct {
	tokens [][]int32 // of which those before next are computed
	next   []int
	pages  [][]int32
	spans  [][2]int // the steps in which each writes
}

func newDecoding(vocab int) *decoding {
	rng := rand.New(rand.NewPCG(11, 12))
	d := &decoding{
		next:  []int{100, 40, 3, 15, 16, 31, 60, 8},
		spans: [][2]int{{0, 40}, {0, 40}, {0, 40}, {0, 40}, {0, 17}, {0, 9}, {5, 40}, {20, 33}},
	}
	for i, n := range d.next {
		row := make([]int32, n+40)
		for j := range row {
			row[j] = int32(rng.IntN(vocab))
		}
		d.tokens = append(d.tokens, row)
		var pages []int32
		for p := range 9 {
			pages = append(pages, int32(p*len(d.next)+i))
		}
		d.pages = append(d.pages, pages)
	}
	return d
}

// rows adds the next n rows of a sequence to a step, of which the last is wanted.
func (d *decoding) rows(s *gpu.Step, sequence, from, n int) {
	for p := from; p < from+n; p++ {
		s.Tokens, s.Positions = append(s.Tokens, d.tokens[sequence][p]), append(s.Positions, int32(p))
		s.Slots = append(s.Slots, d.pages[sequence][p/gpu.PageSize]*gpu.PageSize+int32(p%gpu.PageSize))
		s.Sequences = append(s.Sequences, int32(len(s.Tables)))
	}
	s.Tables, s.Wanted = append(s.Tables, d.pages[sequence]), append(s.Wanted, int32(len(s.Tokens)-1))
}

// prefill computes all prompts.
func (d *decoding) prefill(t *testing.T, r *gpu.Runner) {
	t.Helper()
	for i, n := range d.next {
		for from := 0; from < n; from += 50 {
			var s gpu.Step
			d.rows(&s, i, from, min(50, n-from))
			if err := r.Step(&s, &gpu.Logits{}); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// step is the i-th step of those that write then.
func (d *decoding) step(i int) *gpu.Step {
	s := &gpu.Step{}
	for k, span := range d.spans {
		if span[0] <= i && i < span[1] {
			d.rows(s, k, d.next[k]+i-span[0], 1)
			s.Scale = append(s.Scale, 1/float32(k+1))
		}
	}
	return s
}

// bare is a device that neither replays nor draws: nothing is padded, and logits come back.
type bare struct{ typed }

type typed interface {
	gpu.KVTyped
	gpu.ActivationTyped
}

// Steps of a decode are replayed, whoever joins and leaves, over the bounds of pages and of a split, with the
// bits that they have without padding and graphs.
func TestDecodeIsReplayed(t *testing.T) {
	t.Parallel()
	for _, products := range []gpu.DType{gpu.F32, gpu.BF16} {
		d, plain := open(t, cuda.Options{Products: products}), bare{open(t, cuda.Options{Products: products, NoGraphs: true})}
		runner := func(dev gpu.Device) *gpu.Runner {
			c := small()
			c.Context = 144
			m, err := gpu.NewRandom(dev, c, 1)
			if err != nil {
				t.Fatal(err)
			}
			r, err := m.NewRunner(gpu.RunnerConfig{Pages: 72, Rows: 58, Wanted: 8, Sequences: 8, Context: 144})
			if err != nil {
				t.Fatal(err)
			}
			return r
		}
		r, unpadded, writing := runner(d), runner(plain), newDecoding(small().Vocab)
		writing.prefill(t, r)
		writing.prefill(t, unpadded)
		before, _ := d.Replays()
		for i := range 40 {
			compareStep(t, i, r, unpadded, writing.step(i))
		}
		after, _ := d.Replays()
		// The first step and the second, which is captured, and those after a sequence has a 129th token; and of
		// the four steps that draw nothing the first, the second, and the last, with a 129th token.
		if got, want := after-before, 40-2-2-3; got != want {
			t.Errorf("%v: %d of 40 steps were replayed, want %d", products, got, want)
		}
	}
}

// compareStep draws the tokens of all rows on the device but, in some steps, of the last, in others of none.
func compareStep(t *testing.T, i int, r, unpadded *gpu.Runner, s *gpu.Step) {
	t.Helper()
	var got, want gpu.Logits
	if err := unpadded.Step(s, &want); err != nil {
		t.Fatal(err)
	}
	for k := range s.Wanted {
		if i%10 != 7 && (k < len(s.Wanted)-1 || i%3 != 0) {
			s.Draws = append(s.Draws, gpu.Draw{Random: uint64(i*k) << 50, Tempered: true})
		}
	}
	if err := r.Step(s, &got); err != nil {
		t.Fatal(err)
	}
	var space sample.Space
	for k, draw := range s.Draws {
		if drawn := space.Draw(want.Row(k), s.Scale[k], want.LSE[k], draw, nil); got.Drawn[k] != drawn {
			t.Fatalf("step %d, row %d of %d: drew %+v, without padding %+v", i, k, len(s.Wanted), got.Drawn[k], drawn)
		}
	}
	if rest := len(s.Draws); !slices.Equal(got.Values, want.Values[rest*want.V:]) || !slices.Equal(got.LSE, want.LSE[rest:]) {
		t.Fatalf("step %d: other logits than without padding", i)
	}
}
