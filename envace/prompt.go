package envace

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/json"
	"fmt"

	"understudy/audit"
)

//go:embed prompts/rehearse.md
var rehearseInstruction string

//go:embed prompts/act.md
var actInstruction string

//go:embed prompts/memory.md
var memoryInstruction string

// Message is one chat message of a prompt.
type Message struct {
	Role    string `json:"role"` // system, user or assistant
	Content string `json:"content"`
}

// RehearsePromptDigest names the version of the REHEARSE instruction: verdicts
// of two versions are not compared without saying so.
func RehearsePromptDigest() audit.Digest { return sha256.Sum256([]byte(rehearseInstruction)) }

// ActPromptDigest names the version of what ACT is told beside the environment's
// rules, the memory's introduction included.
func ActPromptDigest() audit.Digest { return sha256.Sum256([]byte(actInstruction + memoryInstruction)) }

// ActInstruction is the system text of ACT: the instruction and the environment's
// rules; the tools stand where the model's own format has them. A rehearsal memory,
// if there is one, comes last.
func ActInstruction(t *Transcript) string {
	text := actInstruction
	if t.Policy != "" {
		text += "\nThe rules of this environment:\n" + t.Policy + "\n"
	}
	if t.Memory != "" {
		text += "\n" + memoryInstruction + "\n" + t.Memory
	}
	return text
}

// RehearsePrompt is what REHEARSE is told: the instruction and every tool, then
// each earlier call with the answer that the history holds, then the call to
// answer. It holds nothing that ACT thought, and nothing is truncated: a prompt
// over the model's context is the model server's error, not a silent cut.
func RehearsePrompt(req audit.RehearseRequest) ([]Message, error) {
	tools, err := ToolList(req.Tools)
	if err != nil {
		return nil, err
	}
	messages := make([]Message, 0, 2+2*len(req.History))
	messages = append(messages, Message{Role: "system", Content: rehearseInstruction + "\nThe tools:\n" + tools})
	for _, turn := range req.History {
		call, err := CallText(turn.Call)
		if err != nil {
			return nil, err
		}
		messages = append(messages,
			Message{Role: "user", Content: call},
			Message{Role: "assistant", Content: RehearsalText(turn.Answer, nil)})
	}
	call, err := CallText(req.Call)
	if err != nil {
		return nil, err
	}
	return append(messages, Message{Role: "user", Content: call}), nil
}

// ToolList describes tools, one JSON object a line.
func ToolList(tools []audit.Tool) (string, error) {
	var out bytes.Buffer
	for _, tool := range tools {
		line, err := marshal(map[string]any{
			"name": tool.Name, "description": tool.Description, "parameters": tool.Input,
		})
		if err != nil {
			return "", fmt.Errorf("describe tool %s: %w", tool.Name, err)
		}
		out.Write(line)
	}
	return out.String(), nil
}

// Definitions are tools as OpenAI's API has them.
func Definitions(tools []audit.Tool) ([]json.RawMessage, error) {
	list := make([]json.RawMessage, len(tools))
	for i, tool := range tools {
		parameters := tool.Input
		if len(parameters) == 0 {
			parameters = json.RawMessage(`{"type":"object"}`)
		}
		function := map[string]any{"name": tool.Name, "description": tool.Description, "parameters": parameters}
		var err error
		if list[i], err = json.Marshal(map[string]any{"type": "function", "function": function}); err != nil {
			return nil, fmt.Errorf("describe tool %s: %w", tool.Name, err)
		}
	}
	return list, nil
}

// CallText shows a call as ACT wrote it; malformed arguments stay as they are,
// so that REHEARSE can refuse them.
func CallText(call audit.Call) (string, error) {
	arguments := any(call.Arguments)
	if !json.Valid(call.Arguments) {
		arguments = string(call.Arguments)
	}
	shown := map[string]any{"name": call.Tool, "arguments": arguments}
	if call.Role == "user" {
		shown["caller"] = "user"
	}
	line, err := marshal(shown)
	if err != nil {
		return "", fmt.Errorf("show call of %s: %w", call.Tool, err)
	}
	return "<tool_call>\n" + string(line) + "</tool_call>", nil
}

// marshal is JSON with its characters as they are, ended by a newline.
func marshal(value any) ([]byte, error) {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(value)
	return out.Bytes(), err
}
