package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"time"

	"understudy/audit"
	"understudy/audit/gate"
	"understudy/audit/ledger"
	"understudy/web/outbound"
)

const (
	webhookTimeout = 10 * time.Second
	// regressionHistory is how far back a regression is looked for.
	regressionHistory = 50
)

// announceRegression tells the webhook when the gate policy's verdicts turned
// from PASS to FAIL and stayed there. A webhook that cannot be reached is logged:
// it must not change the decision.
func announceRegression(ctx context.Context, cfg Config, log *slog.Logger, l *ledger.Ledger, v *gate.Verdict) {
	if cfg.GateWebhook == "" {
		return
	}
	regressed, err := gateRegressed(ctx, l, v.Policy.Digest)
	if err == nil && regressed {
		err = postWebhook(ctx, cfg, v)
	}
	if err != nil {
		log.WarnContext(ctx, "gate webhook failed", slog.Any("url", cfg.GateWebhook), slog.Any("error", err))
	}
}

func gateRegressed(ctx context.Context, l *ledger.Ledger, policyDigest string) (bool, error) {
	records, _, err := l.Gates(ctx, audit.GateFilter{PolicyDigest: policyDigest}, audit.Page{Limit: regressionHistory})
	if err != nil {
		return false, err
	}
	history := make([]gate.Status, len(records))
	for i, r := range records {
		history[i] = gate.Status(r.Status)
	}
	return gate.Regressed(history), nil
}

func postWebhook(ctx context.Context, cfg Config, v *gate.Verdict) error {
	body, err := json.Marshal(map[string]any{
		"event": "gate_regressed", "run": v.Evidence.Run.ID, "policy": v.Evidence.Run.Policy,
		"checkpoint": v.Evidence.Run.Checkpoint, "status": v.Status, "verdict": v.Line, "text": v.Line,
	})
	if err != nil {
		return fmt.Errorf("encode webhook: %w", err)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), webhookTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, string(cfg.GateWebhook), bytes.NewReader(body))
	if err != nil {
		return errors.New("the webhook's URL cannot be read") // the cause has the URL in it
	}
	req.Header.Set("Content-Type", "application/json")
	client := cfg.outboundClient(nil)
	defer client.CloseIdleConnections()
	res, err := client.Do(req)
	if at, ok := errors.AsType[*url.Error](err); ok {
		err = at.Err // its text has the URL, which is a secret
	}
	if err != nil {
		return fmt.Errorf("call webhook: %w", err)
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode >= http.StatusMultipleChoices {
		return fmt.Errorf("webhook answered %s", res.Status)
	}
	return nil
}

// typedClient asks the model server whose URL the operator wrote.
func (c Config) typedClient(server string) *http.Client {
	typed, _ := url.Parse(server) // whoever uses the URL says what is wrong with it
	return c.outboundClient(typed)
}

// outboundClient makes requests that were not meant to go inside stay outside;
// typed is an address in the operator's own words, nil = none.
func (c Config) outboundClient(typed *url.URL) *http.Client {
	allowed, _ := outbound.Allow(c.OutboundAllow) // Validate has read it
	return outbound.Client(outbound.Rules{Typed: typed, Allowed: allowed})
}
