package audit

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// maxFaults is how many faults of a batch are listed: enough to see a pattern.
const maxFaults = 10

// maxName bounds the names of runs and policies: a run's is a label of the
// ledger, also where it is made of its policy's.
const maxName = 190

// check reports every fault of a batch at once.
func (b *ScoreBatch) check() error {
	if len(b.Outputs) > MaxOutputs {
		return &Error{
			Code: CodeLimit, Message: fmt.Sprintf("a batch of %d outputs", len(b.Outputs)),
			Hint: "send at most " + strconv.Itoa(MaxOutputs) + " at once",
		}
	}
	var faults []string
	fault := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	if b.Policy == "" {
		fault("policy: missing")
	}
	for i, text := range []string{b.Policy, b.Run} {
		if len(text) > maxName || !utf8.ValidString(text) || strings.IndexByte(text, 0) >= 0 {
			fault("%s: not at most %d bytes of UTF-8 without NUL", []string{"policy", "run"}[i], maxName)
		}
	}
	if b.DeadlineMS < 0 {
		fault("deadline_ms: %d is negative", b.DeadlineMS)
	}
	if b.Checkpoint < 0 {
		fault("checkpoint: %d is negative", b.Checkpoint)
	}
	if len(b.Outputs) == 0 {
		fault("outputs: none")
	}
	for i := range b.Outputs {
		if what := b.Outputs[i].fault(); what != "" {
			fault("outputs[%d]: %s", i, what)
		}
	}
	if len(faults) == 0 {
		return nil
	}
	if n := len(faults) - maxFaults; n > 0 {
		faults = append(faults[:maxFaults:maxFaults], fmt.Sprintf("and %d more", n))
	}
	return &Error{Code: CodeUnprocessable, Message: "the batch cannot be scored: " + strings.Join(faults, "; "), Hint: "GET /v1/openapi.json says what each member means"}
}

// fault is what is wrong with an output, or "".
func (o *Output) fault() string {
	switch {
	case o.Environment == "":
		return "environment: missing"
	case o.Call.Tool == "":
		return "call.tool: missing"
	case o.Rehearsal == nil:
		return "rehearsal: missing (an empty text is one, too)"
	case o.Role != "" && o.Role != RoleRehearse && o.Role != RoleAct:
		return "role: " + strconv.Quote(o.Role) + " is neither rehearse nor act"
	case o.Mode == Canary || o.Mode == Probe:
		return "mode: a " + string(o.Mode) + " is no output of a trainer"
	case o.Mode != "" && o.Mode != Forced && o.Mode != Open:
		return "mode: " + strconv.Quote(string(o.Mode)) + " is neither forced nor open"
	case o.Start.Shared != "":
		return "start.shared: outputs are scored each on a world of its own"
	case o.Step != nil && *o.Step < 0, o.Sample != nil && *o.Sample < 0, o.Attempt < 0:
		return "step, sample, attempt: below 0"
	case o.Step != nil && *o.Step > math.MaxInt32, o.Sample != nil && *o.Sample > math.MaxInt32, o.Attempt > math.MaxInt32:
		return "step, sample, attempt: above 2147483647"
	case o.Confidence != nil && !(*o.Confidence >= 0 && *o.Confidence <= 1):
		return "confidence: not in [0,1]"
	case len(o.History) > maxHistory:
		return "history: more than " + strconv.Itoa(maxHistory) + " calls"
	}
	for i := range o.History {
		if o.History[i].Call.Tool == "" {
			return "history[" + strconv.Itoa(i) + "].call.tool: missing"
		}
		if o.Mode == Open && o.History[i].Answer == nil {
			return "history[" + strconv.Itoa(i) + "].answer: missing, mode open needs what was rehearsed"
		}
	}
	return ""
}

// scoring is one output on its way to its reward.
type scoring struct {
	output    *Output
	id        Digest // of the payee
	content   Digest
	initial   Digest
	episode   Episode // of the pair
	rehearsal Rehearsal
	action    Action
	pair      Pair
	draw      Draw
	drawn     bool
	reward    Reward
	settled   bool // the reward is final
}

// unpack replaces arguments that came as text by what the text says, once: a
// batch that is read back from the ledger is unpacked already. What the caller
// holds stays as it is, for outputs share their histories.
func (b *ScoreBatch) unpack() {
	b.Outputs = slices.Clone(b.Outputs)
	for i := range b.Outputs {
		o := &b.Outputs[i]
		o.Call.Arguments = rawArguments(o.Call.Arguments)
		first := slices.IndexFunc(o.History, func(e Earlier) bool { return isText(e.Call.Arguments) })
		if first < 0 {
			continue
		}
		o.History = slices.Clone(o.History)
		for j := first; j < len(o.History); j++ {
			o.History[j].Call.Arguments = rawArguments(o.History[j].Call.Arguments)
		}
	}
}

// prepare fills in what the outputs leave out and identifies them.
func (b *ScoreBatch) prepare(parse func(string) Rehearsal) ([]*scoring, error) {
	if b.Run == "" {
		b.Run = "training " + b.Policy
	}
	all := make([]*scoring, len(b.Outputs))
	for i := range b.Outputs {
		s, err := b.scoring(&b.Outputs[i], parse)
		if err != nil {
			return nil, fmt.Errorf("outputs[%d]: %w", i, err)
		}
		all[i] = s
	}
	return all, nil
}

func (b *ScoreBatch) scoring(o *Output, parse func(string) Rehearsal) (*scoring, error) {
	initial, err := startDigest(o.Start)
	if err != nil {
		return nil, err
	}
	if o.Role == "" {
		o.Role = RoleRehearse
	}
	if o.Mode == "" {
		o.Mode = Forced
	}
	s := &scoring{output: o, initial: initial, content: o.content(initial)}
	if o.Step == nil {
		o.Step = new(len(o.History))
	}
	if o.Sample == nil {
		o.Sample = new(sampleOf(s.content))
	}
	if o.Episode == "" {
		o.Episode = "output-" + s.content.String()[:24]
	}
	if o.PromptGroup == "" {
		o.PromptGroup = o.Episode
		if o.Start.Task != "" {
			o.PromptGroup = o.Start.Task
		}
	}
	s.id = b.payee(o)
	s.rehearsal = parse(*o.Rehearsal)
	s.rehearsal.Truncated = s.rehearsal.Truncated || o.Truncated
	if o.Confidence != nil {
		s.rehearsal.Confidence = o.Confidence
	}
	s.episode = Episode{
		ID: o.Episode, PromptGroup: o.PromptGroup, Policy: b.Policy, Checkpoint: b.Checkpoint, WireAPI: "hook",
		Environment: o.Environment, Start: o.Start, Mode: o.Mode, Success: o.Success,
	}
	s.action = Action{Step: *o.Step, Message: *o.Step, Call: o.Call, Sample: *o.Sample, Attempt: o.Attempt, Rehearsal: &s.rehearsal}
	s.reward = Reward{
		Status: RewardPending, ID: s.id, Episode: o.Episode, Step: *o.Step, Sample: *o.Sample, Attempt: o.Attempt,
		Checkpoint: b.Checkpoint, Tool: o.Call.Tool,
	}
	return s, nil
}

// mask settles an output without a number.
func (s *scoring) mask(reason MaskReason) {
	r := &s.reward
	r.Status, r.Reason, r.Phi, r.Weight, r.Term = RewardMasked, reason, nil, 0, 0
	s.settled = true
}
