package web

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/gin-gonic/gin"

	"understudy/audit"
)

// Alarms lists what is wrong with training runs.
type Alarms interface {
	// Alarms lists alarms, newest first; an empty run means every run.
	Alarms(ctx context.Context, run string, page audit.Page) ([]audit.Alarm, string, error)
}

// maxPull is how long a pull may wait for pending scores: shorter than the
// timeouts of usual proxies.
const maxPull = 50 * time.Second

// mountScores adds the calibration hook to the API.
func (cfg Config) mountScores(read, write *gin.RouterGroup) {
	read.GET("/openapi.json", func(c *gin.Context) { c.Data(http.StatusOK, "application/json", openAPI()) })
	if cfg.Alarms != nil {
		read.GET("/alarms", cfg.getAlarms)
	}
	if cfg.Scorer == nil {
		return
	}
	write.POST("/score", cfg.postScore)
	write.GET("/scores/:id", cfg.getScores)
	write.POST("/episodes", cfg.postEpisodes)
	write.POST("/score/openrlhf", cfg.postOpenRLHF)
	write.POST("/score/slime", cfg.postSlime)
}

// postScore scores a batch: 200 with a score for each output, in order, of which
// some may be pending.
func (cfg Config) postScore(c *gin.Context) {
	text, err := readBody(c, audit.MaxScoreBytes)
	if err != nil {
		cfg.fail(c, err)
		return
	}
	batch, err := audit.DecodeScoreBatch(text)
	if err != nil {
		cfg.fail(c, err)
		return
	}
	scores, err := cfg.Scorer.Score(c.Request.Context(), batch)
	if err != nil {
		cfg.fail(c, err)
		return
	}
	c.JSON(http.StatusOK, scores)
}

// getScores pulls a batch that had pending scores: ?wait_ms=.
func (cfg Config) getScores(c *gin.Context) {
	var id audit.Digest
	if err := id.UnmarshalText([]byte(c.Param("id"))); err != nil || id.IsZero() {
		cfg.fail(c, invalid("batch id "+strconv.Quote(c.Param("id")), "give the id that POST /v1/score answered with"))
		return
	}
	wait := int64(0)
	if text := c.Query("wait_ms"); text != "" {
		var err error
		if wait, err = strconv.ParseInt(text, 10, 64); err != nil || wait < 0 {
			cfg.fail(c, invalid("wait_ms "+strconv.Quote(text), "give milliseconds, or leave it out"))
			return
		}
	}
	scores, err := cfg.Scorer.Scores(c.Request.Context(), id, min(time.Duration(wait)*time.Millisecond, maxPull))
	if err != nil {
		cfg.fail(c, err)
		return
	}
	c.JSON(http.StatusOK, scores)
}

// getAlarms lists alarms: ?run=, ?after=, ?limit=.
func (cfg Config) getAlarms(c *gin.Context) {
	page := audit.Page{After: c.Query("after")}
	if text := c.Query("limit"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			cfg.fail(c, invalid("limit "+strconv.Quote(text), "give a positive number, or none"))
			return
		}
		page.Limit = n
	}
	alarms, next, err := cfg.Alarms.Alarms(c.Request.Context(), c.Query("run"), page)
	if err != nil {
		cfg.fail(c, err)
		return
	}
	if alarms == nil {
		alarms = []audit.Alarm{}
	}
	c.JSON(http.StatusOK, gin.H{"alarms": alarms, "next": next})
}

// readBody reads a request of at most limit bytes.
func readBody(c *gin.Context, limit int64) ([]byte, error) {
	text, err := io.ReadAll(http.MaxBytesReader(c.Writer, c.Request.Body, limit))
	if _, tooLarge := errors.AsType[*http.MaxBytesError](err); tooLarge {
		return nil, &audit.Error{Code: audit.CodeLimit, Message: "the request is over " + strconv.FormatInt(limit>>20, 10) + " MiB", Hint: "send less at once", Err: err}
	}
	if err != nil {
		return nil, &audit.Error{Code: audit.CodeInvalid, Message: "the request ended early", Hint: "send it again: it is paid once", Err: err}
	}
	return text, nil
}
