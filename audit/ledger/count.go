package ledger

import (
	"cmp"
	"maps"
	"slices"
	"unicode/utf8"

	"understudy/audit"
	"understudy/audit/stat"
)

// keptSamples is how many examples of one kind of difference a run keeps.
const keptSamples = 5

// maxSample is the most bytes of one side of an example: enough to read.
const maxSample = 400

// member is one pair of a run with what its counters are keyed by.
type member struct {
	pair *audit.Pair
	rollupKey
	actual, rehearsed, masked string
	weight                    float64
}

// rollupKey is one line of table rollup, and with a name one of table counter.
type rollupKey struct {
	environment, version, envDigest, tool, mode, canary string
	success                                             int16
	group                                               string
}

func (k rollupKey) compare(o rollupKey) int {
	return cmp.Or(
		cmp.Compare(k.environment, o.environment), cmp.Compare(k.version, o.version), cmp.Compare(k.envDigest, o.envDigest),
		cmp.Compare(k.tool, o.tool), cmp.Compare(k.mode, o.mode), cmp.Compare(k.canary, o.canary),
		cmp.Compare(k.success, o.success), cmp.Compare(k.group, o.group))
}

// rollupSums are the pairs of one line of table rollup and their counters: the
// figures are its columns, what cells do not hold is in table counter.
type rollupSums struct {
	pairs    int64
	counters audit.Counters
}

// cellKey is one line of table cell.
type cellKey struct {
	rollupKey
	actual, rehearsed, masked string
	severity                  int16
	cascaded                  bool
}

func (k cellKey) compare(o cellKey) int {
	return cmp.Or(
		k.rollupKey.compare(o.rollupKey), cmp.Compare(k.actual, o.actual), cmp.Compare(k.rehearsed, o.rehearsed),
		cmp.Compare(k.masked, o.masked), cmp.Compare(k.severity, o.severity),
		cmp.Compare(truth(&k.cascaded), truth(&o.cascaded)))
}

// cellSums are the counters of one line of table cell.
type cellSums struct {
	n, repeats, unobservable int64
	weight                   float64
}

// leafKey is one line of table leaf.
type leafKey struct {
	environment, version, tool, mode, part, pattern, kind, class string
	success                                                      int16
}

func (k leafKey) compare(o leafKey) int {
	return cmp.Or(
		cmp.Compare(k.tool, o.tool), cmp.Compare(k.part, o.part), cmp.Compare(k.pattern, o.pattern), cmp.Compare(k.kind, o.kind),
		cmp.Compare(k.class, o.class), cmp.Compare(k.mode, o.mode), cmp.Compare(k.environment, o.environment), cmp.Compare(k.version, o.version),
		cmp.Compare(k.success, o.success))
}

// leafSums are the counters of one line of table leaf, with examples.
type leafSums struct {
	pairs, leaves int64
	weight        float64
	severity      int16
	samples       []leafSample
	last          int // of the pairs counted, to count a pair once
}

type leafSample struct {
	key               audit.Digest
	severity          int16
	pointer           string
	rehearsed, actual []byte
}

// counts are a run's counters, or what an episode adds to them: the one
// definition behind every commit and behind verify's recount.
type counts struct {
	rollups map[rollupKey]*rollupSums
	cells   map[cellKey]*cellSums
	leaves  map[leafKey]*leafSums
	members int
	masked  int // of the members
}

func newCounts() *counts {
	return &counts{rollups: map[rollupKey]*rollupSums{}, cells: map[cellKey]*cellSums{}, leaves: map[leafKey]*leafSums{}}
}

func (c *counts) add(m member) {
	c.members++
	c.addCounters(m)
	c.addCell(m)
	if m.masked != "" {
		c.masked++
	}
	if m.pair.Verdict.Scored() {
		c.addOutcome(m)
		c.addAnswer(m)
		c.addEffect(m)
	}
}

// negate turns what was added into what is taken away. Examples are no sums:
// they are dropped.
func (c *counts) negate() {
	for _, r := range c.rollups {
		r.pairs = -r.pairs
		for name, s := range r.counters {
			r.counters[name] = stat.Cluster{N: -s.N, Weight: -s.Weight, Sum: -s.Sum, SumSq: -s.SumSq}
		}
	}
	for _, s := range c.cells {
		s.n, s.repeats, s.unobservable, s.weight = -s.n, -s.repeats, -s.unobservable, -s.weight
	}
	for _, s := range c.leaves {
		s.pairs, s.leaves, s.weight, s.samples, s.severity, s.last = -s.pairs, -s.leaves, -s.weight, nil, 0, 0
	}
}

func (c *counts) addCounters(m member) {
	r := c.rollups[m.rollupKey]
	if r == nil {
		r = &rollupSums{counters: audit.Counters{}}
		c.rollups[m.rollupKey] = r
	}
	r.pairs++
	r.counters.Merge(audit.PairCounters(m.pair))
}

func (c *counts) addCell(m member) {
	v := &m.pair.Verdict
	k := cellKey{
		rollupKey: m.rollupKey, actual: m.actual, rehearsed: m.rehearsed, masked: m.masked,
		severity: int16(v.Severity), cascaded: v.Cascaded,
	}
	s := c.cells[k]
	if s == nil {
		s = &cellSums{}
		c.cells[k] = s
	}
	s.n++
	s.weight += m.weight
	s.repeats += int64(m.pair.Repeats)
	if slices.Contains(v.Flags, audit.FlagUnobservable) {
		s.unobservable++
	}
}

// addOutcome counts what is wrong with the answer as a whole.
func (c *counts) addOutcome(m member) {
	v := &m.pair.Verdict
	add := func(holds bool, kind string) {
		if holds {
			sample := leafSample{rehearsed: []byte(m.rehearsed), actual: []byte(m.actual)}
			c.leaf(m, leafKey{part: "outcome", kind: kind}, 0, sample)
		}
	}
	realError, rehearsedError := v.Real.Class == audit.Failed, v.Rehearsed.Class == audit.Failed
	add(v.FalseSuccess, "false_success")
	add(!realError && rehearsedError, "false_error")
	add(realError && rehearsedError && v.Real.Family != v.Rehearsed.Family, "wrong_family")
	add(v.Scores.PhantomWrite, "phantom_write")
	add(v.Scores.SilentWrite, "silent_write")
	add(!v.Scores.Valid, "invalid")
}

func (c *counts) addAnswer(m member) {
	for _, d := range m.pair.Verdict.Differences {
		sample := leafSample{pointer: d.Pointer, rehearsed: d.Rehearsed, actual: d.Real}
		c.leaf(m, leafKey{part: "answer", pattern: label(d.Pattern), kind: label(string(d.Kind)), class: label(string(d.Class))}, orZero(d.Weight), sample)
	}
}

func (c *counts) addEffect(m member) {
	source := label(string(m.pair.Verdict.Scores.EffectSource))
	for _, e := range m.pair.EffectCells() {
		sample := leafSample{pointer: e.Path, rehearsed: e.Claimed, actual: e.Made}
		c.leaf(m, leafKey{part: "effect", pattern: label(pathPattern(e.Path)), kind: label(string(e.Kind)), class: source}, 0, sample)
	}
}

func (c *counts) leaf(m member, k leafKey, weight float64, sample leafSample) {
	k.environment, k.version, k.tool, k.mode, k.success = m.environment, m.version, m.tool, m.mode, m.success
	s := c.leaves[k]
	if s == nil {
		s = &leafSums{}
		c.leaves[k] = s
	}
	s.leaves++
	s.weight += weight
	s.severity = max(s.severity, int16(m.pair.Verdict.Severity))
	if s.last == c.members {
		return // one pair, several leaves: counted once, shown once
	}
	s.last = c.members
	s.pairs++
	if len(s.samples) < keptSamples {
		sample.key, sample.severity = m.pair.Key, int16(m.pair.Verdict.Severity)
		sample.rehearsed, sample.actual = cutBytes(sample.rehearsed, maxSample), cutBytes(sample.actual, maxSample)
		s.samples = append(s.samples, sample)
	}
}

// cutBytes shortens content to at most n bytes, between code points where it is UTF-8.
func cutBytes(content []byte, n int) []byte {
	if len(content) <= n {
		return content
	}
	for back := 0; back < utf8.UTFMax && n > back; back++ {
		if utf8.RuneStart(content[n-back]) {
			return content[:n-back]
		}
	}
	return content[:n]
}

// sorted lists a map's keys in the order in which rows are locked.
func sorted[K comparable, V any](m map[K]V, compare func(a, b K) int) []K {
	return slices.SortedFunc(maps.Keys(m), compare)
}
