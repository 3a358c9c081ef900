package dashboard

import (
	"net/url"
	"slices"
	"strings"

	"understudy/audit"
)

// filter is what every view can be narrowed by. It lives in the URL, so that a
// view can be sent to somebody.
type filter struct {
	Run         string
	Environment string
	Tool        string
	Version     string // of the environment
	Mode        audit.Mode
	Split       audit.Split // "" = all tasks
}

func filterOf(q url.Values) filter {
	return filter{
		Run: q.Get("run"), Environment: q.Get("environment"), Tool: q.Get("tool"), Version: q.Get("version"),
		Mode: audit.Mode(q.Get("mode")), Split: audit.Split(q.Get("split")),
	}
}

// validate refuses words that are none of ours.
func (f filter) validate() error {
	modes, splits := append(modes(), ""), append(splits(), "")
	if !slices.Contains(modes, f.Mode) {
		return &audit.Error{Code: audit.CodeInvalid, Message: "mode " + string(f.Mode) + " does not exist", Hint: "one of forced, open, probe, canary, or none for all"}
	}
	if !slices.Contains(splits, f.Split) {
		return &audit.Error{Code: audit.CodeInvalid, Message: "split " + string(f.Split) + " does not exist", Hint: "one of succeeded, failed, unknown, or none for all tasks"}
	}
	return nil
}

func modes() []audit.Mode { return []audit.Mode{audit.Forced, audit.Open, audit.Probe, audit.Canary} }

func splits() []audit.Split {
	return []audit.Split{audit.AllTasks, audit.Succeeded, audit.NotReached, audit.NoSuccessOf}
}

// slice is what figures are asked for by.
func (f filter) slice() audit.Slice {
	s := audit.Slice{Version: f.Version, Mode: f.Mode, Split: f.Split}
	if s.Split == "" {
		s.Split = audit.AllTasks
	}
	return s
}

// With is the same filter with one word changed; "" takes it out.
func (f filter) With(key, value string) filter {
	switch key {
	case "run":
		f.Run = value
	case "environment":
		f.Environment = value
	case "tool":
		f.Tool = value
	case "version":
		f.Version = value
	case "mode":
		f.Mode = audit.Mode(value)
	case "split":
		f.Split = audit.Split(value)
	}
	return f
}

// URL is a page's address under this filter; more are pairs of further
// parameters, of which empty ones are left out.
func (f filter) URL(path string, more ...string) string {
	q := url.Values{}
	words := []string{
		"run", f.Run, "environment", f.Environment, "tool", f.Tool, "version", f.Version, "mode", string(f.Mode), "split", string(f.Split),
	}
	words = append(words, more...)
	for i := 0; i+1 < len(words); i += 2 {
		if words[i+1] != "" {
			q.Set(words[i], words[i+1])
		}
	}
	if len(q) == 0 {
		return path
	}
	return path + "?" + strings.ReplaceAll(q.Encode(), "%2F", "/")
}

// choice is one option of the bar.
type choice struct {
	Name, Value string
	Chosen      bool
}

// maxChoices bounds the names that a page offers; the others are a click away in
// the lists.
const maxChoices = 50

// choices are the options of one filter that a page understands.
func (f filter) choices(key string, s *audit.Summary) []choice {
	switch key {
	case "mode":
		all := []choice{{"all modes", "", f.Mode == ""}}
		for _, m := range s.Modes {
			all = append(all, choice{string(m), string(m), f.Mode == m})
		}
		return all
	case "tool":
		all := []choice{{"all tools", "", f.Tool == ""}}
		for i := range s.Tools {
			name := s.Tools[i].Tool
			if all[len(all)-1].Value != name && (len(all) <= maxChoices || f.Tool == name) {
				all = append(all, choice{name, name, f.Tool == name})
			}
		}
		return all
	case "version":
		all := []choice{{"all versions", "", f.Version == ""}}
		for _, v := range s.Versions {
			all = append(all, choice{"version " + v, v, f.Version == v})
		}
		return all
	case "split":
		return []choice{
			{"all tasks", "", f.Split == "" || f.Split == audit.AllTasks},
			{"tasks that succeeded", string(audit.Succeeded), f.Split == audit.Succeeded},
			{"tasks that failed", string(audit.NotReached), f.Split == audit.NotReached},
			{"success unknown", string(audit.NoSuccessOf), f.Split == audit.NoSuccessOf},
		}
	}
	return nil
}

// Pairs are the filter's words for the hidden fields of a form.
func (f filter) Pairs() []keep {
	var pairs []keep
	for _, k := range []keep{
		{"run", f.Run}, {"environment", f.Environment}, {"tool", f.Tool}, {"version", f.Version}, {"mode", string(f.Mode)}, {"split", string(f.Split)},
	} {
		if k.Value != "" {
			pairs = append(pairs, k)
		}
	}
	return pairs
}
