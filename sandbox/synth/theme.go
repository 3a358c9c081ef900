package synth

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"strings"
)

//go:embed prompts/theme.md
var themePrompt string

// Theme is one kind of backend that requests call for.
type Theme struct {
	Name    string `json:"name"`
	Summary string `json:"summary"`
}

// text is what two themes are compared by.
func (t Theme) text() string { return t.Name + ": " + t.Summary }

// requestBatch is how many requests are read at once: enough to see a theme
// behind them, few enough to fit any context.
const requestBatch = 20

// mine names the themes behind the requests.
func mine(ctx context.Context, a *author, requests []string) ([]Theme, error) {
	type answer struct {
		Themes []Theme `json:"themes"`
	}
	var themes []Theme
	for start := 0; start < len(requests); start += requestBatch {
		batch := requests[start:min(start+requestBatch, len(requests))]
		var user strings.Builder
		for i, request := range batch {
			fmt.Fprintf(&user, "%d. %s\n", i+1, request)
		}
		got, err := ask[answer](ctx, a, Prompt{System: themePrompt, User: user.String(), Schema: themeSchema(), Temperature: 0.7}, nil)
		if err != nil {
			return themes, fmt.Errorf("name the themes of requests %d to %d: %w", start+1, start+len(batch), err)
		}
		for _, theme := range got.Themes {
			if strings.TrimSpace(theme.Name) != "" {
				themes = append(themes, theme)
			}
		}
	}
	return themes, nil
}

func themeSchema() json.RawMessage {
	return json.RawMessage(`{"type":"object","additionalProperties":false,"required":["themes"],"properties":{"themes":{"type":"array","items":{` +
		`"type":"object","additionalProperties":false,"required":["name","summary"],"properties":{"name":{"type":"string"},"summary":{"type":"string"}}}}}}`)
}

// distinct keeps the first of each set of themes whose cosine reaches nearness.
func distinct(ctx context.Context, e Embedder, themes []Theme, nearness float64) ([]Theme, error) {
	texts := make([]string, len(themes))
	for i, t := range themes {
		texts[i] = t.text()
	}
	vectors, err := e.Embed(ctx, texts)
	if err != nil {
		return nil, fmt.Errorf("embed %d themes: %w", len(themes), err)
	}
	var kept []int
	for i := range themes {
		near := false
		for _, k := range kept {
			near = near || cosine(vectors[i], vectors[k]) >= nearness
		}
		if !near {
			kept = append(kept, i)
		}
	}
	out := make([]Theme, len(kept))
	for i, k := range kept {
		out[i] = themes[k]
	}
	return out, nil
}
