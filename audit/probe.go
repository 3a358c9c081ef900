package audit

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"understudy/audit/diff"
)

// probe asks both sides the read-only questions that show what a write did, in
// an episode of that mode: the sandbox before and after the write, REHEARSE
// after its own answer to it. What the reads claim and show becomes the effect
// of the write, and every read is a pair of its own.
func (a *Auditor) probe(ctx context.Context, at *Place, action *Planned, answers []Rehearsal, seen *sighting) ([]Pair, error) {
	if at.episode.Mode != Probe || seen.observation == nil || seen.mask != "" || len(seen.before) == 0 {
		return nil, nil
	}
	first := &answers[0]
	if first.Unavailable != "" || action.draws != nil && !action.draws[0] {
		return nil, nil
	}
	history := append(at.shown(), Turn{Call: action.call, Answer: first.Raw})
	trail := extend(at.trail, action.digest)
	claimed := claim{source: EffectByProbe, cells: make(cells)}
	truth := make(cells)
	var pairs []Pair
	for i, read := range seen.before {
		asked, err := a.ask(ctx, at, history, read.call, action.samples[0].Prompt, 1)
		if err != nil {
			return nil, fmt.Errorf("probe step %d of episode %s: %w", action.Step(), at.episode.ID, err)
		}
		after, err := at.observe(ctx, at.session, read.call)
		if err != nil {
			return nil, fmt.Errorf("probe step %d of episode %s: %w", action.Step(), at.episode.ID, err)
		}
		pair := at.probePair(action, read.call, i+1, trail, asked, &after)
		prefix := "/" + strconv.Itoa(i+1)
		if pair.Verdict.Scored() { // a read that one side did not answer says nothing
			at.changed(truth, prefix, read.call, read.answer, after.observation)
			at.changed(claimed.cells, prefix, read.call, read.answer, &Observation{Raw: asked[0].Raw})
		}
		pairs = append(pairs, pair)
	}
	if slices.ContainsFunc(pairs, func(p Pair) bool { return p.Verdict.Scored() }) {
		seen.claim = &claimed
		seen.reads = truth
	}
	return pairs, nil
}

// read is a probe with the sandbox's answer before the write.
type read struct {
	call   Call
	answer []byte
}

// look makes the probes of a write before it is executed.
func (at *Place) look(ctx context.Context, call Call) ([]read, error) {
	prober, ok := at.session.(Prober)
	if !ok || at.episode.Mode != Probe || at.tool(call.Tool).Effect == Read || !slices.Contains(at.info.Capabilities, CanProbe) {
		return nil, nil
	}
	var reads []read
	for _, probe := range prober.Probes(call) {
		seen, err := at.observe(ctx, at.session, probe)
		if err != nil {
			return nil, err
		}
		if seen.observation != nil && seen.mask == "" {
			reads = append(reads, read{probe, seen.observation.Raw})
		}
	}
	return reads, nil
}

func (at *Place) probePair(action *Planned, call Call, number int, trail Digest, asked []Rehearsal, seen *sighting) Pair {
	probe := action.samples[0]
	probe.Call, probe.Probe, probe.Rehearsal, probe.Recorded, probe.Canary = call, number, nil, nil, nil
	here := *at
	here.trail = trail
	pairs := []Pair{here.pair(probe, CallDigest(call), at.tool(call.Tool).Effect)}
	here.judge(pairs, asked, seen)
	return pairs[0]
}

// changed adds the cells in which an answer differs from the one before the
// write. Errors on either side count as an answer without cells.
func (at *Place) changed(into cells, prefix string, call Call, before []byte, after *Observation) {
	if after == nil {
		return
	}
	rules := at.rules.Of(call.Tool)
	body := func(raw []byte) diff.Value {
		if a := rules.Read(raw); !a.Outcome.IsError() {
			return a.Body
		}
		return diff.Value{}
	}
	delta, err := cellsOf(diff.Diff(body(before), body(after.Raw)), at.rules.limits)
	if err != nil {
		return
	}
	for pointer, value := range delta {
		into[prefix+pointer] = value
	}
}
