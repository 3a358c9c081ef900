package audit

import (
	"cmp"
	"slices"
)

// Limits bound what one episode may ask for.
type Limits struct {
	// CallsPerMessage is how many calls of one assistant message are audited.
	// Beyond it identical calls collapse into their first, and what is still too
	// much becomes one masked pair with a count. All are executed all the same,
	// so that later actions meet the right state. 0 = 512.
	CallsPerMessage int
}

// defaultCallsPerMessage: far above any sensible message, far below the 14,408
// calls that a model stuck in a loop was seen to emit.
const defaultCallsPerMessage = 512

// Planned is one planned execution of an episode: a call with the rehearsals that answer it.
type Planned struct {
	call    Call
	digest  Digest   // of the call
	samples []Action // the same action, once for each rehearsal; at least one
	replay  bool     // executed, not audited
	mask    MaskReason
	detail  string
	repeats int    // further actions of the message that the step's first stands for
	done    bool   // a kept session is already behind it
	draws   []bool // which samples are audited; nil = all
	flags   []string
}

// drawn reports whether any rehearsal of the action is audited.
func (s *Planned) drawn() bool { return s.draws == nil || slices.Contains(s.draws, true) }

// Step is the action's position in its episode.
func (s *Planned) Step() int { return s.samples[0].Step }

// plan turns an episode's actions into executable steps: in order, one
// execution for all rehearsals of one action, gaps marked, floods capped.
// Whatever the input, every action is either in a step or counted by one.
func (a *Auditor) plan(ep *Episode) []Planned {
	steps := gather(ep.Actions)
	markGaps(steps)
	markCallIDs(steps)
	capMessages(steps, cmp.Or(a.config.Limits.CallsPerMessage, defaultCallsPerMessage))
	for i := range steps {
		steps[i].multiply(a.config.Rehearsals, a.config.Rehearser != nil)
	}
	return steps
}

// multiply makes room for k rehearsals where the episode brings none along.
func (s *Planned) multiply(k int, canAsk bool) {
	if !canAsk || s.replay || len(s.samples) > 1 || s.samples[0].Rehearsal != nil {
		return
	}
	for i := 1; i < k; i++ {
		another := s.samples[0]
		another.Sample += i
		s.samples = append(s.samples, another)
	}
}

// gather sorts the actions and joins the rehearsals of one action.
func gather(actions []Action) []Planned {
	ordered := slices.Clone(actions)
	slices.SortStableFunc(ordered, func(a, b Action) int { return cmp.Compare(a.Step, b.Step) })
	steps := make([]Planned, 0, len(ordered))
	samples := map[int]bool{} // of the last step
	for i := range ordered {
		action := &ordered[i]
		digest := CallDigest(action.Call)
		if n := len(steps); n > 0 && steps[n-1].Step() == action.Step {
			last := &steps[n-1]
			if last.digest == digest && last.replay == action.Replay {
				if samples[action.Sample] {
					last.flag(FlagRepeatedSample)
				}
				samples[action.Sample] = true
				last.samples = append(last.samples, *action)
				continue
			}
			last.flag(FlagRepeatedStep)
		}
		clear(samples)
		samples[action.Sample] = true
		steps = append(steps, Planned{call: action.Call, digest: digest, samples: []Action{*action}, replay: action.Replay})
	}
	return steps
}

// markGaps masks every step from the first missing one on: their pre-state
// cannot be reached.
func markGaps(steps []Planned) {
	next, missing := 0, -1
	for i := range steps {
		at := steps[i].Step()
		if at > next && missing < 0 {
			missing = next
		}
		next = max(next, at+1)
		if missing >= 0 {
			steps[i].mask = MaskHistory
			steps[i].detail = "step " + itoa(missing) + " is not in the episode"
		}
	}
}

// markCallIDs flags the steps whose source id is not theirs alone. Ids of a
// source are never an identity here, so nothing else follows from it.
func markCallIDs(steps []Planned) {
	owner := make(map[string]int, len(steps))
	for i := range steps {
		id := steps[i].samples[0].CallID
		if id == "" {
			continue
		}
		if first, ok := owner[id]; ok {
			steps[first].flag(FlagRepeatedCallID)
			steps[i].flag(FlagRepeatedCallID)
			continue
		}
		owner[id] = i
	}
}

// capMessages collapses and counts the calls of messages that make too many.
func capMessages(steps []Planned, limit int) {
	for start := 0; start < len(steps); {
		end := start + 1
		for end < len(steps) && steps[end].samples[0].Message == steps[start].samples[0].Message {
			end++
		}
		if message := steps[start:end]; countAudited(message) > limit {
			capMessage(message, limit)
		}
		start = end
	}
}

func countAudited(steps []Planned) int {
	n := 0
	for i := range steps {
		if !steps[i].replay {
			n++
		}
	}
	return n
}

func capMessage(message []Planned, limit int) {
	first := make(map[Digest]*Planned, limit)
	var rest *Planned
	kept := 0
	for i := range message {
		s := &message[i]
		if s.replay {
			continue
		}
		if original, ok := first[s.digest]; ok {
			original.repeats += len(s.samples)
			original.flag(FlagCollapsed)
			s.replay = true
			continue
		}
		if kept < limit {
			first[s.digest] = s
			kept++
			continue
		}
		if rest == nil {
			rest = s
			s.mask, s.detail = MaskOverLimit, "more than "+itoa(limit)+" different calls in one message"
			continue
		}
		rest.repeats += len(s.samples)
		s.replay = true
	}
}

func (s *Planned) flag(flag string) {
	if !slices.Contains(s.flags, flag) {
		s.flags = append(s.flags, flag)
	}
}
