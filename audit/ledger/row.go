package ledger

import (
	"bytes"
	"fmt"
	"math"
	"slices"

	"understudy/audit"
)

// place is where a pair stands in its episode.
type place struct {
	step, probe, sample, attempt, ordinal int
}

// row is one pair on its way into the tables.
type row struct {
	document
	part      int // of the commitment
	pair      *audit.Pair
	place     place
	success   int16
	weight    float64
	actual    string
	rehearsed string
}

// newRows takes the pairs of all parts apart and sorts them by key, so that two
// transactions never lock the same rows in opposite orders.
func newRows(parts []part) ([]row, error) {
	var rows []row
	for i := range parts {
		seen := make(map[place]int, len(parts[i].pairs))
		for j := range parts[i].pairs {
			p := new(parts[i].pairs[j])
			p.Verdict.Scores = repairScores(p.Verdict.Scores) // one NaN would poison a sum for good
			d, err := newDocument(p)
			if err != nil {
				return nil, err
			}
			for _, n := range []int{p.Action.Step, p.Action.Probe, p.Action.Sample, p.Action.Attempt, p.Action.Message, p.Repeats} {
				if n != int(int32(n)) {
					return nil, &audit.Error{Code: audit.CodeInvalid, Message: fmt.Sprintf("episode %q: %d is no place of a call", p.Episode, n), Hint: "number steps, samples and messages from 0"}
				}
			}
			at := place{step: p.Action.Step, probe: p.Action.Probe, sample: p.Action.Sample, attempt: p.Action.Attempt}
			n := seen[at]
			seen[at]++
			at.ordinal = n
			rows = append(rows, row{
				document: d, part: i, pair: p, place: at,
				success: truth(p.TaskSuccess()), weight: audit.InclusionWeight(p.Action.Inclusion),
				actual: outcomeLabel(p.Verdict.Real), rehearsed: outcomeLabel(p.Verdict.Rehearsed),
			})
		}
	}
	slices.SortStableFunc(rows, func(a, b row) int { return bytes.Compare(a.pair.Key[:], b.pair.Key[:]) })
	return rows, nil
}

// truth is -1 for not known, 0 for false, 1 for true.
func truth(b *bool) int16 {
	switch {
	case b == nil:
		return -1
	case *b:
		return 1
	default:
		return 0
	}
}

// untruth is the inverse of truth.
func untruth(v int16) *bool {
	if v < 0 {
		return nil
	}
	b := v == 1
	return &b
}

// canaryLevel is the level of a canary pair, "" for an ordinary one.
func canaryLevel(p *audit.Pair) string {
	if p.Action.Canary == nil {
		return ""
	}
	return string(p.Action.Canary.Level)
}

// columns are rows turned by ninety degrees: one array a column, for unnest.
type columns struct {
	episode, key, result, envDigest, before, after, rules                 [][]byte
	arguments, prompt, rehearsal, stateBlock, recorded, observation, twin [][]byte
	doc, extra                                                            [][]byte
	step, probe, sample, attempt, ordinal, message, repeats               []int32
	callID, policy, environment, version, mode, canary, tool, effect      []string
	masked, actual, rehearsed, group                                      []string
	checkpoint                                                            []int64
	severity, executed, reported                                          []int16
	outage, falseSuccess, phantomWrite, silentWrite, cascaded, fork       []bool
	cells                                                                 []*int32
	weight, inclusion                                                     []float64
	confidence                                                            []*float64
}

func newColumns(parts []part, rows []row) *columns {
	c := &columns{}
	for i := range rows {
		c.episode = append(c.episode, parts[rows[i].part].episode[:])
		c.add(&rows[i])
	}
	return c
}

func (c *columns) add(r *row) {
	p, v := r.pair, &r.pair.Verdict
	c.key = append(c.key, p.Key[:])
	c.result = append(c.result, r.result[:])
	c.step = append(c.step, int32(r.place.step))
	c.probe = append(c.probe, int32(r.place.probe))
	c.sample = append(c.sample, int32(r.place.sample))
	c.attempt = append(c.attempt, int32(r.place.attempt))
	c.ordinal = append(c.ordinal, int32(r.place.ordinal))
	c.message = append(c.message, int32(p.Action.Message))
	c.repeats = append(c.repeats, int32(p.Repeats))
	c.callID = append(c.callID, label(p.Action.CallID))
	c.policy = append(c.policy, label(p.Policy))
	c.checkpoint = append(c.checkpoint, p.Checkpoint)
	c.environment = append(c.environment, label(p.Environment))
	c.version = append(c.version, label(p.Version))
	c.envDigest = append(c.envDigest, p.EnvDigest[:])
	c.mode = append(c.mode, string(p.Mode))
	c.canary = append(c.canary, canaryLevel(p))
	c.tool = append(c.tool, label(p.Action.Call.Tool))
	c.effect = append(c.effect, label(string(p.Effect)))
	c.masked = append(c.masked, label(string(v.Masked)))
	c.outage = append(c.outage, v.Masked.Infrastructure())
	c.actual = append(c.actual, r.actual)
	c.rehearsed = append(c.rehearsed, r.rehearsed)
	c.severity = append(c.severity, int16(v.Severity))
	c.falseSuccess = append(c.falseSuccess, v.FalseSuccess)
	c.phantomWrite = append(c.phantomWrite, v.Scores.PhantomWrite)
	c.silentWrite = append(c.silentWrite, v.Scores.SilentWrite)
	c.cascaded = append(c.cascaded, v.Cascaded)
	c.fork = append(c.fork, v.Fork)
	c.cells = append(c.cells, int32Of(v.Scores.RealCells))
	c.rules = append(c.rules, v.Rules[:])
	c.addState(p)
	c.addBodies(r)
	c.group = append(c.group, label(p.PromptGroup))
	c.executed = append(c.executed, truth(p.Executed))
	c.reported = append(c.reported, truth(p.Success))
	c.weight = append(c.weight, r.weight)
	c.inclusion = append(c.inclusion, orZero(p.Action.Inclusion))
	c.confidence = append(c.confidence, confidence(p))
}

// confidence is what the rehearsal says of itself, nil where it says nothing finite.
func confidence(p *audit.Pair) *float64 {
	if p.Action.Rehearsal == nil || p.Action.Rehearsal.Confidence == nil {
		return nil
	}
	if c := *p.Action.Rehearsal.Confidence; !math.IsNaN(c) && !math.IsInf(c, 0) {
		return &c
	}
	return nil
}

func (c *columns) addState(p *audit.Pair) {
	var before, after []byte
	if p.Observation != nil {
		before, after = digestBytes(p.Observation.Before), digestBytes(p.Observation.After)
	}
	c.before = append(c.before, before)
	c.after = append(c.after, after)
}

func (c *columns) addBodies(r *row) {
	c.arguments = append(c.arguments, digestBytes(r.arguments.digest))
	c.prompt = append(c.prompt, digestBytes(r.prompt.digest))
	c.rehearsal = append(c.rehearsal, digestBytes(r.rehearsal.digest))
	c.stateBlock = append(c.stateBlock, digestBytes(r.stateBlock.digest))
	c.recorded = append(c.recorded, digestBytes(r.recorded.digest))
	c.observation = append(c.observation, digestBytes(r.observation.digest))
	c.twin = append(c.twin, digestBytes(r.twin.digest))
	c.doc = append(c.doc, r.doc)
	c.extra = append(c.extra, r.extra)
}

func int32Of(n *int) *int32 {
	if n == nil {
		return nil
	}
	v := int32(*n)
	return &v
}

// bodyColumns are the distinct bodies of rows, sorted by digest.
type bodyColumns struct {
	digest, content [][]byte
	size            []int64
	truncated       []bool
}

func newBodyColumns(rows []row, most int) *bodyColumns {
	distinct := map[audit.Digest][]byte{}
	for i := range rows {
		for _, b := range rows[i].all() {
			if !b.digest.IsZero() {
				distinct[b.digest] = b.content
			}
		}
	}
	digests := make([]audit.Digest, 0, len(distinct))
	for d := range distinct {
		digests = append(digests, d)
	}
	slices.SortFunc(digests, func(a, b audit.Digest) int { return bytes.Compare(a[:], b[:]) })
	c := &bodyColumns{}
	for _, d := range digests {
		content := distinct[d]
		c.digest = append(c.digest, d[:])
		c.size = append(c.size, int64(len(content)))
		c.truncated = append(c.truncated, len(content) > most)
		c.content = append(c.content, cutBytes(content, most))
	}
	return c
}

// piece is where the piece of bodies that starts at from ends.
func (c *bodyColumns) piece(from int) int {
	to, n := from, 0
	for ; to < len(c.content) && to-from < pieceRows; to++ {
		if n += len(c.content[to]); n > pieceBytes && to > from {
			break
		}
	}
	return to
}
