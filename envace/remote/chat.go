package remote

import (
	"math"

	"understudy/audit"
	"understudy/envace"
)

// chatReply is a chat completion, with the fields where servers differ.
type chatReply struct {
	Choices []choice `json:"choices"`
	Usage   struct {
		CompletionTokens int `json:"completion_tokens"`
	} `json:"usage"`
}

type choice struct {
	FinishReason string `json:"finish_reason"`
	Message      struct {
		Content   *string `json:"content"` // missing, null and "" all occur
		ToolCalls []any   `json:"tool_calls"`
	} `json:"message"`
	LogProbs *struct {
		Content []tokenLogProb `json:"content"`
	} `json:"logprobs"`
	TokenIDs []int32 `json:"token_ids"` // vLLM, SGLang
}

type tokenLogProb struct {
	LogProb *float64 `json:"logprob"` // null where it was not finite
}

// rehearsal reads a choice. Token ids and log-probabilities are kept only when
// they line up and every one is finite: half a record would train on a lie.
func (c choice) rehearsal() audit.Rehearsal {
	text := ""
	if c.Message.Content != nil {
		text = *c.Message.Content
	}
	r, fault := envace.ParseRehearsal(text)
	r.Truncated = c.FinishReason == "length" || fault == envace.FaultUnclosed
	logProbs, finite := c.logProbs()
	if finite {
		r.LogProbs = logProbs
		if len(c.TokenIDs) == len(logProbs) {
			r.Tokens = c.TokenIDs
		}
		if r.Confidence == nil && len(logProbs) > 0 {
			r.Confidence = new(envace.MeanProbability(logProbs))
		}
	} else if c.LogProbs == nil {
		r.Tokens = c.TokenIDs
	}
	return r
}

// absentLogProb is what vLLM writes for a log-probability that it does not have.
const absentLogProb = -9999

func (c choice) logProbs() ([]float32, bool) {
	if c.LogProbs == nil || len(c.LogProbs.Content) == 0 {
		return nil, false
	}
	out := make([]float32, len(c.LogProbs.Content))
	for i, token := range c.LogProbs.Content {
		if token.LogProb == nil || *token.LogProb <= absentLogProb || math.IsNaN(*token.LogProb) || *token.LogProb > 0 {
			return nil, false
		}
		out[i] = float32(*token.LogProb)
	}
	return out, true
}
