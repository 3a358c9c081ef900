package web

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"

	"github.com/gin-gonic/gin"

	"understudy/audit"
)

// Trainings keeps what trainers write while they train.
type Trainings interface {
	// StartTraining opens a training, or finds the one of the same experiment, arm and seed.
	StartTraining(ctx context.Context, t audit.NewTraining) (int32, error)
	// WriteMetrics keeps numbers of steps; a step that is written again is overwritten.
	WriteMetrics(ctx context.Context, training int32, metrics []audit.Metric) error
	// FinishTraining says how a training ended; reason "" = it is complete.
	FinishTraining(ctx context.Context, training int32, reason string) error
}

// maxMetrics bounds one request of metrics: thousands of numbers.
const maxMetrics = 4 << 20

// mountTrainings lets any trainer write what the page of trainings shows.
func (cfg Config) mountTrainings(write *gin.RouterGroup) {
	if cfg.Trainings == nil {
		return
	}
	write.POST("/trainings", cfg.postTraining)
	write.POST("/trainings/:id/metrics", cfg.postMetrics)
	write.POST("/trainings/:id/finish", cfg.postFinish)
}

func (cfg Config) postTraining(c *gin.Context) {
	var t audit.NewTraining
	if err := readStrict(c, &t, maxMetrics, `send {"experiment": "NAME", "arm": "NAME", "seed": 1, "policy": "NAME"}`); err != nil {
		cfg.fail(c, err)
		return
	}
	id, err := cfg.Trainings.StartTraining(c.Request.Context(), t)
	if err != nil {
		cfg.fail(c, err)
		return
	}
	c.JSON(http.StatusOK, gin.H{"id": id})
}

// metricRequest is one number; a value that JSON cannot say is null or a text
// such as "NaN", as Python's trainers write it.
type metricRequest struct {
	Name  string           `json:"name"`
	Role  audit.PolicyRole `json:"role,omitempty"`
	Step  int64            `json:"step"`
	Value json.RawMessage  `json:"value"`
}

func (cfg Config) postMetrics(c *gin.Context) {
	const hint = `send {"metrics": [{"name": "reward", "role": "act", "step": 0, "value": 0.5}]}`
	var req struct {
		Metrics []metricRequest `json:"metrics"`
	}
	id, err := trainingID(c)
	if err == nil {
		err = readStrict(c, &req, maxMetrics, hint)
	}
	metrics := make([]audit.Metric, 0, len(req.Metrics))
	for i := range req.Metrics {
		m := &req.Metrics[i]
		value, valid := metricValue(m.Value)
		if err == nil && !valid {
			err = invalid("value "+strconv.Quote(string(m.Value))+" of metric "+strconv.Quote(m.Name), hint)
		}
		metrics = append(metrics, audit.Metric{Name: m.Name, Role: m.Role, Step: m.Step, Value: value})
	}
	if err == nil {
		err = cfg.Trainings.WriteMetrics(c.Request.Context(), id, metrics)
	}
	if err != nil {
		cfg.fail(c, err)
		return
	}
	c.JSON(http.StatusOK, gin.H{"written": len(metrics)})
}

// metricValue reads a number, null, or the name of what is not finite.
func metricValue(raw json.RawMessage) (float64, bool) {
	var text string
	switch {
	case len(raw) == 0:
		return 0, false
	case string(raw) == "null":
		text = "NaN"
	case json.Unmarshal(raw, &text) != nil:
		text = string(raw)
	}
	x, err := strconv.ParseFloat(text, 64)
	return x, err == nil || errors.Is(err, strconv.ErrRange)
}

func (cfg Config) postFinish(c *gin.Context) {
	var req struct {
		Reason string `json:"reason,omitempty"` // why it failed; "" = it is complete
	}
	id, err := trainingID(c)
	if err == nil {
		err = readStrict(c, &req, maxMetrics, `send {} or {"reason": "why it failed"}`)
	}
	if err == nil {
		err = cfg.Trainings.FinishTraining(c.Request.Context(), id, req.Reason)
	}
	if err != nil {
		cfg.fail(c, err)
		return
	}
	c.JSON(http.StatusOK, gin.H{"finished": id})
}

func trainingID(c *gin.Context) (int32, error) {
	id, err := strconv.ParseInt(c.Param("id"), 10, 32)
	if err != nil || id < 1 {
		return 0, invalid("training "+strconv.Quote(c.Param("id")), "use the id that POST /v1/trainings answered")
	}
	return int32(id), nil
}

// readStrict reads one JSON object of known members.
func readStrict(c *gin.Context, into any, limit int64, hint string) error {
	text, err := readBody(c, limit)
	if err != nil {
		return err
	}
	if err := audit.DecodeStrict(text, into); err != nil {
		return &audit.Error{Code: audit.CodeInvalid, Message: "the request cannot be read", Hint: hint, Err: err}
	}
	return nil
}
