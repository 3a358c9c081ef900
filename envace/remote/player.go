package remote

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"strings"

	"understudy/audit"
	"understudy/envace"
)

// Player is a remote policy that plays both roles: ACT with the server's own tool
// calling, REHEARSE by the prompt of envace. What it says is text by the contracts of
// envace, so that ReadAct and ReadRehearsal read it. It is safe for concurrent use.
type Player struct {
	policy *Policy
}

var _ envace.Policy = (*Player)(nil)

// NewPlayer checks the configuration; it does not talk to the server yet. MaxTokens
// bounds an output together with the request's own limit.
func NewPlayer(config Config) (*Player, error) {
	policy, err := New(config)
	if err != nil {
		return nil, err
	}
	return &Player{policy}, nil
}

// toolMessage is a chat message with what tool calling adds.
type toolMessage struct {
	Role    string     `json:"role"`
	Content string     `json:"content"`
	Calls   []chatCall `json:"tool_calls,omitempty"`
	CallID  string     `json:"tool_call_id,omitempty"`
}

type chatCall struct {
	ID       string `json:"id"`
	Type     string `json:"type"`
	Function struct {
		Name      string       `json:"name"`
		Arguments argumentText `json:"arguments"`
	} `json:"function"`
}

// argumentText is JSON in a text, as OpenAI has it; some servers write the JSON itself.
type argumentText string

// UnmarshalJSON reads either.
func (a *argumentText) UnmarshalJSON(data []byte) error {
	var text string
	if json.Unmarshal(data, &text) != nil {
		text = string(data)
	}
	*a = argumentText(text)
	return nil
}

type playedReply struct {
	Choices []struct {
		FinishReason string `json:"finish_reason"`
		Message      struct {
			Content   *string    `json:"content"`
			ToolCalls []chatCall `json:"tool_calls"`
		} `json:"message"`
		TokenIDs []int32 `json:"token_ids"`
	} `json:"choices"`
	Usage struct {
		CompletionTokens int `json:"completion_tokens"`
	} `json:"usage"`
}

// Generate implements envace.Policy. A server that does not answer is an *audit.Error
// with CodeInfrastructure; a prompt over its context is envace.ErrPrompt.
func (p *Player) Generate(ctx context.Context, r envace.Request) (envace.Output, error) {
	caps, err := p.policy.Probe(ctx)
	if err != nil {
		return envace.Output{}, err
	}
	body := map[string]any{"model": caps.Model, "temperature": p.policy.config.Temperature, "max_tokens": p.policy.config.MaxTokens}
	if r.Max > 0 {
		body["max_tokens"] = min(r.Max, p.policy.config.MaxTokens)
	}
	if r.Greedy {
		body["temperature"] = 0
	}
	if caps.Seed {
		body["seed"] = int64(r.Seed & math.MaxInt64)
	}
	if r.Role == audit.RehearseRole {
		body["messages"], err = rehearsing(r)
	} else {
		body["messages"] = acting(r.Transcript)
		if len(r.Transcript.Tools) > 0 {
			body["tools"], err = envace.Definitions(r.Transcript.Tools)
		}
	}
	if err != nil {
		return envace.Output{}, err
	}
	var reply playedReply
	if err := p.policy.client.post(ctx, "/chat/completions", body, &reply); err != nil {
		return envace.Output{}, err
	}
	if len(reply.Choices) == 0 {
		return envace.Output{}, p.policy.client.failed(errNoChoices)
	}
	if r.First != nil {
		r.First()
	}
	return reply.output(r.Role)
}

// output is the reply's text, with its calls as the contract writes them.
func (reply playedReply) output(role audit.PolicyRole) (envace.Output, error) {
	choice := reply.Choices[0]
	o := envace.Output{Role: role, Truncated: choice.FinishReason == "length", Tokens: choice.TokenIDs, Usage: reply.Usage.CompletionTokens}
	if choice.Message.Content != nil {
		o.Text = *choice.Message.Content
	}
	for _, call := range choice.Message.ToolCalls {
		arguments := cmp.Or(strings.TrimSpace(string(call.Function.Arguments)), "{}") // some servers write nothing for none
		text, err := envace.CallText(audit.Call{Tool: call.Function.Name, Arguments: json.RawMessage(arguments)})
		if err != nil {
			return o, err
		}
		o.Text = strings.TrimLeft(o.Text+"\n"+text, "\n")
	}
	return o, nil
}

func rehearsing(r envace.Request) ([]envace.Message, error) {
	return envace.RehearsePrompt(audit.RehearseRequest{Tools: r.Transcript.Tools, History: r.Transcript.History(), Call: r.Call})
}

// acting is the conversation that ACT goes on with. Calls are numbered in order, and
// each answer carries the number of its call.
func acting(t *envace.Transcript) []toolMessage {
	messages := []toolMessage{{Role: "system", Content: envace.ActInstruction(t)}, {Role: "user", Content: t.Task.Prompt}}
	made, answered := 0, 0
	for _, item := range t.Items {
		switch {
		case item.Answer != nil:
			answered++
			messages = append(messages, toolMessage{Role: "tool", CallID: fmt.Sprintf("call_%d", answered), Content: string(item.Answer.Raw)})
		case item.Act != nil:
			m := toolMessage{Role: "assistant", Content: item.Act.Said()}
			for _, call := range item.Act.Calls {
				made++
				c := chatCall{ID: fmt.Sprintf("call_%d", made), Type: "function"}
				c.Function.Name, c.Function.Arguments = call.Tool, argumentText(call.Arguments)
				m.Calls = append(m.Calls, c)
			}
			messages = append(messages, m)
		default:
			messages = append(messages, toolMessage{Role: "user", Content: item.User})
		}
	}
	return messages
}

// ReadAct reads what Generate returned for ACT.
func (*Player) ReadAct(o envace.Output) envace.Act {
	act := envace.ParseAct(o.Text)
	act.Output = o
	return act
}

// ReadRehearsal reads what Generate returned for REHEARSE.
func (*Player) ReadRehearsal(o envace.Output) envace.Rehearsed {
	r := envace.Rehearsed{Output: o}
	r.Rehearsal, r.Fault = envace.ParseRehearsal(o.Text)
	r.Truncated = o.Truncated
	return r
}
