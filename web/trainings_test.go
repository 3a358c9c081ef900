package web_test

import (
	"context"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"understudy/audit"
	"understudy/web"
)

// trainings keeps what was asked for.
type trainings struct {
	started audit.NewTraining
	metrics []audit.Metric
	reason  string
}

func (f *trainings) StartTraining(_ context.Context, t audit.NewTraining) (int32, error) {
	f.started = t
	return 7, nil
}

func (f *trainings) WriteMetrics(_ context.Context, id int32, metrics []audit.Metric) error {
	if id != 7 {
		return &audit.Error{Code: audit.CodeNotFound, Message: "no such training"}
	}
	f.metrics = append(f.metrics, metrics...)
	return nil
}

func (f *trainings) FinishTraining(_ context.Context, _ int32, reason string) error {
	f.reason = reason
	return nil
}

func TestAnyTrainerWritesMetrics(t *testing.T) {
	t.Parallel()
	f := &trainings{}
	handler := web.New(web.Config{Trainings: f})
	for _, row := range []struct {
		path, body string
		status     int
		reason     string
	}{
		{"/v1/trainings", `{"experiment": "e", "arm": "a", "seed": 3}`, http.StatusOK, "a training is opened"},
		{"/v1/trainings", `{"experiment": "e", "arms": 1}`, http.StatusBadRequest, "a member that is none is a typing error"},
		{"/v1/trainings/7/metrics", `{"metrics": [{"name": "reward", "role": "act", "step": 1, "value": 0.5}, {"name": "loss", "step": 1, "value": "NaN"}, {"name": "loss", "step": 2, "value": null}]}`, http.StatusOK, "what is no number is kept as such"},
		{"/v1/trainings/7/metrics", `{"metrics": [{"name": "reward", "step": 1, "value": "much"}]}`, http.StatusBadRequest, "a value is a number"},
		{"/v1/trainings/7/metrics", `{"metrics": [{"name": "reward", "step": 1}]}`, http.StatusBadRequest, "a value is there"},
		{"/v1/trainings/8/metrics", `{"metrics": []}`, http.StatusNotFound, "the training exists"},
		{"/v1/trainings/x/metrics", `{"metrics": []}`, http.StatusBadRequest, "an id is a number"},
		{"/v1/trainings/7/finish", `{"reason": "out of memory"}`, http.StatusOK, "a training ends"},
	} {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, row.path, strings.NewReader(row.body)))
		if w.Code != row.status {
			t.Errorf("%s: %s %s answers %d, want %d: %s", row.reason, row.path, row.body, w.Code, row.status, w.Body)
		}
	}
	if len(f.metrics) != 3 || f.metrics[0].Value != .5 || !math.IsNaN(f.metrics[1].Value) || !math.IsNaN(f.metrics[2].Value) {
		t.Errorf("metrics %+v: two of three are no numbers", f.metrics)
	}
	if f.started.Seed != 3 || f.reason != "out of memory" {
		t.Errorf("started %+v, ended because of %q", f.started, f.reason)
	}
}
