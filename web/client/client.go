// Package client asks a running Understudy for calibration rewards. It
// implements audit.Scorer, so that a Go trainer pays the same whether the hook
// runs in its own process or elsewhere:
//
//	var scorer audit.Scorer = &client.Client{URL: "http://127.0.0.1:8080"}
//	scores, err := scorer.Score(ctx, batch)
//
// Clients for trainers in Python lie beside it, in folder clients/python.
package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"

	"understudy/audit"
)

// Client asks one service. The zero value of a field means its default; it is
// safe for concurrent use.
type Client struct {
	URL     string       // such as http://127.0.0.1:8080
	Token   string       // of the auditor role; "" where the service is open to this machine
	HTTP    *http.Client // nil = http.DefaultClient
	Retries int          // after a lost connection or a busy service; 0 = 5, below 0 none
}

var _ audit.Scorer = (*Client)(nil)

const (
	defaultRetries = 5
	firstPause     = 100 * time.Millisecond
	longestPause   = 5 * time.Second
	mostDoublings  = 6 // to beyond the longest pause
)

// Score implements audit.Scorer. A request that broke off is sent again: the
// service pays once.
func (c *Client) Score(ctx context.Context, batch audit.ScoreBatch) (audit.ScoredBatch, error) {
	text, err := json.Marshal(batch)
	if err != nil {
		return audit.ScoredBatch{}, fmt.Errorf("encode the batch: %w", err)
	}
	return c.ask(ctx, http.MethodPost, "/v1/score", text)
}

// Scores implements audit.Scorer.
func (c *Client) Scores(ctx context.Context, id audit.Digest, wait time.Duration) (audit.ScoredBatch, error) {
	return c.ask(ctx, http.MethodGet, "/v1/scores/"+id.String()+"?wait_ms="+strconv.FormatInt(wait.Milliseconds(), 10), nil)
}

func (c *Client) ask(ctx context.Context, method, path string, body []byte) (audit.ScoredBatch, error) {
	retries := c.Retries
	if retries == 0 {
		retries = defaultRetries
	}
	for try := 0; ; try++ {
		scores, err := c.once(ctx, method, path, body)
		if err == nil || try >= retries || ctx.Err() != nil || !passes(err) {
			return scores, err
		}
		timer := time.NewTimer(rand.N(min(firstPause<<min(try, mostDoublings), longestPause)) + firstPause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return scores, err
		}
	}
}

// passes reports whether the same request may be answered later.
func passes(err error) bool {
	switch audit.ErrorCode(err) {
	case audit.CodeBusy, audit.CodeInfrastructure:
		return true
	case audit.CodeInvalid, audit.CodeNotFound, audit.CodeConflict, audit.CodeUnauthorized, audit.CodeForbidden,
		audit.CodeLimit, audit.CodeUnprocessable, audit.CodeInternal:
	}
	return false
}

func (c *Client) once(ctx context.Context, method, path string, body []byte) (audit.ScoredBatch, error) {
	var scores audit.ScoredBatch
	request, err := http.NewRequestWithContext(ctx, method, c.URL+path, bytes.NewReader(body))
	if err != nil {
		return scores, &audit.Error{Code: audit.CodeInvalid, Message: "the URL " + strconv.Quote(c.URL), Hint: "write http://host:port", Err: err}
	}
	request.Header.Set("Content-Type", "application/json")
	if c.Token != "" {
		request.Header.Set("Authorization", "Bearer "+c.Token)
	}
	doer := c.HTTP
	if doer == nil {
		doer = http.DefaultClient
	}
	response, err := doer.Do(request)
	if err != nil {
		return scores, unreachable(c.URL, err)
	}
	defer func() { _ = response.Body.Close() }() // it was read
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return scores, unreachable(c.URL, err)
	}
	if response.StatusCode != http.StatusOK {
		return scores, refusal(response, text)
	}
	if err := json.Unmarshal(text, &scores); err != nil {
		return scores, unreachable(c.URL, err)
	}
	return scores, nil
}

func unreachable(url string, err error) error {
	return &audit.Error{Code: audit.CodeInfrastructure, Message: url + " does not answer", Hint: "start it: understudy serve", Err: err}
}

// refusal is the service's own error, with its code and hint.
func refusal(response *http.Response, text []byte) error {
	var report audit.ErrorReport
	if json.Unmarshal(text, &report) != nil || report.Error.Code == "" {
		return &audit.Error{Code: audit.CodeInfrastructure, Message: response.Request.URL.Host, Err: errors.New(response.Status)}
	}
	return &audit.Error{Code: report.Error.Code, Message: report.Error.Message, Hint: report.Error.Hint}
}
