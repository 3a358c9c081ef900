package private

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"understudy/audit"
	"understudy/envace"
	"understudy/envace/judge"
)

//go:embed prompts/assess.md
var assessInstruction string

// ByGrade assesses by a grader of transcripts. What it suggests is what the
// rehearsed refusals say: not to repeat them.
func ByGrade(grader envace.Grader, rules *audit.Rules) AssessFunc {
	return func(ctx context.Context, t *envace.Trajectory) (Assessment, error) {
		grade, err := grader.Grade(ctx, t)
		if err != nil {
			return Assessment{}, fmt.Errorf("assess an attempt: %w", err)
		}
		a := Assessment{Success: grade.Success, Score: grade.Reward, Unknown: grade.Unknown, Text: "It ended with " + string(t.Stop) + "."}
		var refused []string
		for _, answer := range t.Calls() {
			if read := rules.Of(answer.Call.Tool).Read(answer.Raw).Outcome; read.Class == audit.Failed {
				refused = append(refused, fmt.Sprintf("%s %s was refused (%s)", answer.Call.Tool, answer.Call.Arguments, read.Family))
			}
		}
		if len(refused) > 0 {
			a.Revision = strings.Join(refused, "; ") + ": do not make such a call unchanged."
		}
		return a, nil
	}
}

const assessSchema = `{"type":"object","additionalProperties":false,"required":["success","score","assessment","revision"],"properties":{` +
	`"success":{"type":"boolean"},"score":{"type":"number"},"assessment":{"type":"string"},"revision":{"type":"string"}}}`

// ByModel assesses by a model. What it fails to say is Unknown, after one retry; an
// *audit.Error other than of the infrastructure is returned.
func ByModel(ask judge.AskFunc, temperature float64) AssessFunc {
	return func(ctx context.Context, t *envace.Trajectory) (Assessment, error) {
		told, err := envace.Narrate(append([]envace.Item{{User: t.Task.Prompt}}, t.Items...), false)
		if err != nil {
			return Assessment{}, err
		}
		messages := []envace.Message{{Role: "system", Content: assessInstruction}, {Role: "user", Content: told}}
		for range 2 {
			text, err := ask(ctx, messages, json.RawMessage(assessSchema), temperature)
			if ctx.Err() != nil {
				return Assessment{}, context.Cause(ctx)
			}
			if e, ok := errors.AsType[*audit.Error](err); ok && e.Code != audit.CodeInfrastructure {
				return Assessment{}, fmt.Errorf("ask the assessor: %w", err)
			}
			if a, ok := readAssessment(text); err == nil && ok {
				return a, nil
			}
		}
		return Assessment{Unknown: true}, nil
	}
}

func readAssessment(text string) (Assessment, bool) {
	var answer struct {
		Success    *bool    `json:"success"`
		Score      *float64 `json:"score"`
		Assessment string   `json:"assessment"`
		Revision   string   `json:"revision"`
	}
	if json.Unmarshal([]byte(envace.AfterThinking(text)), &answer) != nil || answer.Success == nil || answer.Score == nil || *answer.Score < 0 || *answer.Score > 1 {
		return Assessment{}, false
	}
	return Assessment{Success: *answer.Success, Score: *answer.Score, Text: answer.Assessment, Revision: answer.Revision}, true
}
