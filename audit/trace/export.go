package trace

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"

	"understudy/audit"
)

// Verdicts exported under this key travel in ATIF's extra.
const extraKey = "understudy"

// atifVersion is the newest version of the format that we have seen in use.
const atifVersion = "ATIF-v1.7"

// WriteATIF writes one audited episode as an ATIF trajectory: a step a call,
// the rehearsed answer as its observation, the verdict in extra. The pairs are
// one episode's, in order.
func WriteATIF(w io.Writer, pairs []audit.Pair) error {
	if len(pairs) == 0 {
		return &audit.Error{Code: audit.CodeInvalid, Message: "export an episode without pairs", Hint: "name an episode of the run"}
	}
	first := pairs[0]
	out := atifTrajectory{
		SchemaVersion: atifVersion, SessionID: first.Episode, TrajectoryID: first.Episode,
		Agent: atifAgent{Name: "understudy", Version: first.Version, Model: first.Policy},
		Extra: map[string]any{extraKey: map[string]any{
			"environment": first.Environment, "environment_digest": first.EnvDigest, "mode": first.Mode,
			"prompt_group": first.PromptGroup,
		}},
	}
	for i, pair := range pairs {
		step, err := atifStepOf(i+1, pair)
		if err != nil {
			return err
		}
		out.Steps = append(out.Steps, step)
	}
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	return encoder.Encode(out)
}

func atifStepOf(id int, pair audit.Pair) (atifStep, error) {
	callID := pair.Action.CallID
	if callID == "" {
		callID = "call-" + strconv.Itoa(pair.Action.Step)
	}
	args := pair.Action.Call.Arguments
	if !json.Valid(args) {
		quoted, err := json.Marshal(string(args))
		if err != nil {
			return atifStep{}, fmt.Errorf("encode arguments of step %d: %w", pair.Action.Step, err)
		}
		args = quoted
	}
	step := atifStep{
		ID: id, Source: "agent", Message: json.RawMessage(`""`),
		ToolCalls: []atifCall{{ID: callID, Function: pair.Action.Call.Tool, Arguments: args}},
		Extra:     map[string]any{extraKey: exportedVerdict(pair)},
	}
	if pair.Action.Rehearsal != nil {
		answer, err := json.Marshal(string(pair.Action.Rehearsal.Raw))
		if err != nil {
			return atifStep{}, fmt.Errorf("encode rehearsal of step %d: %w", pair.Action.Step, err)
		}
		step.Observation = &atifObservation{Results: []atifResult{{CallID: callID, Content: answer}}}
	}
	return step, nil
}

func exportedVerdict(pair audit.Pair) map[string]any {
	extra := map[string]any{"key": pair.Key, "verdict": pair.Verdict}
	if pair.Observation != nil {
		extra["executed"] = string(pair.Observation.Raw)
		extra["delta"] = pair.Observation.Delta
	}
	return extra
}

// evaluationEvent is OpenTelemetry's gen_ai.evaluation.result, as one line of
// OTLP-like JSON: viewers hang it under the execute_tool span of the same id.
type evaluationEvent struct {
	Name       string         `json:"name"`
	Attributes map[string]any `json:"attributes"`
}

// WriteOTel writes one evaluation event a pair, a line each. A masked pair has
// a label and an error type but no score: it is never a number.
func WriteOTel(w io.Writer, pairs []audit.Pair) error {
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	for _, pair := range pairs {
		attributes := map[string]any{
			"gen_ai.evaluation.name": "understudy.fidelity",
			"gen_ai.conversation.id": pair.Episode,
			"gen_ai.tool.name":       pair.Action.Call.Tool,
			"gen_ai.tool.call.id":    pair.Action.CallID,
			"understudy.key":         pair.Key.String(),
		}
		if v := pair.Verdict; v.Masked != "" {
			attributes["gen_ai.evaluation.score.label"] = "masked"
			attributes["error.type"] = string(v.Masked)
		} else {
			attributes["gen_ai.evaluation.score.label"] = v.Severity.String()
			if v.Scores.Phi != nil {
				attributes["gen_ai.evaluation.score.value"] = *v.Scores.Phi
			}
			attributes["gen_ai.evaluation.explanation"] = explain(v)
		}
		if err := encoder.Encode(evaluationEvent{Name: "gen_ai.evaluation.result", Attributes: attributes}); err != nil {
			return fmt.Errorf("write evaluation event: %w", err)
		}
	}
	return nil
}

func explain(v audit.Verdict) string {
	text := fmt.Sprintf("real %s, rehearsed %s", outcome(v.Real), outcome(v.Rehearsed))
	if v.FalseSuccess {
		text += ", false success"
	}
	if n := len(v.Differences); n > 0 {
		text += fmt.Sprintf(", %d differences, first %s at %s", n, v.Differences[0].Kind, v.Differences[0].Pointer)
	}
	return text
}

func outcome(o audit.Outcome) string {
	if o.Family != "" {
		return string(o.Class) + " (" + string(o.Family) + ")"
	}
	return string(o.Class)
}
