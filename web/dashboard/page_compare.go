package dashboard

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"understudy/audit"
)

// compareView is two runs, call by call. The bar's run is the candidate.
type compareView struct {
	Summary audit.Summary // of the candidate
	Base    string        // the baseline; "" = there is no other run
	Bases   []choice
	C       *audit.RunComparison
	Tools   []audit.ToolDelta
	Total   audit.ToolDelta // of the tool that is looked at, or of all
	Tabs    []tab
	Tab     string
	Calls   []compareCall
	Others  []audit.UnmatchedCall
	First   string // of the list; "" = this is it
	Next    string
}

func (v *compareView) summary() *audit.Summary { return &v.Summary }

// tab is one part of a list.
type tab struct {
	Name, Href string
	N          int
	Chosen     bool
}

// compareCall is one call that both runs audited.
type compareCall struct {
	audit.MatchedCall
	Href string
}

// comparePage is how many calls a page shows.
const comparePage = 50

// tabUnmatched is the tab beside those of audit.Changes.
const tabUnmatched = "unmatched"

func (s *site) comparePage() page {
	return page{
		path: "/compare", name: "compare", title: "Compare", nav: true, filters: []string{"tool", "mode", "version", "split"}, keeps: []string{"base"}, view: s.compare,
	}
}

func (s *site) compare(ctx context.Context, r *request) (any, error) {
	v := &compareView{Base: r.Query("base")}
	if r.Head == nil {
		return v, nil
	}
	var err error
	if v.Summary, err = s.Store.Summary(ctx, r.Run, audit.Slice{Split: audit.AllTasks}); err != nil {
		return nil, err
	}
	if v.Base == "" {
		v.Base = baseOf(r)
	}
	for i := range r.Runs {
		if name := r.Runs[i].Name; name != r.Run {
			v.Bases = append(v.Bases, choice{runTitle(&r.Runs[i]), name, name == v.Base})
		}
	}
	if v.Base == "" {
		return v, nil
	}
	baseline, err := s.Store.SampleCalls(ctx, v.Base)
	if err != nil {
		return nil, err
	}
	candidate, err := s.Store.SampleCalls(ctx, r.Run)
	if err != nil {
		return nil, err
	}
	narrow(baseline, r)
	narrow(candidate, r)
	v.C = audit.CompareRuns(baseline, candidate)
	v.Tools, v.Total = v.C.Tools[:min(len(v.C.Tools), toolsShown)], v.C.Total
	return v, v.list(r)
}

// baseOf is the run that people compare with when they name none: the newest
// earlier one of the same policy, or the newest earlier one.
func baseOf(r *request) string {
	other := ""
	for i := range r.Runs {
		run := &r.Runs[i]
		if run.Number >= r.Head.Number || run.Pairs == 0 {
			continue
		}
		if run.Policy == r.Head.Policy {
			return run.Name
		}
		if other == "" {
			other = run.Name
		}
	}
	return other
}

func runTitle(run *audit.RunHead) string {
	title := brief(60, run.Name)
	if run.Checkpoint != 0 {
		title += " · step " + strconv.FormatInt(run.Checkpoint, 10)
	}
	return title
}

// narrow keeps the calls that the filter of the page means: with a task outcome,
// those of rollouts that ended so in both runs.
func narrow(sample *audit.GroupSample, r *request) {
	kept, split := sample.Calls[:0], r.slice().Split
	for _, c := range sample.Calls {
		if (r.Tool == "" || c.Tool == r.Tool) && (r.Mode == "" || c.Mode == r.Mode) && (r.Version == "" || c.Version == r.Version) &&
			(split == audit.AllTasks || c.Split == split) {
			kept = append(kept, c)
		}
	}
	sample.Calls = kept
}

// list chooses the tab and its page.
func (v *compareView) list(r *request) error {
	v.Tab = r.Query("tab")
	url := func(name string, from int) string {
		after := ""
		if from > 0 {
			after = strconv.Itoa(from)
		}
		return r.URL("/compare", "base", v.Base, "tab", name, "after", after)
	}
	if v.Tab == "" {
		v.Tab = v.fullest()
	}
	for _, change := range audit.Changes() {
		v.Tabs = append(v.Tabs, tab{words(change), url(string(change), 0), v.Total.Counts[change], v.Tab == string(change)})
	}
	v.Tabs = append(v.Tabs, tab{"no counterpart", url(tabUnmatched, 0), len(v.C.Unmatched), v.Tab == tabUnmatched})
	from, err := position(r.Query("after"))
	if err != nil {
		return err
	}
	var n int
	if v.Tab == tabUnmatched {
		n = len(v.C.Unmatched)
		v.Others = v.C.Unmatched[min(from, n):min(from+comparePage, n)]
	} else {
		var calls []audit.MatchedCall
		for i := range v.C.Matched {
			if string(v.C.Matched[i].Change) == v.Tab {
				calls = append(calls, v.C.Matched[i])
			}
		}
		n = len(calls)
		for _, m := range calls[min(from, n):min(from+comparePage, n)] {
			href := r.URL("/compare/call", "base", v.Base, "a", m.A.Key.String(), "b", m.B.Key.String())
			v.Calls = append(v.Calls, compareCall{m, href})
		}
	}
	if from > 0 {
		v.First = url(v.Tab, 0)
	}
	if from+comparePage < n {
		v.Next = url(v.Tab, from+comparePage)
	}
	return nil
}

// fullest is the tab to open first: the gravest that holds anything.
func (v *compareView) fullest() string {
	for _, change := range audit.Changes() {
		if v.Total.Counts[change] > 0 {
			return string(change)
		}
	}
	return tabUnmatched
}

// position reads the place of a page in a list that is made anew for each.
func position(after string) (int, error) {
	if after == "" {
		return 0, nil
	}
	n, err := strconv.Atoi(after)
	if err != nil || n < 0 || n > math.MaxInt32 {
		return 0, &audit.Error{Code: audit.CodeInvalid, Message: "after=" + brief(40, after) + " is no place in the list", Hint: "follow the links of the list"}
	}
	return n, nil
}

// Sentence says in one line what the comparison comes to.
func (v *compareView) Sentence() string {
	d := v.Total.Delta
	switch {
	case v.Total.N() == 0:
		return "The two runs have no call in common"
	case !d.Defined() || math.IsInf(d.Lo, 0):
		return "Too few prompts to tell the two runs apart"
	case d.Lo > 0:
		return fmt.Sprintf("Worse: %s more points of calls are materially wrong", signed(d.Value))
	case d.Hi < 0:
		return fmt.Sprintf("Better: %s fewer points of calls are materially wrong", signed(-d.Value))
	}
	return "No difference that chance could not explain"
}

// Tone is the sentence's colour.
func (v *compareView) Tone() string {
	d := v.Total.Delta
	switch {
	case v.Total.N() == 0 || !d.Defined() || math.IsInf(d.Lo, 0):
		return "none"
	case d.Lo > 0:
		return "poor"
	case d.Hi < 0:
		return "good"
	}
	return "fair"
}

// Count is how many of a tool's calls changed so.
func (v *compareView) Count(d audit.ToolDelta, change audit.Change) int { return d.Counts[change] }

// Why counts the reasons of calls without a counterpart, the commonest first.
func (v *compareView) Why() []tab {
	counts := map[string]int{}
	for _, u := range v.C.Unmatched {
		u.Masked = ""
		counts[v.Reason(u)]++
	}
	var why []tab
	for reason, n := range counts {
		why = append(why, tab{Name: strings.TrimSuffix(reason, ": "), N: n})
	}
	slices.SortFunc(why, func(a, b tab) int { return cmp.Or(b.N-a.N, strings.Compare(a.Name, b.Name)) })
	return why
}

// Reason says why a call has no counterpart.
func (v *compareView) Reason(u audit.UnmatchedCall) string {
	switch u.Reason {
	case audit.NoSuchGroup:
		return "the other run never saw this prompt"
	case audit.OtherWorld:
		return "the other run made this call on another version of the environment"
	case audit.OtherArguments:
		return "the other run called the tool with other arguments"
	case audit.OtherState:
		return "the other run made this call from another state"
	case audit.NotCalled:
		return "the other run did not make this call here, or not as often"
	case audit.MaskedCall:
		return "one side has no verdict: " + words(u.Masked)
	case audit.CascadedCall:
		return "one side's world had forked before"
	}
	return words(u.Reason)
}

// comparedCall is one call as two runs answered it.
type comparedCall struct {
	Base     string
	A, B     audit.Pair
	HrefA    string
	HrefB    string
	Back     string
	Previews [3]string // rehearsed by A, executed, rehearsed by B
	Cut      bool
}

// comparedBytes is as much of a body as a page shows.
const comparedBytes = 16 << 10

func (s *site) compareCallPage() page {
	return page{
		path: "/compare/call", name: "compare_call", title: "One call in two runs", under: "/compare",
		view: func(ctx context.Context, r *request) (any, error) {
			v := &comparedCall{Base: r.Query("base"), Back: r.URL("/compare", "base", r.Query("base"))}
			var err error
			if v.A, v.HrefA, err = s.comparedPair(ctx, r, v.Base, r.Query("a")); err != nil {
				return nil, err
			}
			if v.B, v.HrefB, err = s.comparedPair(ctx, r, r.Run, r.Query("b")); err != nil {
				return nil, err
			}
			bodies := [3][]byte{nil, nil, nil}
			if v.A.Action.Rehearsal != nil {
				bodies[0] = v.A.Action.Rehearsal.Raw
			}
			if v.B.Observation != nil {
				bodies[1] = v.B.Observation.Raw
			}
			if v.B.Action.Rehearsal != nil {
				bodies[2] = v.B.Action.Rehearsal.Raw
			}
			for i, body := range bodies {
				v.Previews[i] = preview(body)
				v.Cut = v.Cut || len(body) > comparedBytes
			}
			return v, nil
		},
	}
}

func (s *site) comparedPair(ctx context.Context, r *request, run, text string) (audit.Pair, string, error) {
	var key audit.Digest
	if err := key.UnmarshalText([]byte(text)); err != nil {
		return audit.Pair{}, "", &audit.Error{Code: audit.CodeInvalid, Message: brief(80, text) + " is no call's key", Hint: "follow a row of the comparison"}
	}
	p, err := s.Store.Pair(ctx, run, key)
	return p, r.CallURL(run, key), err
}

// CallURL is the page of one call of a run.
func (f filter) CallURL(run string, key audit.Digest) string {
	return f.With("run", run).URL("/call", "key", key.String())
}

// preview is the beginning of a body, fit to read.
func preview(body []byte) string {
	return audit.Plain(brief(comparedBytes, string(body[:min(len(body), comparedBytes+utf8Max)])))
}

// utf8Max is the longest character, so that a cut can be moved to its start.
const utf8Max = 4
