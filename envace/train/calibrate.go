package train

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"understudy/audit"
	"understudy/envace"
	"understudy/envace/grpo"
)

// calibrate has the step's REHEARSE outputs audited and adds their terms:
// λ·clip(φ − baseline, −1, 1)·weight, and −λ_fs for a false success, which also
// takes the task reward from what its rollout did later (design.md 6). An output
// that was not audited, or whose verdict is masked, gets no term.
func (t *Trainer) calibrate(ctx context.Context, b *collected, m *meter) error {
	if t.Arm != ArmCalibrated {
		return nil
	}
	request := audit.ScoreBatch{Policy: t.name(), Checkpoint: int64(t.step + 1)}
	var of []int // which output each asked one is
	for i, r := range b.rolled {
		asked, at := t.rehearsed(r, i, b.first[i])
		request.Outputs, of = append(request.Outputs, asked...), append(of, at...)
	}
	for start := 0; start < len(request.Outputs); start += audit.MaxOutputs {
		part := request
		part.Outputs = request.Outputs[start:min(start+audit.MaxOutputs, len(request.Outputs))]
		scores, err := t.scores(ctx, part)
		if err != nil {
			return fmt.Errorf("score %d rehearsals: %w", len(part.Outputs), err)
		}
		for j, reward := range scores {
			m.scored(reward)
			t.pay(b.graded, of[start+j], reward)
		}
	}
	return nil
}

// scoreWait is how long one pending score is waited for without another coming.
const scoreWait = 10 * time.Minute

// scores has a batch scored, all of it: which term an output gets must not depend on
// how fast the sandbox is.
func (t *Trainer) scores(ctx context.Context, batch audit.ScoreBatch) ([]audit.Reward, error) {
	scored, err := t.Scorer.Score(ctx, batch)
	for err == nil && scored.Pending > 0 {
		before := scored.Pending
		scored, err = t.Scorer.Scores(ctx, scored.ID, scoreWait)
		switch {
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case err == nil && scored.Pending >= before:
			return nil, &audit.Error{
				Code: audit.CodeInfrastructure, Message: fmt.Sprintf("%d of them have no score, and none came in %s", scored.Pending, scoreWait),
				Hint: "look at the sandbox; the run goes on from its last checkpoint",
			}
		}
	}
	if err == nil && len(scored.Scores) != len(batch.Outputs) {
		err = fmt.Errorf("%d scores came back", len(scored.Scores))
	}
	return scored.Scores, err
}

func (t *Trainer) name() string {
	return t.Recipe.Name + "/" + string(t.Arm) + "/" + strconv.FormatUint(t.Seed, 10)
}

// pay adds one reward to the output that it is for.
func (t *Trainer) pay(graded []grpo.Output, at int, reward audit.Reward) {
	if reward.Status != audit.RewardScored {
		return
	}
	o := &graded[at]
	o.Calibration = t.Recipe.Calibration.Lambda * reward.Term
	if reward.FalseSuccess {
		o.Calibration -= t.Recipe.Calibration.FalseSuccess
		grpo.MaskAfter(graded, o.Prompt, o.Rollout, o.Step)
	}
}

// rehearsed are the REHEARSE outputs of a rollout as the scorer is asked, and the
// number of each.
func (t *Trainer) rehearsed(r rolled, rollout, first int) (asked []audit.Output, at []int) {
	var history []audit.Earlier
	output := first
	for _, item := range r.trajectory.Items {
		switch {
		case item.Act != nil:
			output++
		case item.Answer != nil:
			answer := string(item.Answer.Raw)
			if rehearsal := item.Answer.Rehearsal; rehearsal != nil {
				asked = append(asked, t.ask(r, rollout, history, item.Answer, rehearsal))
				at = append(at, output)
				output++
			}
			if !item.Answer.Dropped { // else the sandbox must not make it, either
				history = append(history, audit.Earlier{Call: item.Answer.Call, Answer: &answer})
			}
		}
	}
	if n := len(asked); n > 0 && !r.grade.Unknown {
		asked[n-1].Success = &r.grade.Success
	}
	return asked, at
}

func (t *Trainer) ask(r rolled, rollout int, history []audit.Earlier, answer *envace.Answer, rehearsal *envace.Rehearsed) audit.Output {
	text, step, sample := string(answer.Raw), len(history), 0
	if rehearsal.StateDelta != nil { // it is judged with what it says of the state
		text = envace.RehearsalText(answer.Raw, rehearsal.StateDelta)
	}
	return audit.Output{
		Environment: t.Recipe.Environment, Start: audit.Start{Task: r.trajectory.Task.ID}, History: slices.Clip(history),
		Call: answer.Call, Rehearsal: &text, Mode: audit.Open, Role: audit.RoleRehearse,
		Episode: fmt.Sprintf("%s/%d/%d", r.prompt, t.step+1, rollout), PromptGroup: r.trajectory.Task.ID,
		Step: &step, Sample: &sample, Confidence: rehearsal.Confidence, Truncated: rehearsal.Output.Truncated,
	}
}
