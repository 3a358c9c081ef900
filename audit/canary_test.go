package audit_test

import (
	"context"
	"encoding/json"
	"io/fs"
	"slices"
	"testing"

	"understudy/audit"
	"understudy/sandbox"
	"understudy/sandbox/domains"
)

func canaries(t *testing.T, env audit.Environment, seed uint64, n int) []audit.Episode {
	t.Helper()
	battery, err := audit.Canaries(t.Context(), env, seed, n)
	if err != nil {
		t.Fatalf("make canaries of %s: %v", env.Info().Name, err)
	}
	return battery
}

// registry has the built-in domains: each loads, and generates its world, once.
var registry = sandbox.New(domains.FS())

// domainNames are the built-in domains, without those of compat mode only.
func domainNames(t *testing.T) []string {
	t.Helper()
	names, err := registry.Names()
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(names, func(name string) bool {
		_, err := fs.Stat(domains.FS(), name+"/domain.star")
		return err != nil
	})
}

// Every built-in domain gives a battery, and the sandbox refuses all of it again.
func TestEveryCanaryIsRefused(t *testing.T) {
	t.Parallel()
	for _, name := range domainNames(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			env, err := registry.Environment(t.Context(), name)
			if err != nil {
				t.Fatal(err)
			}
			const n = 40
			battery := canaries(t, env, 11, n)
			if len(battery) != n {
				t.Errorf("%d canaries, want %d", len(battery), n)
			}
			a := newAuditor(t, audit.Config{Opener: registry})
			levels, mutations := map[audit.CanaryLevel]int{}, map[string]int{}
			ids := map[string]bool{}
			for i := range battery {
				ep := &battery[i]
				ep.Environment = name
				last := &ep.Actions[len(ep.Actions)-1]
				last.Rehearsal = answer(`{"success":true}`)
				pairs := episode(t, a, ep)
				v := pairs[len(pairs)-1].Verdict
				if !v.FalseSuccess || v.Severity != audit.S5 || v.Real.Family != last.Canary.Family {
					t.Errorf("%s %s: %s %s %v, want the sandbox to refuse it as %s again",
						last.Call.Tool, last.Call.Arguments, v.Masked, v.MaskDetail, v.Real, last.Canary.Family)
				}
				if len(pairs) != 1 {
					t.Errorf("%d pairs of one canary: what leads to it is not audited", len(pairs))
				}
				levels[last.Canary.Level]++
				mutations[last.Canary.Mutation]++
				ids[ep.ID] = true
			}
			if levels[audit.SchemaLevel] == 0 || levels[audit.DomainLevel] < n/4 || len(mutations) < 5 {
				t.Errorf("levels %v, mutations %v: want both levels and several mutations", levels, mutations)
			}
			if len(ids) != len(battery) {
				t.Errorf("%d ids for %d canaries", len(ids), len(battery))
			}
			t.Logf("%s: levels %v, mutations %v", name, levels, mutations)
		})
	}
}

func TestTheSeedDecidesTheCanaries(t *testing.T) {
	t.Parallel()
	env := shop(t, 1)
	text := func(seed uint64) string {
		b, err := json.Marshal(canaries(t, env, seed, 30))
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	first := text(1)
	if again := text(1); again != first {
		t.Error("one seed gives two batteries")
	}
	if text(2) == first {
		t.Error("two seeds give one battery")
	}
}

func TestFalseSuccessIsCountedByCanaryLevel(t *testing.T) {
	t.Parallel()
	env := shop(t, 1)
	a := newAuditor(t, audit.Config{Opener: opener{"shop": env}})
	tally := audit.NewTally()
	for _, ep := range canaries(t, env, 3, 60) {
		ep.Environment = "shop"
		last := &ep.Actions[len(ep.Actions)-1]
		last.Rehearsal = answer(`{"error":{"code":"` + string(last.Canary.Family) + `"}}`)
		if last.Canary.Level == audit.DomainLevel {
			last.Rehearsal = answer(`{"done":true}`)
		}
		tally.Add(episode(t, a, &ep))
	}
	for _, f := range tally.Figures(1) {
		if f.Split != audit.AllTasks {
			continue
		}
		if e := f.Value(string(audit.CanaryCounter(audit.SchemaLevel))); e.Defined() && e.Value != 0 {
			t.Errorf("%s: schema-level FSR %v, want 0", f.Tool, e.Value)
		}
		if e := f.Value(string(audit.CanaryCounter(audit.DomainLevel))); e.Defined() && e.Value != 1 {
			t.Errorf("%s: domain-level FSR %v, want 1", f.Tool, e.Value)
		}
	}
}

func TestCanariesNeedTasksOrValidEpisodes(t *testing.T) {
	t.Parallel()
	env := faulty{Environment: shop(t, 1)}
	if _, err := audit.Canaries(t.Context(), env, 1, 5); audit.ErrorCode(err) != audit.CodeInvalid || audit.ErrorHint(err) == "" {
		t.Errorf("%v: want an error with a remedy", err)
	}
	valid := mix()
	battery, err := audit.CanariesFrom(context.Background(), env, []audit.Episode{*valid}, 1, 5)
	if err != nil || len(battery) != 5 {
		t.Errorf("%d canaries, %v: want 5 from one valid episode", len(battery), err)
	}
}
