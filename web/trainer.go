package web

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/gin-gonic/gin"

	"understudy/audit"
)

// maxTrainerRequest is far above the text of any sample.
const maxTrainerRequest = 16 << 20

// scalarDeadlineMS is how long a trainer that knows no pending is kept waiting:
// less than the 180 s after which OpenRLHF gives up. After that it is asked to
// come again, because a number that is not known is no 0.
const scalarDeadlineMS = 170_000

// label is the place of a trainer's sample, carried in the column of labels of
// its data set: an output without its rehearsal, and whose it is.
type label struct {
	Run        string `json:"run,omitempty"`
	Policy     string `json:"policy"`
	Checkpoint int64  `json:"checkpoint,omitempty"`
	audit.Output
}

// readLabel reads a label that is an object, or its text.
func readLabel(raw json.RawMessage) (label, error) {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		raw = json.RawMessage(text)
	}
	var l label
	if err := audit.DecodePlace(raw, &l); err != nil {
		return l, &audit.Error{
			Code: audit.CodeUnprocessable, Message: "the label is no place of an output", Err: err,
			Hint: `make it the JSON of {"policy", "environment", "start", "history", "call"}`,
		}
	}
	return l, nil
}

// scalar scores one labelled sample for a trainer that knows numbers alone: its
// calibration term, which is 0 when there is none to be had, and that flag.
func (cfg Config) scalar(c *gin.Context, l label, rehearsal string) (audit.Reward, error) {
	l.Rehearsal = &rehearsal
	scores, err := cfg.Scorer.Score(c.Request.Context(), audit.ScoreBatch{
		Run: l.Run, Policy: l.Policy, Checkpoint: l.Checkpoint, DeadlineMS: scalarDeadlineMS, Outputs: []audit.Output{l.Output},
	})
	if err != nil {
		return audit.Reward{}, err
	}
	if scores.Pending > 0 {
		return audit.Reward{}, &audit.Error{Code: audit.CodeInfrastructure, Message: "no verdict yet", Hint: "ask again: it is paid once"}
	}
	return scores.Scores[0], nil
}

// unknownPhi stands for φ where a trainer must have a number for every sample and
// there is none: neither good nor bad. Such a sample is marked "masked".
const unknownPhi = 0.5

// metrics are a reward as numbers for a trainer's log, the same members for
// every sample.
func metrics(r *audit.Reward) map[string]float64 {
	m := map[string]float64{"masked": 1, "false_success": 0, "weight": r.Weight, "baseline": r.Baseline, "phi": unknownPhi, "term": r.Term}
	if r.Status == audit.RewardScored {
		m["masked"], m["phi"] = 0, *r.Phi
	}
	if r.FalseSuccess {
		m["false_success"] = 1
	}
	return m
}

// openRLHFRequest is what OpenRLHF posts to its remote reward URL.
type openRLHFRequest struct {
	Query   []string          `json:"query"` // prompt and response
	Prompts []string          `json:"prompts"`
	Labels  []json.RawMessage `json:"labels"`
}

// openRLHFReply has scalars for one sample, as OpenRLHF sends them, and lists
// for several.
type openRLHFReply struct {
	Rewards any            `json:"rewards"`
	Scores  any            `json:"scores"` // in [0,1], for filtering
	Logs    map[string]any `json:"extra_logs"`
}

// postOpenRLHF answers OpenRLHF's remote reward call.
func (cfg Config) postOpenRLHF(c *gin.Context) {
	text, err := readBody(c, maxTrainerRequest)
	if err != nil {
		cfg.fail(c, err)
		return
	}
	var req openRLHFRequest
	if err := json.Unmarshal(text, &req); err != nil || len(req.Query) == 0 || len(req.Labels) != len(req.Query) {
		cfg.fail(c, invalid("the request is not OpenRLHF's", `send {"query": [text], "prompts": [text], "labels": [place]}`))
		return
	}
	rewards := make([]audit.Reward, len(req.Query))
	for i := range req.Query {
		l, err := readLabel(req.Labels[i])
		if err == nil {
			rewards[i], err = cfg.response(c, l, &req, i)
		}
		if err != nil {
			cfg.fail(c, fmt.Errorf("sample %d: %w", i, err))
			return
		}
	}
	c.JSON(http.StatusOK, openRLHF(rewards))
}

// response scores what follows the prompt of a sample. A query that does not begin
// with its prompt is refused: scored whole, it would be a false rehearsal.
func (cfg Config) response(c *gin.Context, l label, req *openRLHFRequest, i int) (audit.Reward, error) {
	prompt := ""
	if i < len(req.Prompts) {
		prompt = req.Prompts[i]
	}
	said, found := strings.CutPrefix(req.Query[i], prompt)
	if !found {
		return audit.Reward{}, &audit.Error{
			Code: audit.CodeUnprocessable, Message: "the query does not begin with its prompt",
			Hint: "apply the chat template before, or send no prompts and the response alone",
		}
	}
	return cfg.scalar(c, l, said)
}

func openRLHF(rewards []audit.Reward) openRLHFReply {
	logs := map[string][]float64{}
	var terms, scores []float64
	for i := range rewards {
		m := metrics(&rewards[i])
		terms, scores = append(terms, m["term"]), append(scores, m["phi"])
		for name, x := range m {
			logs[name] = append(logs[name], x)
		}
	}
	reply := openRLHFReply{Rewards: terms, Scores: scores, Logs: map[string]any{}}
	if len(rewards) == 1 {
		reply.Rewards, reply.Scores = terms[0], scores[0]
	}
	for name, xs := range logs {
		reply.Logs[name] = xs
		if len(rewards) == 1 {
			reply.Logs[name] = xs[0]
		}
	}
	return reply
}

// slimeRequest is what slime posts with --rm-type remote_rm.
type slimeRequest struct {
	Prompt   json.RawMessage `json:"prompt"`
	Response string          `json:"response"`
	Label    json.RawMessage `json:"label"`
}

// postSlime answers slime's remote reward call with a number, or with ?full=1
// with an object for --reward-key term.
func (cfg Config) postSlime(c *gin.Context) {
	text, err := readBody(c, maxTrainerRequest)
	if err != nil {
		cfg.fail(c, err)
		return
	}
	var req slimeRequest
	if err := json.Unmarshal(text, &req); err != nil || len(req.Label) == 0 {
		cfg.fail(c, invalid("the request is not slime's", `send {"prompt": ..., "response": text, "label": place}`))
		return
	}
	l, err := readLabel(req.Label)
	if err != nil {
		cfg.fail(c, err)
		return
	}
	r, err := cfg.scalar(c, l, req.Response)
	if err != nil {
		cfg.fail(c, err)
		return
	}
	if c.Query("full") != "" {
		c.JSON(http.StatusOK, metrics(&r))
		return
	}
	c.JSON(http.StatusOK, r.Term)
}
