package audit

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"sync"

	"gonum.org/v1/gonum/mathext"

	"understudy/audit/diff"
)

// The rule by which a path is learned to be volatile: with a Beta(½,½) prior on
// the rate at which twins disagree, P(rate > 5 %) must exceed .95 on at least 20
// twins. One pair of twins proves nothing: two answers may agree by chance, as
// dates do within one second.
const (
	minTwins      = 20
	volatileRate  = 0.05
	volatileProof = 0.95
	maxMasked     = 0.30 // of a tool's leaf weight; beyond it noise is scored all the same
)

// NoisePath is what twin runs showed about one path of a tool's answer.
type NoisePath struct {
	Tool      string  `json:"tool"`
	Pattern   string  `json:"pattern"`
	Twins     int     `json:"twins"`     // pairs of ok answers of the tool
	Disagree  int     `json:"disagree"`  // of these, with another value at the path
	Posterior float64 `json:"posterior"` // P(rate > 5 %)
	Weight    float64 `json:"weight"`    // mean share of the leaf weight where twins disagree
	Masked    bool    `json:"masked"`    // false for a volatile path beyond the 30 % budget
}

// NoiseLearner collects how often twin executions of one call disagree at each
// path. It is safe for concurrent use.
type NoiseLearner struct {
	mu    sync.Mutex
	rules *Rules
	tools map[string]*toolNoise
}

type toolNoise struct {
	twins int
	paths map[string]*pathNoise
}

type pathNoise struct {
	disagree int
	weight   float64
}

// NewNoiseLearner compares twins under the given rules, unmasked.
func NewNoiseLearner(rules *Rules) *NoiseLearner {
	return &NoiseLearner{rules: rules, tools: make(map[string]*toolNoise)}
}

// Observe learns from the pairs that have twins. Only answers that are ok on
// both sides count: the outcome is never noise.
func (l *NoiseLearner) Observe(pairs []Pair) {
	for i := range pairs {
		p := &pairs[i]
		if p.Twin == nil || p.Observation == nil || p.Action.Sample > 0 {
			continue
		}
		l.observe(p.Action.Call.Tool, p.Observation, p.Twin)
	}
}

func (l *NoiseLearner) observe(tool string, one, other *Observation) {
	rules := l.rules.Of(tool)
	a, b := rules.Read(one.Raw), rules.Read(other.Raw)
	if one.Status != StatusOK || other.Status != StatusOK || a.Outcome.IsError() || b.Outcome.IsError() {
		return
	}
	c := diff.Compare(l.rules.paths.For(tool), a.Body, b.Body, nil)
	l.mu.Lock()
	defer l.mu.Unlock()
	t := l.tools[tool]
	if t == nil {
		t = &toolNoise{paths: make(map[string]*pathNoise)}
		l.tools[tool] = t
	}
	t.twins++
	seen := make(map[string]bool, len(c.Differences))
	for i := range c.Differences {
		d := &c.Differences[i]
		path := t.paths[d.Pattern]
		if path == nil {
			path = &pathNoise{}
			t.paths[d.Pattern] = path
		}
		path.weight += d.Weight
		if !seen[d.Pattern] {
			seen[d.Pattern] = true
			path.disagree++
		}
	}
}

// Freeze decides which paths are volatile. The result is immutable: it becomes
// part of new rules, with a digest of their own.
func (l *NoiseLearner) Freeze() *Noise {
	l.mu.Lock()
	defer l.mu.Unlock()
	var all []NoisePath
	for _, tool := range sortedKeys(l.tools) {
		t := l.tools[tool]
		paths := make([]NoisePath, 0, len(t.paths))
		for _, pattern := range sortedKeys(t.paths) {
			p := t.paths[pattern]
			paths = append(paths, NoisePath{
				Tool: tool, Pattern: pattern, Twins: t.twins, Disagree: p.disagree,
				Posterior: volatility(p.disagree, t.twins), Weight: p.weight / float64(p.disagree),
			})
		}
		slices.SortStableFunc(paths, func(a, b NoisePath) int { return cmp.Compare(b.Posterior, a.Posterior) })
		spent := 0.0
		for i := range paths {
			if p := &paths[i]; p.volatile() && spent+p.Weight <= maxMasked {
				spent += p.Weight
				p.Masked = true
			}
		}
		all = append(all, paths...)
	}
	return NewNoise(all)
}

// volatility is P(rate > 5 %) after d disagreements among n twins.
func volatility(d, n int) float64 {
	return 1 - mathext.RegIncBeta(0.5+float64(d), 0.5+float64(n-d), volatileRate)
}

// Noise is what twin runs were found to disagree on, frozen. A nil *Noise masks
// nothing.
type Noise struct {
	Paths []NoisePath `json:"paths"`
	masks map[string][]string
	full  map[string]bool
}

// NewNoise is noise as it was frozen before, from its paths.
func NewNoise(paths []NoisePath) *Noise {
	n := &Noise{Paths: paths, masks: make(map[string][]string), full: make(map[string]bool)}
	for i := range paths {
		switch p := &paths[i]; {
		case p.Masked:
			n.masks[p.Tool] = append(n.masks[p.Tool], p.Pattern)
		case p.volatile():
			n.full[p.Tool] = true
		}
	}
	for _, patterns := range n.masks {
		slices.Sort(patterns)
	}
	return n
}

// UnmarshalJSON reads noise that was stored.
func (n *Noise) UnmarshalJSON(text []byte) error {
	var w struct {
		Paths []NoisePath `json:"paths"`
	}
	if err := json.Unmarshal(text, &w); err != nil {
		return fmt.Errorf("noise: %w", err)
	}
	*n = *NewNoise(w.Paths)
	return nil
}

// volatile reports whether twins prove that the path is noise.
func (p *NoisePath) volatile() bool { return p.Twins >= minTwins && p.Posterior > volatileProof }

// Masks are the patterns of a tool that are not compared, sorted.
func (n *Noise) Masks(tool string) []string {
	if n == nil {
		return nil
	}
	return n.masks[tool]
}

// Tools lists the tools that have masked paths, sorted.
func (n *Noise) Tools() []string {
	if n == nil {
		return nil
	}
	return sortedKeys(n.masks)
}

// capped reports whether a tool has more noise than may be masked.
func (n *Noise) capped(tool string) bool { return n != nil && n.full[tool] }

// Digest identifies what is masked, not how it was learned; zero when nothing is.
func (n *Noise) Digest() Digest {
	if n == nil || len(n.masks) == 0 {
		return Digest{}
	}
	text, err := json.Marshal(n.masks)
	if err != nil {
		panic(fmt.Sprintf("digest noise: %v", err)) // strings always marshal
	}
	return sha256.Sum256(text)
}
