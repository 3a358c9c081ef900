package audit

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
)

// The mutations that make a canary of a valid call.
const (
	MutateUnknownID  = "unknown_id"        // an id of the right shape that does not exist
	MutateWrongOwner = "wrong_owner"       // an id that belongs to somebody else
	MutateRepeated   = "repeated"          // the same write again: already cancelled, double submit
	MutateOverLimit  = "over_limit"        // an amount beyond funds or limits
	MutateRange      = "out_of_range"      // a value outside of the schema's enum or bounds
	MutateMissing    = "missing_argument"  // a required argument left out
	MutateWrongType  = "wrong_type"        // text for a number
	MutateOrder      = "wrong_order"       // without the write that must come before
	MutateStale      = "stale_write"       // after somebody else did the same
	MutatePermission = "hidden_permission" // a refusal that the prompt's rules do not announce
)

// canaryTasks is how many tasks of the environment the valid calls come from.
const canaryTasks = 64

// Canaries makes n calls that the environment refuses, from calls that it
// accepts: each valid call of a task's solution is mutated, executed, and kept
// where the sandbox was seen to say no and to change nothing. The seed decides
// which and stays hidden: canaries must never be trained on. Mutations, and
// schema and domain level, are kept in balance as far as the environment has
// them; fewer than n come back when it runs out.
func Canaries(ctx context.Context, env Environment, seed uint64, n int) ([]Episode, error) {
	valid, err := TaskEpisodes(ctx, env, seed, canaryTasks)
	if err != nil {
		return nil, err
	}
	for i := range valid {
		valid[i].PromptGroup = "canary/" + valid[i].ID
	}
	return CanariesFrom(ctx, env, valid, seed, n)
}

// TaskEpisodes are the reference solutions of at most n of the environment's
// tasks, chosen by the seed, as episodes without rehearsals.
func TaskEpisodes(ctx context.Context, env Environment, seed uint64, n int) ([]Episode, error) {
	tasker, ok := env.(Tasker)
	if !ok {
		return nil, &Error{
			Code: CodeInvalid, Message: "environment " + env.Info().Name + " lists no tasks",
			Hint: "bring episodes of valid calls along",
		}
	}
	tasks, err := tasker.Tasks(ctx, 0, 0)
	if err != nil {
		return nil, fmt.Errorf("list tasks of %s: %w", env.Info().Name, err)
	}
	random := rand.New(rand.NewPCG(seed, 0x7461736b73))
	random.Shuffle(len(tasks), func(i, j int) { tasks[i], tasks[j] = tasks[j], tasks[i] })
	episodes := make([]Episode, 0, n)
	for _, task := range tasks[:min(len(tasks), n)] {
		ep := Episode{ID: task.ID, PromptGroup: task.ID, Environment: env.Info().Name, Start: Start{Task: task.ID}, Mode: Forced}
		prompt, err := json.Marshal([]map[string]string{{"role": "user", "content": task.Prompt}})
		if err != nil {
			return nil, fmt.Errorf("prompt of task %s: %w", task.ID, err)
		}
		for i, call := range task.Solution {
			ep.Actions = append(ep.Actions, Action{Step: i, Message: i, Call: call, Prompt: prompt})
		}
		episodes = append(episodes, ep)
	}
	return episodes, nil
}

// CanariesFrom makes canaries from episodes of calls that the environment
// accepts. An episode counts up to its first refusal.
func CanariesFrom(ctx context.Context, env Environment, valid []Episode, seed uint64, n int) ([]Episode, error) {
	tools, err := env.Tools(ctx)
	if err != nil {
		return nil, fmt.Errorf("list tools of %s: %w", env.Info().Name, err)
	}
	m := newMutator(tools, rand.New(rand.NewPCG(seed, 0x6d757461746f72)))
	for i := range valid {
		if err := m.learn(ctx, env, &valid[i]); err != nil {
			return nil, err
		}
	}
	queues := m.candidates()
	battery := make([]Episode, 0, n)
	seen := make(map[Digest]bool, n)
	for len(battery) < n && len(queues) > 0 {
		for i := 0; i < len(queues) && len(battery) < n; {
			if len(queues[i]) == 0 {
				queues = append(queues[:i], queues[i+1:]...)
				continue
			}
			next := queues[i][0]
			queues[i] = queues[i][1:]
			i++
			ep, ok, err := next.verify(ctx, env, seed)
			if err != nil {
				return nil, err
			}
			if id := next.digest(); ok && !seen[id] {
				seen[id] = true
				battery = append(battery, ep)
			}
		}
	}
	return battery, nil
}

// candidate is a call that the sandbox may have to refuse.
type candidate struct {
	mutation string
	episode  *Episode
	before   []Action // executed first
	call     Call
	prompt   json.RawMessage
	foreign  *Call // made by somebody else, right before
}

func (c *candidate) digest() Digest {
	at := CallDigest(Call{Tool: c.episode.ID, Role: c.mutation})
	for i := range c.before {
		at = extend(at, CallDigest(c.before[i].Call))
	}
	return extend(at, CallDigest(c.call))
}

// verify executes the candidate and makes an episode of it where the sandbox
// refuses the call, for a reason of its own, and changes nothing.
func (c *candidate) verify(ctx context.Context, env Environment, seed uint64) (Episode, bool, error) {
	if c.foreign != nil && !slices.Contains(env.Info().Capabilities, CanShare) {
		return Episode{}, false, nil // nobody else can act in this world
	}
	ep := c.build(seed)
	start := ep.Start
	if start.Shared != "" {
		start.Shared += "#verify"
	}
	var sessions []Session
	defer func() {
		for _, s := range sessions {
			_ = s.Close() // only opened to look
		}
	}()
	for range 1 + boolToInt(c.foreign != nil) {
		s, err := env.Open(ctx, start)
		if err != nil {
			return Episode{}, false, fmt.Errorf("open %s for a canary: %w", env.Info().Name, err)
		}
		sessions = append(sessions, s)
	}
	var last Observation
	for i := range ep.Actions {
		session := sessions[0]
		if ep.Actions[i].Foreign {
			session = sessions[1]
		}
		var err error
		if last, err = session.Call(ctx, ep.Actions[i].Call); err != nil {
			return Episode{}, false, fmt.Errorf("try a canary of %s: %w", c.call.Tool, err)
		}
		if i < len(ep.Actions)-1 && last.Status != StatusOK {
			return Episode{}, false, nil
		}
	}
	if last.Status != StatusRefused && last.Status != StatusInvalid || len(last.Delta) > 0 {
		return Episode{}, false, nil
	}
	label := &CanaryLabel{Mutation: c.mutation, Level: DomainLevel, Family: Precondition}
	if last.Error != nil && last.Error.Family != "" {
		label.Family = last.Error.Family
	}
	switch label.Family {
	case Transient, Internal:
		return Episode{}, false, nil
	case MalformedCall, UnknownTool, SchemaInvalid, Unparseable:
		label.Level = SchemaLevel
	case Authorization:
		if !announced(env.Info().Policy, last.message()) {
			label.Mutation = MutatePermission
		}
	case Authentication, NotFound, Conflict, Precondition, Limit:
	}
	ep.Actions[len(ep.Actions)-1].Canary = label
	return ep, true, nil
}

// build makes the canary's episode. Its id tells nothing about the mutation.
func (c *candidate) build(seed uint64) Episode {
	id := c.digest()
	for i := range 8 {
		id[i] ^= byte(seed >> (8 * i))
	}
	ep := Episode{
		ID: "canary-" + hex.EncodeToString(id[:12]), PromptGroup: c.episode.PromptGroup,
		Environment: c.episode.Environment, Start: c.episode.Start, Mode: Canary,
	}
	for i := range c.before {
		before := c.before[i]
		before.Step, before.Message, before.Replay = i, i, true
		ep.Actions = append(ep.Actions, before)
	}
	if c.foreign != nil {
		ep.Start.Shared = ep.ID
		ep.Actions = append(ep.Actions, Action{Step: len(ep.Actions), Message: len(ep.Actions), Call: *c.foreign, Replay: true, Foreign: true})
	}
	ep.Actions = append(ep.Actions, Action{Step: len(ep.Actions), Message: len(ep.Actions), Call: c.call, Prompt: c.prompt})
	return ep
}

// announced reports whether the rules that an agent is told speak of what a
// refusal says: they share a word of substance.
func announced(policy, refusal string) bool {
	policy = strings.ToLower(policy)
	for word := range strings.FieldsFuncSeq(strings.ToLower(refusal), func(r rune) bool { return r < 'a' || r > 'z' }) {
		if len(word) >= 6 && strings.Contains(policy, word) {
			return true
		}
	}
	return false
}

func boolToInt(b bool) int { return int(indicator(b)) }
