package audit

import (
	"context"
	"fmt"
	"slices"

	"understudy/audit/stat"
)

// VersionFigures say how one policy fares on one version of an environment,
// beside the version that it knows (design.md 10).
type VersionFigures struct {
	Environment string `json:"environment"` // reference that was audited
	Version     string `json:"version"`
	Digest      Digest `json:"digest"`
	Scored      int    `json:"scored"`
	// Missing counts episodes that cannot start under this version, because their
	// task is none of its tasks.
	Missing int `json:"missing,omitempty"`
	// Changed counts calls whose real answer is materially another than under
	// the base version: the calls on which the change could be noticed.
	Changed int `json:"changed"`
	// Stale is the share of these on which the rehearsal gives the base version's
	// answer: the world that the policy has learned, not the one it is in.
	Stale stat.Estimate `json:"stale"`
	// Detection is the survival of staleness: after how many changed calls of one
	// episode the rehearsal first follows the new version.
	Detection []stat.SurvivalPoint `json:"detection,omitempty"`
	// Calls is the mean number of changed calls until then, up to ten.
	Calls stat.Estimate `json:"calls_until_detection"`
}

// detectionHorizon bounds the mean number of calls until detection.
const detectionHorizon = 10

// AcrossVersions audits the same episodes on the base version of an environment
// and on others, and hands the pairs of each to commit (which may be nil). With
// a rehearser every version is rehearsed anew; rehearsals that the episodes bring
// along are judged against each version.
func (a *Auditor) AcrossVersions(ctx context.Context, base string, others []string, episodes []Episode, commit func(ref string, pairs []Pair) error) ([]VersionFigures, error) {
	episodes, err := a.inDefaultWorld(ctx, base, episodes)
	if err != nil {
		return nil, err
	}
	for _, ref := range others {
		if _, err := a.config.Opener.Environment(ctx, ref); err != nil {
			return nil, fmt.Errorf("open %s: %w", ref, err)
		}
	}
	known := make([][]Pair, len(episodes))
	run := func(ref string, i int) ([]Pair, error) {
		ep := episodes[i]
		ep.Environment = ref
		pairs, err := a.Episode(ctx, &ep)
		if err != nil {
			return nil, fmt.Errorf("audit episode %s on %s: %w", ep.ID, ref, err)
		}
		return pairs, nil
	}
	keep := func(ref string, pairs []Pair) error {
		if commit == nil {
			return nil
		}
		return commit(ref, pairs)
	}
	for i := range episodes {
		if known[i], err = run(base, i); err != nil {
			return nil, err
		}
		if err := keep(base, known[i]); err != nil {
			return nil, err
		}
	}
	all := make([]VersionFigures, 0, len(others))
	for _, ref := range others {
		s := staleness{rules: a.rulesOf, figures: VersionFigures{Environment: ref}, groups: make(map[string]Counters)}
		for i := range episodes {
			pairs, err := run(ref, i)
			switch {
			case ErrorCode(err) == CodeNotFound && episodes[i].Start.Task != "":
				s.figures.Missing++
				continue
			case err != nil:
				return nil, err
			}
			if err := keep(ref, pairs); err != nil {
				return nil, err
			}
			s.episode(known[i], pairs)
		}
		all = append(all, s.finish())
	}
	return all, nil
}

// inDefaultWorld drops the task of each episode whose task starts in the
// environment's default world: versions list other tasks, but share that world.
func (a *Auditor) inDefaultWorld(ctx context.Context, ref string, episodes []Episode) ([]Episode, error) {
	env, err := a.config.Opener.Environment(ctx, ref)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", ref, err)
	}
	free := slices.Clone(episodes)
	for i := range free {
		start := free[i].Start
		if start.Task == "" {
			continue
		}
		own, err := worldAt(ctx, env, start)
		if err != nil {
			return nil, err
		}
		start.Task = ""
		if shared, err := worldAt(ctx, env, start); err == nil && own == shared && !own.IsZero() {
			free[i].Start = start
		}
	}
	return free, nil
}

// worldAt is the state that a start leads to; zero when it cannot be seen.
func worldAt(ctx context.Context, env Environment, start Start) (Digest, error) {
	session, err := env.Open(ctx, start)
	if err != nil {
		return Digest{}, fmt.Errorf("open %s: %w", env.Info().Name, err)
	}
	defer session.Close()
	stater, ok := session.(Stater)
	if !ok {
		return Digest{}, nil
	}
	return stater.StateDigest(ctx)
}

// staleness adds up one version's episodes.
type staleness struct {
	rules     func(environment string) *Rules
	figures   VersionFigures
	groups    map[string]Counters
	lifetimes []stat.Lifetime
}

const countStale Counter = "stale"

// episode compares what a policy answered under a version with what is true
// under it and under the base. The pairs are of the same actions in one order.
func (s *staleness) episode(base, now []Pair) {
	changed, detected := 0, false
	for i := range min(len(base), len(now)) {
		b, n := &base[i], &now[i]
		s.figures.Version, s.figures.Digest = n.Version, n.EnvDigest
		if !n.Verdict.Scored() || n.Verdict.Cascaded || b.Observation == nil || b.Action.Call.Tool != n.Action.Call.Tool {
			continue
		}
		s.figures.Scored++
		if s.against(b, n, &Rehearsal{Raw: b.Observation.Raw}, n.Observation) < S3 {
			continue // the two versions answer alike
		}
		s.figures.Changed++
		stale := n.Verdict.Severity >= S3 && s.against(b, n, n.Action.Rehearsal, b.Observation) < S3
		if s.groups[n.PromptGroup] == nil {
			s.groups[n.PromptGroup] = make(Counters)
		}
		s.groups[n.PromptGroup].add(countStale, indicator(stale), InclusionWeight(n.Action.Inclusion))
		if !detected {
			changed++
			detected = n.Verdict.Severity < S3
		}
	}
	if changed > 0 {
		s.lifetimes = append(s.lifetimes, stat.Lifetime{Time: float64(changed), Event: detected, Group: lifetimeGroup(now[0].PromptGroup)})
	}
}

// against judges an answer by an observation, by outcome and fields alone.
func (s *staleness) against(base, now *Pair, answer *Rehearsal, truth *Observation) Severity {
	plain := *answer
	plain.StateDelta = nil
	v := s.rules(now.Environment).Judge(&Case{
		Environment: now.Environment, Version: base.Version, Tool: Tool{Name: now.Action.Call.Tool, Effect: Read},
		Call: now.Action.Call, Rehearsal: &plain, Observation: truth,
	})
	if !v.Scored() {
		return S0
	}
	return v.Severity
}

func (s *staleness) finish() VersionFigures {
	s.figures.Stale = stat.ClusteredWilson(clusters(s.groups, countStale), .95)
	survival := stat.KaplanMeier(s.lifetimes, .95)
	s.figures.Detection = survival.Points
	s.figures.Calls = survival.RMST(detectionHorizon)
	return s.figures
}
