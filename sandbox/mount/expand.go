package mount

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"understudy/audit"
)

// expander replaces ${NAME} by variables, and knows what came from them.
type expander struct {
	lookup  Lookup
	values  map[string]string // value to ${NAME}
	missing []string
}

func (x *expander) text(text string) string {
	return regexp.MustCompile(`\$\{[A-Za-z_][A-Za-z0-9_]*\}`).ReplaceAllStringFunc(text, func(place string) string {
		name := place[2 : len(place)-1]
		value, ok := x.lookup(name)
		if !ok {
			x.missing = append(x.missing, name)
			return place
		}
		if x.values == nil {
			x.values = map[string]string{}
		}
		x.values[value] = place
		return value
	})
}

func (x *expander) texts(m map[string]string) map[string]string {
	out := make(map[string]string, len(m))
	for _, name := range slices.Sorted(maps.Keys(m)) {
		out[name] = x.text(m[name])
	}
	return out
}

// entry replaces the places where a secret or an address may stand.
func (x *expander) entry(e entry) entry {
	e.URL, e.Document, e.Dir = x.text(e.URL), x.text(e.Document), x.text(e.Dir)
	e.File, e.Python, e.Metadata, e.Scenario = x.text(e.File), x.text(e.Python), x.text(e.Metadata), x.text(e.Scenario)
	e.Env, e.Headers = x.texts(e.Env), x.texts(e.Headers)
	e.Command = slices.Clone(e.Command)
	for i := range e.Command {
		e.Command[i] = x.text(e.Command[i])
	}
	e.Classes = slices.Clone(e.Classes)
	for i := range e.Classes {
		e.Classes[i].File = x.text(e.Classes[i].File)
	}
	e.Path = slices.Clone(e.Path)
	for i := range e.Path {
		e.Path[i] = x.text(e.Path[i])
	}
	return e
}

func (x *expander) err() error {
	if len(x.missing) == 0 {
		return nil
	}
	return fmt.Errorf("environment variable %s is not set", strings.Join(slices.Compact(slices.Sorted(slices.Values(x.missing))), ", "))
}

// hide puts the places back where a text holds what stood for them.
func (x *expander) hide(text string) string {
	pairs := make([]string, 0, 2*len(x.values))
	for _, value := range slices.SortedFunc(maps.Keys(x.values), func(a, b string) int { return len(b) - len(a) }) {
		if value != "" {
			pairs = append(pairs, value, x.values[value])
		}
	}
	return strings.NewReplacer(pairs...).Replace(text)
}

// redact is hide for an error and its hint.
func (x *expander) redact(err error) error {
	message, hint := x.hide(err.Error()), x.hide(audit.ErrorHint(err))
	if message == err.Error() && hint == audit.ErrorHint(err) {
		return err
	}
	return &audit.Error{Code: audit.ErrorCode(err), Message: message, Hint: hint}
}
