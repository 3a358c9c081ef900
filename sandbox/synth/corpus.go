package synth

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"understudy/audit"
)

// maxRequest bounds one request's text in a prompt: a theme shows in its beginning.
const maxRequest = 2000

// record is one line of a task file. API-Bank and instruction sets put the request
// under one of several names; ToolACE and chat logs hold turns.
type record struct {
	Task          string `json:"task"`
	Instruction   string `json:"instruction"`
	Query         string `json:"query"`
	Question      string `json:"question"`
	Input         string `json:"input"`
	Prompt        any    `json:"prompt"`
	Conversations []struct {
		From  string `json:"from"`
		Value string `json:"value"`
	} `json:"conversations"`
	Messages []struct {
		Role    string `json:"role"`
		Content any    `json:"content"`
	} `json:"messages"`
}

// ReadRequests reads what people asked for from a task file: JSON Lines or one
// JSON array of objects (API-Bank, ToolACE, chat messages) or of texts. A record
// without a request is skipped and counted; a file without any is an *audit.Error
// that names it.
func ReadRequests(name string, r io.Reader) (requests []string, skipped int, err error) {
	decoder := json.NewDecoder(bufio.NewReader(r))
	for {
		var value json.RawMessage
		err := decoder.Decode(&value)
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, 0, &audit.Error{
				Code: audit.CodeInvalid, Message: fmt.Sprintf("%s, near byte %d", name, decoder.InputOffset()), Err: err,
				Hint: "write one JSON object a line, or one JSON array",
			}
		}
		items := []json.RawMessage{value}
		if bytes.HasPrefix(value, []byte("[")) {
			items = nil
			if err := json.Unmarshal(value, &items); err != nil {
				return nil, 0, fmt.Errorf("read %s: %w", name, err)
			}
		}
		for _, item := range items {
			if text := requestOf(item); text != "" {
				requests = append(requests, text)
			} else {
				skipped++
			}
		}
	}
	if len(requests) == 0 {
		return nil, skipped, &audit.Error{
			Code: audit.CodeInvalid, Message: fmt.Sprintf("%s holds no request (%d records)", name, skipped),
			Hint: `a record has "task", "instruction", "query", "question", "input", "prompt", "conversations" or "messages", or is a text`,
		}
	}
	return requests, skipped, nil
}

// requestOf is the first thing that the user of a record asked for.
func requestOf(item json.RawMessage) string {
	var text string
	if json.Unmarshal(item, &text) == nil {
		return shorten(text, maxRequest)
	}
	var r record
	if json.Unmarshal(item, &r) != nil {
		return ""
	}
	prompt, _ := r.Prompt.(string)
	candidates := []string{r.Task, r.Instruction, r.Query, r.Question, prompt}
	for _, turn := range r.Conversations {
		if turn.From == "user" || turn.From == "human" {
			candidates = append(candidates, turn.Value)
		}
	}
	for _, m := range r.Messages {
		if content, ok := m.Content.(string); ok && m.Role == "user" {
			candidates = append(candidates, content)
		}
	}
	for _, c := range append(candidates, r.Input) {
		if c = strings.TrimSpace(c); c != "" {
			return shorten(c, maxRequest)
		}
	}
	return ""
}

// shorten cuts text to at most n bytes, at a rune, and says that it did.
func shorten(text string, n int) string {
	text = strings.TrimSpace(text)
	if len(text) <= n {
		return text
	}
	return strings.ToValidUTF8(text[:n], "") + " […]"
}
