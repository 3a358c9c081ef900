package ledger

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"understudy/audit"
	"understudy/audit/stat"
)

// Run finds a run for a gate. See audit.FigureSource.
func (l *Ledger) Run(ctx context.Context, ref string) (audit.RunFacts, error) {
	name := ref
	var err error
	switch {
	case strings.HasPrefix(ref, "tag:"):
		name, err = l.taggedRun(ctx, strings.TrimPrefix(ref, "tag:"))
	case strings.HasPrefix(ref, "auto:"):
		name, err = l.baselineOf(ctx, strings.TrimPrefix(ref, "auto:"))
	}
	if err != nil {
		return audit.RunFacts{}, err
	}
	return l.runFacts(ctx, name)
}

func (l *Ledger) taggedRun(ctx context.Context, tag string) (string, error) {
	var name string
	err := l.pool.QueryRow(ctx, `
		SELECT r.name FROM run_tag t JOIN run r ON r.id = t.run
		WHERE t.tag = $1 AND r.state <> 'dropping' ORDER BY t.run DESC LIMIT 1`, label(tag)).Scan(&name)
	return name, infrastructure(notFound(err, fmt.Sprintf("a run with tag %q", tag), "tag a run first, or name one"))
}

// baselineOf finds the newest earlier run whose last gate passed on the same
// environment versions and wire APIs, by the same rules.
func (l *Ledger) baselineOf(ctx context.Context, name string) (string, error) {
	facts, err := l.runFacts(ctx, name)
	if err != nil {
		return "", err
	}
	rows, err := l.pool.Query(ctx, `
		SELECT r.name FROM run r
		JOIN LATERAL (SELECT verdict FROM gate_verdict v WHERE v.run = r.id ORDER BY decided_at DESC LIMIT 1) v ON v.verdict = 'PASS'
		WHERE r.id < (SELECT id FROM run WHERE name = $1) AND r.state <> 'dropping'
		ORDER BY r.id DESC LIMIT 100`, label(name))
	if err != nil {
		return "", infrastructure(fmt.Errorf("look for a baseline of %q: %w", name, err))
	}
	candidates, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return "", infrastructure(fmt.Errorf("look for a baseline of %q: %w", name, err))
	}
	for _, candidate := range candidates {
		other, err := l.conditions(ctx, candidate)
		if err != nil {
			return "", err
		}
		if !sameConditions(facts, other) {
			continue
		}
		if other.Rules, err = l.rulesOf(ctx, candidate); err != nil {
			return "", err
		}
		if facts.OtherRules(&other) == "" {
			return candidate, nil
		}
	}
	return "", &audit.Error{
		Code: audit.CodeNotFound, Message: fmt.Sprintf("no earlier run than %q passed its gate on the same environment versions and wire APIs, by the same rules", name),
		Hint: "name a baseline run, or gate one without a baseline first",
	}
}

// sameConditions reports whether two runs audited the same worlds the same way.
func sameConditions(a, b audit.RunFacts) bool {
	sameWorld := func(x, y audit.EnvironmentInfo) bool {
		return x.Name == y.Name && x.Version == y.Version && x.Digest == y.Digest
	}
	return slices.EqualFunc(a.Environments, b.Environments, sameWorld) && slices.Equal(a.WireAPIs, b.WireAPIs)
}

func (l *Ledger) runFacts(ctx context.Context, name string) (audit.RunFacts, error) {
	facts, err := l.conditions(ctx, name)
	if err == nil {
		facts.Rules, err = l.rulesOf(ctx, name)
	}
	return facts, err
}

// rulesOf are a run's rules, as audit.RunFacts has them. It reads a row a pair.
func (l *Ledger) rulesOf(ctx context.Context, name string) (map[string][]audit.Digest, error) {
	rows, err := l.pool.Query(ctx, `
		SELECT DISTINCT p.environment::text, p.rules FROM run_pair m JOIN pair p ON p.key = m.key AND p.result = m.result
		WHERE m.run = (SELECT id FROM run WHERE name = $1) AND p.rules <> ''::bytea AND p.rules <> $2 ORDER BY 1, 2`, label(name), make([]byte, len(audit.Digest{})))
	if err != nil {
		return nil, infrastructure(fmt.Errorf("read the rules of %q: %w", name, err))
	}
	rules := map[string][]audit.Digest{}
	var environment string
	var digest []byte
	_, err = pgx.ForEachRow(rows, []any{&environment, &digest}, func() error {
		rules[environment] = append(rules[environment], digestOf(digest))
		return nil
	})
	return rules, infrastructure(err)
}

// conditions are a run's facts without its rules.
func (l *Ledger) conditions(ctx context.Context, name string) (audit.RunFacts, error) {
	run, err := l.RunByName(ctx, name)
	if err != nil {
		return audit.RunFacts{}, infrastructure(err)
	}
	facts := audit.RunFacts{ID: run.Name, Policy: run.Policy, Checkpoint: run.Checkpoint, Tags: run.Tags, Started: run.Started, WireAPIs: []string{}}
	rows, err := l.pool.Query(ctx, `SELECT DISTINCT wire_api::text FROM episode WHERE run = $1 AND wire_api <> '' ORDER BY 1`, run.Number)
	if err != nil {
		return facts, infrastructure(fmt.Errorf("read wire APIs of %q: %w", name, err))
	}
	if facts.WireAPIs, err = pgx.CollectRows(rows, pgx.RowTo[string]); err != nil {
		return facts, infrastructure(fmt.Errorf("read wire APIs of %q: %w", name, err))
	}
	rows, err = l.pool.Query(ctx, `SELECT DISTINCT environment::text, version::text, env_digest FROM rollup WHERE run = $1 ORDER BY 1, 2, 3`, run.Number)
	if err != nil {
		return facts, infrastructure(fmt.Errorf("read environments of %q: %w", name, err))
	}
	facts.Environments, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (audit.EnvironmentInfo, error) {
		var (
			info   audit.EnvironmentInfo
			digest []byte
		)
		err := row.Scan(&info.Name, &info.Version, &digest)
		if len(digest) == len(info.Digest) {
			info.Digest = audit.Digest(digest)
		}
		return info, err
	})
	return facts, infrastructure(err)
}

// Counts reads a run's rollups. See audit.FigureSource.
func (l *Ledger) Counts(ctx context.Context, run string) ([]audit.ToolCounts, error) {
	id, err := l.runID(ctx, run)
	if err != nil {
		return nil, infrastructure(err)
	}
	tools := map[toolKey]*audit.ToolCounts{}
	if err := l.countClusters(ctx, id, tools); err != nil {
		return nil, infrastructure(err)
	}
	if err := l.countMasks(ctx, id, tools); err != nil {
		return nil, infrastructure(err)
	}
	out := make([]audit.ToolCounts, 0, len(tools))
	for _, t := range tools {
		out = append(out, *t)
	}
	slices.SortFunc(out, func(a, b audit.ToolCounts) int {
		return cmp.Or(cmp.Compare(a.Environment, b.Environment), cmp.Compare(a.Version, b.Version), cmp.Compare(a.Tool, b.Tool), cmp.Compare(a.Mode, b.Mode))
	})
	return out, nil
}

type toolKey struct{ environment, version, tool, mode string }

func toolCounts(tools map[toolKey]*audit.ToolCounts, k toolKey) *audit.ToolCounts {
	t := tools[k]
	if t == nil {
		t = &audit.ToolCounts{
			Environment: k.environment, Version: k.version, Tool: k.tool, Mode: audit.Mode(k.mode),
			Masked: map[audit.MaskReason]int{}, Groups: map[audit.Figure][]stat.Cluster{},
		}
		tools[k] = t
	}
	return t
}

// countClusters sums rollups over digests, canary levels and task success.
func (l *Ledger) countClusters(ctx context.Context, run int32, tools map[toolKey]*audit.ToolCounts) error {
	rows, err := l.pool.Query(ctx, `
		SELECT environment, version, tool, mode, prompt_group, `+l.rollup.totals+`
		FROM rollup WHERE run = $1
		GROUP BY environment, version, tool, mode, prompt_group
		ORDER BY environment, version, tool, mode, prompt_group`, run)
	if err != nil {
		return fmt.Errorf("read rollups: %w", err)
	}
	var (
		k     toolKey
		group string
		v     = make([]float64, 4*len(l.rollup.figures))
		dest  = []any{&k.environment, &k.version, &k.tool, &k.mode, &group}
	)
	for i := range v {
		dest = append(dest, &v[i])
	}
	_, err = pgx.ForEachRow(rows, dest, func() error {
		t := toolCounts(tools, k)
		for i, f := range l.rollup.figures {
			if n := v[4*i]; n > 0 {
				t.Groups[f] = append(t.Groups[f], stat.Cluster{Group: group, N: int(n), Weight: v[4*i+1], Sum: v[4*i+2], SumSq: v[4*i+3]})
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("read rollups: %w", err)
	}
	return nil
}

func (l *Ledger) countMasks(ctx context.Context, run int32, tools map[toolKey]*audit.ToolCounts) error {
	rows, err := l.pool.Query(ctx, `
		SELECT environment, version, tool, mode, masked, sum(n)::bigint, sum(unobservable)::bigint,
			coalesce(sum(n) FILTER (WHERE actual = 'error:unknown_tool'), 0)::bigint FROM cell
		WHERE run = $1 AND NOT cascaded GROUP BY 1, 2, 3, 4, 5`, run)
	if err != nil {
		return fmt.Errorf("read masks: %w", err)
	}
	var (
		k       toolKey
		masked  string
		n       int
		unseen  int
		strange int
	)
	_, err = pgx.ForEachRow(rows, []any{&k.environment, &k.version, &k.tool, &k.mode, &masked, &n, &unseen, &strange}, func() error {
		t := toolCounts(tools, k)
		t.Pairs += n
		t.Unobservable += unseen
		t.Unknown += strange
		if masked != "" {
			t.Masked[audit.MaskReason(masked)] += n
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("read masks: %w", err)
	}
	return nil
}

// Findings reads a run's kinds of difference. See audit.FigureSource.
func (l *Ledger) Findings(ctx context.Context, run string, limit int) ([]audit.Finding, error) {
	id, err := l.runID(ctx, run)
	if err != nil {
		return nil, infrastructure(err)
	}
	if limit <= 0 {
		limit = math.MaxInt32
	}
	rows, err := l.pool.Query(ctx, `
		SELECT environment, tool, pattern, kind, max(severity), sum(pairs)::bigint
		FROM leaf WHERE run = $1
		GROUP BY environment, tool, pattern, kind HAVING sum(pairs) > 0
		ORDER BY max(severity) DESC, sum(pairs) DESC, environment, tool, pattern, kind LIMIT $2`, id, limit)
	if err != nil {
		return nil, infrastructure(fmt.Errorf("read findings: %w", err))
	}
	findings, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (audit.Finding, error) {
		var (
			f        audit.Finding
			severity int16
		)
		err := row.Scan(&f.Environment, &f.Tool, &f.Pattern, &f.Kind, &severity, &f.Count)
		f.Severity = audit.Severity(severity)
		f.Fingerprint = audit.Fingerprint(f.Tool, f.Pattern, f.Kind)
		return f, err
	})
	if err != nil {
		return nil, infrastructure(fmt.Errorf("read findings: %w", err))
	}
	return findings, infrastructure(l.addSamples(ctx, id, findings))
}

// addSamples gives each finding its worst examples, at most five.
func (l *Ledger) addSamples(ctx context.Context, run int32, findings []audit.Finding) error {
	type kind struct{ environment, tool, pattern, kind string }
	index := make(map[kind]int, len(findings))
	for i, f := range findings {
		index[kind{f.Environment, f.Tool, f.Pattern, f.Kind}] = i
	}
	rows, err := l.pool.Query(ctx, `
		SELECT l.environment, l.tool, l.pattern, l.kind, s.key, s.pointer, s.rehearsed, s.actual
		FROM leaf l JOIN leaf_sample s ON s.leaf = l.id
		WHERE l.run = $1 ORDER BY s.severity DESC, s.slot, s.key`, run)
	if err != nil {
		return fmt.Errorf("read samples: %w", err)
	}
	var (
		k                               kind
		key, pointer, rehearsed, actual []byte
	)
	_, err = pgx.ForEachRow(rows, []any{&k.environment, &k.tool, &k.pattern, &k.kind, &key, &pointer, &rehearsed, &actual}, func() error {
		i, ok := index[k]
		if ok && len(findings[i].Samples) < keptSamples {
			findings[i].Samples = append(findings[i].Samples, audit.Sample{
				Pair: audit.Digest(key), Pointer: string(pointer), Rehearsed: string(rehearsed), Real: string(actual),
			})
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("read samples: %w", err)
	}
	return nil
}

// infrastructure marks an error that is nobody's input as the store's.
func infrastructure(err error) error {
	if err == nil || audit.ErrorCode(err) != audit.CodeInternal {
		return err
	}
	return &audit.Error{Code: audit.CodeInfrastructure, Message: "the ledger does not answer", Hint: "check that PostgreSQL runs and that its schema is current (understudy migrate)", Err: err}
}
