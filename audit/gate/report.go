package gate

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	"understudy/audit"
)

// Report writes one kind of report. All of them are safe to show: what came from
// a model (tool names, values) is escaped for its format, and no report loads
// anything from elsewhere.
func Report(kind ReportKind, v *Verdict) ([]byte, error) {
	switch kind {
	case JUnit:
		return ReportJUnit(v)
	case SARIF:
		return ReportSARIF(v)
	case Markdown:
		return ReportMarkdown(v), nil
	case JSON:
		return ReportJSON(v)
	case Badge:
		return ReportBadge(v)
	case HTML:
		return ReportHTML(v)
	}
	return nil, &audit.Error{Code: audit.CodeInvalid, Message: fmt.Sprintf("unknown report %q", kind), Hint: "valid: junit, sarif, markdown, json, badge, html"}
}

// ReportJSON is the whole verdict with its evidence, as VerdictSchema describes
// it: Verify recomputes it offline.
func ReportJSON(v *Verdict) ([]byte, error) {
	data, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		return nil, fmt.Errorf("write the verdict as JSON: %w", err)
	}
	return append(data, '\n'), nil
}

// Verify recomputes a JSON report from the evidence and the policy in it, and
// returns the verdict if it is the same in every field. A report that was
// changed, or that another version of the rules wrote, is an *audit.Error with
// CodeConflict that names what differs.
func Verify(report []byte) (*Verdict, error) {
	claimed := &Verdict{}
	decoder := json.NewDecoder(bytes.NewReader(report))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(claimed); err != nil {
		return nil, &audit.Error{Code: audit.CodeInvalid, Message: "this is not the JSON report of a gate", Hint: "give the file that report.json of the gate policy names", Err: err}
	}
	if claimed.Schema != schemaName || claimed.Evidence == nil {
		return nil, &audit.Error{
			Code: audit.CodeInvalid, Message: fmt.Sprintf("report of form %q without the evidence of %q", claimed.Schema, schemaName),
			Hint: "verify it with the version of understudy that wrote it",
		}
	}
	policy, err := Load([]byte(claimed.Policy.Text))
	if err != nil {
		return nil, fmt.Errorf("read the policy in the report: %w", err)
	}
	options := claimed.Options
	options.Now = claimed.Decided
	again := Decide(policy, claimed.Evidence, options)
	if what := firstDifference(claimed, again); what != "" {
		return again, &audit.Error{
			Code: audit.CodeConflict, Message: "the report does not follow from its own evidence: " + what,
			Hint: "it was edited, or decided by other rules; run the gate again",
		}
	}
	return again, nil
}

// firstDifference names the first part in which two verdicts differ, "" if none.
func firstDifference(claimed, again *Verdict) string {
	differs := func(a, b any) bool {
		x, errX := json.Marshal(a)
		y, errY := json.Marshal(b)
		return errX != nil || errY != nil || !bytes.Equal(x, y)
	}
	for i := range min(len(claimed.Checks), len(again.Checks)) {
		if a, b := &claimed.Checks[i], &again.Checks[i]; differs(a, b) {
			return plain(fmt.Sprintf("check %d is %s (%s), recomputed %s (%s)", i+1, a.Status, a.Sentence(), b.Status, b.Sentence()))
		}
	}
	for _, part := range []struct {
		name string
		a, b any
	}{
		{"number of checks", len(claimed.Checks), len(again.Checks)},
		{"status", claimed.Status, again.Status},
		{"exit code", claimed.ExitCode, again.ExitCode},
		{"policy digest", claimed.Policy.Digest, again.Policy.Digest},
		{"new findings", claimed.New, again.New},
		{"needs", claimed.Needs, again.Needs},
		{"notes", claimed.Notes, again.Notes},
		{"line", claimed.Line, again.Line},
	} {
		if differs(part.a, part.b) {
			return plain(fmt.Sprintf("%s is %v, recomputed %v", part.name, part.a, part.b))
		}
	}
	if differs(claimed, again) {
		return "the rest of the report"
	}
	return ""
}

// Buy schedules the calls that a verdict lacks and returns how many were queued.
func Buy(ctx context.Context, scheduler audit.Scheduler, v *Verdict) (int, error) {
	if len(v.Needs) == 0 {
		return 0, nil
	}
	queued, err := scheduler.Schedule(ctx, v.Evidence.Run.ID, v.Needs)
	if err != nil {
		return queued, fmt.Errorf("schedule %d orders for run %q: %w", len(v.Needs), v.Evidence.Run.ID, err)
	}
	return queued, nil
}
