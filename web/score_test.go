package web_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"understudy/audit"
	"understudy/web"
)

// scorer answers every output with a term that is its step.
type scorer struct{}

func (scorer) Score(_ context.Context, b audit.ScoreBatch) (audit.ScoredBatch, error) {
	var scores audit.ScoredBatch
	for _, o := range b.Outputs {
		scores.Scores = append(scores.Scores, audit.Reward{Status: audit.RewardScored, Phi: new(1.0), Step: len(o.History), Term: float64(len(*o.Rehearsal))})
	}
	return scores, nil
}

func (scorer) Scores(context.Context, audit.Digest, time.Duration) (audit.ScoredBatch, error) {
	return audit.ScoredBatch{}, nil
}

type noOpener struct{}

func (noOpener) Environment(context.Context, string) (audit.Environment, error) { return nil, nil }

func post(t *testing.T, path, body string) *httptest.ResponseRecorder {
	t.Helper()
	w := httptest.NewRecorder()
	handler := web.New(web.Config{Scorer: scorer{}, Environments: noOpener{}})
	handler.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, path, strings.NewReader(body)))
	return w
}

// TestEpisodesLoseNoLine streams episodes by hand, as people write them: no line
// is passed over in silence.
func TestEpisodesLoseNoLine(t *testing.T) {
	t.Parallel()
	const header, step = `{"policy":"p","environment":"shop","episode":"e"}`, `{"call":{"tool":"t"},"rehearsal":"{}"}`
	for _, row := range []struct {
		lines    []string
		answered int
		fault    string
		reason   string
	}{
		{[]string{header, step, step}, 2, "", "one object a line"},
		{[]string{header, "", step}, 1, "", "empty lines are none"},
		{[]string{header + step}, 0, "line 1 ", "line feeds were dropped on the way (curl -d)"},
		{[]string{header, step + step}, 0, "line 2 ", "two steps on a line"},
		{[]string{header, step, step, "{"}, 2, "line 4 ", "steps before a bad line are paid"},
		{[]string{header, step, `{"call":{"tool":"t","argumnts":{}},"rehearsal":"{}"}`}, 1, "argumnts", "a misspelt member of a call"},
		{[]string{header, `{"call":{"tool":"t"},"rehearsed":"{}"}`}, 0, "rehearsed", "a misspelt member of a step"},
		{nil, 0, "empty", "nothing at all"},
	} {
		w := post(t, "/v1/episodes", strings.Join(row.lines, "\n"))
		text := strings.TrimSpace(w.Body.String())
		lines := strings.Split(text, "\n")
		if row.fault != "" {
			if last := lines[len(lines)-1]; !strings.Contains(last, `"error"`) || !strings.Contains(last, row.fault) {
				t.Errorf("%s: ends in %s, want an error that says %q", row.reason, last, row.fault)
			}
			lines = lines[:len(lines)-1]
		}
		if len(lines) != row.answered {
			t.Errorf("%s: %d steps answered, want %d: %s", row.reason, len(lines), row.answered, text)
		}
		if wrong := row.answered == 0 && w.Code == http.StatusOK; wrong {
			t.Errorf("%s: status %d", row.reason, w.Code)
		}
	}
}

// TestOpenRLHFPromptIsCutOff: the rehearsal is what follows the prompt.
func TestOpenRLHFPromptIsCutOff(t *testing.T) {
	t.Parallel()
	label := `{"policy":"p","environment":"shop","call":{"tool":"t"}}`
	for _, row := range []struct {
		query, prompts string
		term           float64 // the length of the rehearsal
		status         int
		reason         string
	}{
		{"ask:{}", `["ask:"]`, 2, http.StatusOK, "prompt and response"},
		{"{}", `[]`, 2, http.StatusOK, "the response alone"},
		{"<s>ask:{}", `["ask:"]`, 0, http.StatusUnprocessableEntity, "scored whole it would be a false rehearsal"},
	} {
		w := post(t, "/v1/score/openrlhf", `{"query":["`+row.query+`"],"prompts":`+row.prompts+`,"labels":[`+label+`]}`)
		var reply struct {
			Rewards float64 `json:"rewards"`
		}
		if err := json.Unmarshal(w.Body.Bytes(), &reply); err != nil || w.Code != row.status || reply.Rewards != row.term {
			t.Errorf("%s: %d %s, want %d and %v", row.reason, w.Code, w.Body, row.status, row.term)
		}
	}
}

func TestGymMeansStayFinite(t *testing.T) {
	t.Parallel()
	w := post(t, "/gym/aggregate_metrics", `{"verify_responses":[{"reward":1.7e308},{"reward":1.7e308}]}`)
	if !strings.Contains(w.Body.String(), `"mean/reward":1.7e+308`) {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}
