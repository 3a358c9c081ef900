package eval

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"strings"

	"understudy/audit"
	"understudy/envace"
)

//go:embed prompts/user.md
var userInstruction string

//go:embed prompts/assert.md
var assertInstruction string

// AskFunc asks a model; schema is of the answer, or nil for plain text.
type AskFunc func(ctx context.Context, messages []envace.Message, schema json.RawMessage, temperature float64) (string, error)

// Talker is a model that plays the user by a scenario.
type Talker struct {
	Ask         AskFunc
	Temperature float64
}

// stopWord ends a conversation (tau2-bench's).
const stopWord = "###STOP###"

// join has the user of a sample played by a scenario.
func (k *Talker) join(s Sample, scenario string) Sample {
	user := talking{k, scenario}
	s.User, s.Private = user, user
	s.Opening = func(ctx context.Context) (string, error) { return user.say(ctx, []envace.Message{prelude()}) }
	return s
}

// Join has the user of a task played by a scenario.
func (k *Talker) Join(t Task, scenario string) Task {
	begin := t.Begin
	t.Begin = func() Sample { return k.join(begin(), scenario) }
	return t
}

// prelude is what the user's model reads before it says anything.
func prelude() envace.Message {
	return envace.Message{Role: "user", Content: "(The agent waits for your first message.)"}
}

type talking struct {
	*Talker
	scenario string
}

var _ envace.User = talking{}

// Next implements envace.User. What the model reads is the conversation the other way
// round: the agent's words are its user's, its own are the assistant's.
func (u talking) Next(ctx context.Context, t *envace.Transcript, _ uint64) (string, error) {
	messages := []envace.Message{prelude(), {Role: "assistant", Content: t.Task.Prompt}}
	for _, item := range t.Items {
		switch {
		case item.User != "":
			messages = append(messages, envace.Message{Role: "assistant", Content: item.User})
		case item.Act != nil && item.Act.Reply != "" && len(item.Act.Calls) == 0:
			messages = append(messages, envace.Message{Role: "user", Content: item.Act.Reply})
		}
	}
	return u.say(ctx, messages)
}

func (u talking) say(ctx context.Context, messages []envace.Message) (string, error) {
	all := append([]envace.Message{{Role: "system", Content: userInstruction + "\n" + u.scenario}}, messages...)
	text, err := u.Ask(ctx, all, nil, u.Temperature)
	if err != nil {
		return "", fmt.Errorf("ask the user's model: %w", err)
	}
	text = strings.TrimSpace(envace.AfterThinking(text))
	if strings.Contains(text, stopWord) {
		return "", nil
	}
	return text, nil
}

const assertSchema = `{"type":"object","additionalProperties":false,"required":["holds"],"properties":{"holds":{"type":"boolean"}}}`

// AssertBy asks a model about assertions, twice where the first answer cannot be read.
func AssertBy(ask AskFunc) AssertFunc {
	return func(ctx context.Context, t *envace.Trajectory, assertion string) (bool, error) {
		told, err := envace.Narrate(append([]envace.Item{{User: t.Task.Prompt}}, t.Items...), false)
		if err != nil {
			return false, err
		}
		messages := []envace.Message{
			{Role: "system", Content: assertInstruction},
			{Role: "user", Content: told + "\nThe assertion: " + assertion},
		}
		for range 2 {
			text, err := ask(ctx, messages, json.RawMessage(assertSchema), 0)
			if err != nil {
				return false, fmt.Errorf("ask the judge: %w", err)
			}
			var answer struct {
				Holds *bool `json:"holds"`
			}
			if json.Unmarshal([]byte(envace.AfterThinking(text)), &answer) == nil && answer.Holds != nil {
				return *answer.Holds, nil
			}
		}
		return false, &audit.Error{Code: audit.CodeInfrastructure, Message: "the judge's answer cannot be read", Hint: "name a judge that writes JSON by a schema"}
	}
}
