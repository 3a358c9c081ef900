package judge

import (
	"context"
	"encoding/json"
	"errors"

	"understudy/audit"
	"understudy/envace"
	"understudy/envace/remote"
)

// MaxTokens is what a judge may write of one verdict, thinking included.
const MaxTokens = 6000

// Asking asks the model of an OpenAI-compatible server.
func Asking(c *remote.Completer) AskFunc {
	return func(ctx context.Context, messages []envace.Message, schema json.RawMessage, temperature float64) (string, error) {
		text, _, err := c.Complete(ctx, messages, schema, temperature)
		if e, ok := errors.AsType[*audit.Error](err); ok && e.Code == audit.CodeUnauthorized {
			return "", &audit.Error{Code: e.Code, Message: "the judge's server: " + e.Message, Hint: "give its key with --judge-key or UNDERSTUDY_JUDGE_KEY", Err: e.Err}
		}
		return text, err
	}
}
