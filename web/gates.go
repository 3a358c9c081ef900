package web

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/gin-gonic/gin"

	"understudy/audit"
	"understudy/audit/gate"
)

// Gates keeps what gates decided.
type Gates interface {
	// SaveGate keeps a decision; a run that does not exist is CodeNotFound.
	SaveGate(ctx context.Context, g audit.GateRecord) error
	// Gates lists decisions without their documents, newest first.
	Gates(ctx context.Context, filter audit.GateFilter, page audit.Page) ([]audit.GateRecord, string, error)
	// Gate reads one decision with its document, or CodeNotFound.
	Gate(ctx context.Context, run string, decided time.Time) (audit.GateRecord, error)
}

// maxGateRequest is far above any gate policy that people write.
const maxGateRequest = 1 << 20

// gateRequest asks for a decision.
type gateRequest struct {
	Policy   string `json:"policy"`             // the gate policy, YAML
	Run      string `json:"run"`                // its name, or tag:NAME
	Baseline string `json:"baseline,omitempty"` // a run, tag:NAME, auto or none; "" = as the policy says
}

// postGate decides about a run, keeps the decision and answers with the verdict
// as `understudy gate` would report it. Whatever the verdict is, the status is
// 200: the decision is in the body.
func (cfg Config) postGate(c *gin.Context) {
	var req gateRequest
	if err := readStrict(c, &req, maxGateRequest, `send {"policy": "YAML", "run": "NAME"}`); err != nil {
		cfg.fail(c, err)
		return
	}
	ctx := c.Request.Context()
	policy, err := gate.Load([]byte(req.Policy))
	if err != nil {
		cfg.fail(c, err)
		return
	}
	evidence, err := gate.Collect(ctx, cfg.Figures, policy, req.Run, req.Baseline)
	if err != nil {
		cfg.fail(c, err)
		return
	}
	v := gate.Decide(policy, evidence, gate.Options{Now: time.Now()})
	document, err := gate.ReportJSON(v)
	if err != nil {
		cfg.fail(c, err)
		return
	}
	record := audit.GateRecord{Run: evidence.Run.ID, Status: string(v.Status), PolicyDigest: v.Policy.Digest, Document: document}
	if err := cfg.Gates.SaveGate(ctx, record); err != nil {
		cfg.fail(c, err)
		return
	}
	if cfg.Decided != nil {
		cfg.Decided(ctx, v)
	}
	c.Data(http.StatusOK, "application/json", document)
}

// getGates lists decisions: ?run=, ?policy_digest=, ?after=, ?limit=.
func (cfg Config) getGates(c *gin.Context) {
	limit := 0
	if text := c.Query("limit"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			cfg.fail(c, invalid("limit "+text, "give a positive number, or none"))
			return
		}
		limit = n
	}
	gates, next, err := cfg.Gates.Gates(c.Request.Context(),
		audit.GateFilter{Run: c.Query("run"), PolicyDigest: c.Query("policy_digest")},
		audit.Page{After: c.Query("after"), Limit: limit})
	if err != nil {
		cfg.fail(c, err)
		return
	}
	if gates == nil {
		gates = []audit.GateRecord{}
	}
	c.JSON(http.StatusOK, gin.H{"gates": gates, "next": next})
}

// getGate answers with one decision's report: ?run=&decided=, as the list says.
func (cfg Config) getGate(c *gin.Context) {
	decided, err := time.Parse(time.RFC3339Nano, c.Query("decided"))
	if err != nil {
		cfg.fail(c, invalid("decided "+strconv.Quote(c.Query("decided")), "give run and decided as GET /v1/gates lists them"))
		return
	}
	record, err := cfg.Gates.Gate(c.Request.Context(), c.Query("run"), decided)
	if err != nil {
		cfg.fail(c, err)
		return
	}
	c.Data(http.StatusOK, "application/json", record.Document)
}

func invalid(message, hint string) error {
	return &audit.Error{Code: audit.CodeInvalid, Message: message, Hint: hint}
}
