package remote

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"understudy/audit"
	"understudy/envace"
)

// maxReply bounds what is read of one reply.
const maxReply = 32 << 20

// client speaks JSON over HTTP with bounded retries.
type client struct {
	base   string        // without user and password
	user   *url.Userinfo // of the base URL; nil = none
	config Config
	only   atomic.Pointer[string] // the one model that the server lists, once it was asked
}

// post sends body and decodes the reply. Busy and broken servers are asked again with
// full jitter. The error is the cause of ctx's end, envace.ErrPrompt for a prompt over
// the model's context, or an *audit.Error: with CodeInfrastructure where the server
// failed or wrote nonsense, with another one where asking again cannot mend it.
func (c *client) post(ctx context.Context, path string, body, reply any) error {
	encoded, err := json.Marshal(body)
	if err != nil {
		return fmt.Errorf("encode request: %w", err)
	}
	return c.ask(ctx, http.MethodPost, path, encoded, reply)
}

// get is post without a body.
func (c *client) get(ctx context.Context, path string, reply any) error {
	return c.ask(ctx, http.MethodGet, path, nil, reply)
}

func (c *client) ask(ctx context.Context, method, path string, body []byte, reply any) error {
	err := c.retry(ctx, func() (time.Duration, error) { return c.once(ctx, method, path, body, reply) })
	_, known := errors.AsType[*audit.Error](err)
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case known, errors.Is(err, envace.ErrPrompt):
		return err
	}
	return c.failed(err)
}

// failed is the error of a server that does not do its part.
func (c *client) failed(err error) error {
	return &audit.Error{
		Code: audit.CodeInfrastructure, Message: "model server " + c.base + " does not answer", Err: err,
		Hint: "start the server or correct the URL",
	}
}

// errRetry marks an answer that another attempt may better.
var errRetry = errors.New("the server is busy or broken")

func (c *client) retry(ctx context.Context, attempt func() (time.Duration, error)) error {
	for n := 0; ; n++ {
		wait, err := attempt()
		if err == nil || !errors.Is(err, errRetry) || n == c.config.Retries {
			return err
		}
		if wait == 0 {
			wait = rand.N(time.Second << min(n, 4)) //nolint:gosec // jitter, not a secret
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return context.Cause(ctx)
		case <-timer.C:
		}
	}
}

// maxRetryAfter keeps a server from parking a worker; a longer wait is an outage.
const maxRetryAfter = 10 * time.Second

func (c *client) once(ctx context.Context, method, path string, body []byte, reply any) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, c.config.Timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, bytes.NewReader(body))
	if err != nil {
		return 0, fmt.Errorf("build request: %w", err)
	}
	req.Header.Set("Content-Type", "application/json")
	if trace := audit.TraceOf(ctx); trace != "" {
		req.Header.Set(audit.TraceHeader, trace)
	}
	if password, has := c.user.Password(); has || c.user.Username() != "" {
		req.SetBasicAuth(c.user.Username(), password)
	}
	if c.config.APIKey != "" {
		req.Header.Set("Authorization", "Bearer "+c.config.APIKey)
	}
	res, err := c.config.HTTP.Do(req)
	if at, ok := errors.AsType[*url.Error](err); ok {
		err = at.Err // its text has the URL, and with it what may be secret
	}
	switch refusal, refused := errors.AsType[*audit.Error](err); {
	case refused: // we do not connect there: asking again does not help
		return 0, refusal
	case err != nil:
		return 0, fmt.Errorf("ask %s: %w: %w", c.base+path, errRetry, err)
	}
	defer func() { _ = res.Body.Close() }()
	raw, err := io.ReadAll(io.LimitReader(res.Body, maxReply+1))
	switch {
	case err != nil:
		return 0, fmt.Errorf("read reply of %s: %w: %w", c.base+path, errRetry, err)
	case len(raw) > maxReply:
		return 0, fmt.Errorf("reply of %s is over %d MiB", c.base+path, maxReply>>20)
	case res.StatusCode == http.StatusOK:
		return 0, decodeLenient(raw, reply)
	default:
		return c.refused(res, raw, path)
	}
}

func (c *client) refused(res *http.Response, raw []byte, path string) (time.Duration, error) {
	message := fmt.Sprintf("%s answered %s: %.200s", c.base+path, res.Status, c.withoutKey(bytes.TrimSpace(raw)))
	switch status := res.StatusCode; {
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		return 0, &audit.Error{Code: audit.CodeUnauthorized, Message: message, Hint: "give the server's key with --policy-key or UNDERSTUDY_POLICY_KEY"}
	case status == http.StatusNotFound:
		return 0, &audit.Error{Code: audit.CodeNotFound, Message: message, Hint: "check the base URL and the model's name; the server lists its models at /v1/models"}
	case status == http.StatusTooManyRequests || status >= 500:
		seconds, _ := strconv.Atoi(res.Header.Get("Retry-After")) // absent or a date: our own back-off
		return min(time.Duration(max(seconds, 0))*time.Second, maxRetryAfter), fmt.Errorf("%w: %s", errRetry, message)
	case status == http.StatusRequestEntityTooLarge || overContext(message):
		return 0, fmt.Errorf("%w: %s", envace.ErrPrompt, message)
	default:
		return 0, &audit.Error{Code: audit.CodeInvalid, Message: message, Hint: "the server refuses the request itself; `understudy probe` shows what it accepts"}
	}
}

// overContext recognises how servers say that a prompt is too long.
func overContext(message string) bool {
	text := strings.ToLower(message)
	return strings.Contains(text, "context_length_exceeded") || strings.Contains(text, "context length") || strings.Contains(text, "maximum context") ||
		strings.Contains(text, "context size") || strings.Contains(text, "too long")
}

// withoutKey is what a server said, without our key: some repeat it.
func (c *client) withoutKey(said []byte) []byte {
	secrets := []string{c.config.APIKey}
	if password, has := c.user.Password(); has {
		secrets = append(secrets, password)
	}
	for _, secret := range secrets {
		if secret != "" {
			said = bytes.ReplaceAll(said, []byte(secret), []byte("xxxxx"))
		}
	}
	return said
}

// decodeLenient accepts the NaN and Infinity tokens that some servers write for
// log-probabilities; they become null.
func decodeLenient(raw []byte, reply any) error {
	err := json.Unmarshal(raw, reply)
	if _, ok := errors.AsType[*json.SyntaxError](err); ok {
		err = json.Unmarshal(nullNonFinite(raw), reply)
	}
	if err != nil {
		return fmt.Errorf("decode reply: %w", err)
	}
	return nil
}

// nullNonFinite replaces NaN, Infinity and -Infinity outside strings by null.
func nullNonFinite(raw []byte) []byte {
	out := make([]byte, 0, len(raw))
	for i, quoted := 0, false; i < len(raw); i++ {
		if !quoted {
			if n := nonFinite(raw[i:]); n > 0 {
				out = append(out, "null"...)
				i += n - 1
				continue
			}
		}
		if quoted && raw[i] == '\\' && i+1 < len(raw) {
			out = append(out, raw[i], raw[i+1])
			i++
			continue
		}
		if raw[i] == '"' {
			quoted = !quoted
		}
		out = append(out, raw[i])
	}
	return out
}

func nonFinite(raw []byte) int {
	for _, token := range [...]string{"NaN", "-Infinity", "Infinity"} {
		if bytes.HasPrefix(raw, []byte(token)) {
			return len(token)
		}
	}
	return 0
}
