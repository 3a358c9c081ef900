package train

import (
	"fmt"

	"understudy/audit"
	"understudy/envace"
	"understudy/envace/chat"
)

// imitations are the rows of a step that imitates recorded conversations: every
// output of the recorded agent in the role of ACT, every recorded answer in that of
// REHEARSE, each after the prompt that a rollout would have read there.
func (t *Trainer) imitations(f *chat.Format, number int) ([]row, error) {
	var rows []row
	batch := max(t.Recipe.WarmStart.Batch, 1)
	for i := range batch {
		task := t.Train[t.draw(number*batch+i)]
		items, found := t.Conversations[task.ID]
		if !found {
			return nil, &audit.Error{Code: audit.CodeUnprocessable, Message: "task " + task.ID + " has no recorded conversation to imitate", Hint: "set warm_start: {steps: 0}, or train on recorded conversations"}
		}
		outputs, err := t.imitated(f, task, items)
		if err != nil {
			return nil, fmt.Errorf("imitate conversation %s: %w", task.ID, err)
		}
		rows = append(rows, rowsOf(outputs, len(rows))...)
	}
	return rows, nil
}

// imitated are the outputs of a conversation as a policy would have sampled them.
func (t *Trainer) imitated(f *chat.Format, task audit.Task, items []envace.Item) ([]*envace.Output, error) {
	r := t.rolloutOf(task)
	seen := &envace.Transcript{Task: task, Policy: r.Told, Tools: r.Tools}
	var outputs []*envace.Output
	say := func(role audit.PolicyRole, call audit.Call, tokens []int32) error {
		prompt, err := f.Prompt(seen, role, call)
		outputs = append(outputs, &envace.Output{Role: role, Prompt: prompt, Tokens: tokens})
		return err
	}
	for _, item := range items {
		switch {
		case item.Act != nil:
			tokens, err := f.ActTokens(seen, item.Act)
			if err != nil {
				return nil, err
			}
			if err := say(audit.ActRole, audit.Call{}, tokens); err != nil {
				return nil, err
			}
		case item.Answer != nil:
			tokens, err := f.AnswerTokens(seen, item.Answer.Call, item.Answer.Raw)
			if err != nil {
				return nil, err
			}
			if err := say(audit.RehearseRole, item.Answer.Call, tokens); err != nil {
				return nil, err
			}
		}
		seen.Items = append(seen.Items, item)
	}
	return outputs, nil
}
