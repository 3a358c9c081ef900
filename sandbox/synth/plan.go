package synth

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"understudy/audit"
)

//go:embed prompts/plan.md
var planPrompt string

// Plan is what an environment is to be, before any code.
type Plan struct {
	Name       string      `json:"name"` // of its folder
	Title      string      `json:"title"`
	Summary    string      `json:"summary"`
	State      []Category  `json:"state"`
	Rules      []string    `json:"rules"`
	Operations []Operation `json:"operations"`
}

// Category is one kind of thing that the world holds.
type Category struct {
	Name   string   `json:"name"`
	About  string   `json:"about"`
	Fields []string `json:"fields"` // "name: type, meaning"
}

// Operation is one tool.
type Operation struct {
	Name     string         `json:"name"`
	About    string         `json:"about"`
	Effect   audit.Effect   `json:"effect"`
	Errors   []audit.Family `json:"errors"`   // families that it may refuse with
	Refuses  []string       `json:"refuses"`  // when, in the order in which it looks
	Response string         `json:"response"` // what it answers
}

// plan asks for the plan of a theme.
func plan(ctx context.Context, a *author, theme Theme) (Plan, error) {
	user := "The theme: " + theme.text() + "\nThe error families: " + fmt.Sprint(audit.Families())
	p, err := ask(ctx, a, Prompt{System: planPrompt, User: user, Schema: planSchema(), Temperature: 0.7}, (*Plan).accept)
	if err != nil {
		return p, fmt.Errorf("plan %s: %w", theme.Name, err)
	}
	return p, nil
}

var (
	errNoState = errors.New("a world without state needs no sandbox: name what it holds")
	errNoWrite = errors.New("no operation writes: nothing could go wrong in this world")
)

// accept tidies a plan and refuses one that cannot become an environment.
func (p *Plan) accept() error {
	p.Name = slug(p.Name)
	if p.Name == "" {
		return errors.New("the name has no letters")
	}
	if len(p.State) == 0 {
		return errNoState
	}
	names, writes := map[string]bool{}, false
	for _, op := range p.Operations {
		switch {
		case !identifier().MatchString(op.Name):
			return fmt.Errorf("operation %q: a name has lower-case letters, digits and _ only", op.Name)
		case names[op.Name]:
			return fmt.Errorf("operation %s is named twice", op.Name)
		case op.Effect != audit.Read && op.Effect != audit.Write:
			return fmt.Errorf("operation %s: the effect is read or write, not %q", op.Name, op.Effect)
		}
		for _, family := range op.Errors {
			if !slices.Contains(audit.Families(), family) {
				return fmt.Errorf("operation %s: %q is not an error family", op.Name, family)
			}
		}
		names[op.Name] = true
		writes = writes || op.Effect == audit.Write
	}
	if !writes {
		return errNoWrite
	}
	return nil
}

func identifier() *regexp.Regexp { return regexp.MustCompile(`^[a-z][a-z0-9_]{0,62}$`) }

// slug is a folder's name: lower-case words joined by hyphens.
func slug(name string) string {
	words := strings.FieldsFunc(strings.ToLower(name), func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < '0' || r > '9')
	})
	return shorten(strings.Join(words, "-"), 60)
}

func planSchema() json.RawMessage {
	const text, texts = `{"type":"string"}`, `{"type":"array","items":{"type":"string"}}`
	object := func(required, properties string) string {
		return `{"type":"object","additionalProperties":false,"required":[` + required + `],"properties":{` + properties + `}}`
	}
	category := object(`"name","about","fields"`, `"name":`+text+`,"about":`+text+`,"fields":`+texts)
	operation := object(`"name","about","effect","errors","refuses","response"`,
		`"name":`+text+`,"about":`+text+`,"effect":{"enum":["read","write"]},"errors":`+texts+`,"refuses":`+texts+`,"response":`+text)
	return json.RawMessage(object(`"name","title","summary","state","rules","operations"`,
		`"name":`+text+`,"title":`+text+`,"summary":`+text+`,"state":{"type":"array","items":`+category+
			`},"rules":`+texts+`,"operations":{"type":"array","items":`+operation+`}`))
}
