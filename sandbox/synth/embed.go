package synth

import (
	"context"
	"hash/fnv"
	"math"
	"strings"
)

// Embedder maps texts to vectors whose cosine says how near they are.
type Embedder interface {
	Embed(ctx context.Context, texts []string) ([][]float64, error)
}

// HashedGrams embeds without a model: counts of words and of runs of three
// letters, hashed into a fixed width. It sees that two texts share words, not that
// two words mean the same: near-duplicates in other words stay.
type HashedGrams struct{}

// gramWidth is wide enough that two different short texts rarely collide.
const gramWidth = 1024

// Embed implements Embedder.
func (HashedGrams) Embed(_ context.Context, texts []string) ([][]float64, error) {
	vectors := make([][]float64, len(texts))
	for i, text := range texts {
		vectors[i] = make([]float64, gramWidth)
		for word := range strings.FieldsSeq(strings.ToLower(text)) {
			count(vectors[i], word, 2)
			letters := []rune(" " + word + " ")
			for at := 0; at+3 <= len(letters); at++ {
				count(vectors[i], string(letters[at:at+3]), 1)
			}
		}
	}
	return vectors, nil
}

func count(vector []float64, gram string, weight float64) {
	h := fnv.New32a()
	_, _ = h.Write([]byte(gram)) // never fails
	vector[h.Sum32()%gramWidth] += weight
}

// cosine is in [-1,1]; 0 when either vector is all zeros or they do not fit.
func cosine(a, b []float64) float64 {
	if len(a) != len(b) {
		return 0
	}
	dot, aa, bb := 0.0, 0.0, 0.0
	for i := range a {
		dot, aa, bb = dot+a[i]*b[i], aa+a[i]*a[i], bb+b[i]*b[i]
	}
	if aa == 0 || bb == 0 {
		return 0
	}
	return dot / math.Sqrt(aa*bb)
}
