package ledger

import (
	"context"
	"fmt"
	"math"

	"github.com/jackc/pgx/v5"

	"understudy/audit"
	"understudy/audit/stat"
)

// recount reads every member of every run and compares its counters, made anew
// by the code that moves them, with those that are stored. It also checks that
// each document still has the digest that its pair is stored under.
func (l *Ledger) recount(ctx context.Context, tx pgx.Tx, report *Report) error {
	rows, err := tx.Query(ctx, `SELECT id FROM run WHERE state <> 'dropping' ORDER BY id`)
	if err != nil {
		return fmt.Errorf("list runs: %w", err)
	}
	runs, err := pgx.CollectRows(rows, pgx.RowTo[int32])
	if err != nil {
		return fmt.Errorf("list runs: %w", err)
	}
	for _, run := range runs {
		fresh, err := recountRun(ctx, tx, run, report)
		if err != nil {
			return err
		}
		if err := l.compareRollups(ctx, tx, run, fresh, report); err != nil {
			return err
		}
		if err := compareCounters(ctx, tx, run, fresh, report); err != nil {
			return err
		}
		if err := compareCells(ctx, tx, run, fresh, report); err != nil {
			return err
		}
		if err := compareLeaves(ctx, tx, run, fresh, report); err != nil {
			return err
		}
		if err := l.compareSummary(ctx, tx, run, report); err != nil {
			return err
		}
	}
	return nil
}

func recountRun(ctx context.Context, tx pgx.Tx, run int32, report *Report) (*counts, error) {
	fresh := newCounts()
	err := eachMember(ctx, tx, report.find, func(m member) {
		if m.pair.Verdict.Scored() && m.masked != "" { // people took it out
			m = m.excused(audit.MaskReason(m.masked), "")
		}
		fresh.add(m)
	}, "", run)
	if err != nil {
		return nil, fmt.Errorf("recount run %d: %w", run, err)
	}
	return fresh, nil
}

// readMembers reads pairs of the run $1 as they were judged.
func readMembers(ctx context.Context, tx pgx.Tx, where string, args ...any) ([]member, error) {
	var members []member
	err := eachMember(ctx, tx, leaveToVerify, func(m member) { members = append(members, m) }, where, args...)
	return members, err
}

// leaveToVerify passes over what is wrong with a stored pair.
func leaveToVerify(string, ...any) {}

// eachMember reads pairs of the run $1 as they were judged, and hands each with
// what its run counts it by to add. What is wrong with a stored pair goes to find.
func eachMember(ctx context.Context, tx pgx.Tx, find func(string, ...any), add func(member), where string, args ...any) error {
	rows, err := tx.Query(ctx, `
		SELECT p.key, p.result, p.doc, p.arguments, p.prompt, p.rehearsal, p.state_block, p.recorded, p.observation, p.twin,
			p.environment, p.version, p.env_digest, p.tool, p.mode, p.canary, p.actual, p.rehearsed, m.masked,
			m.prompt_group, CASE WHEN m.executed >= 0 THEN m.executed ELSE m.reported END, m.weight, m.inclusion, m.confidence, m.repeats
		FROM run_pair m JOIN pair p ON p.key = m.key AND p.result = m.result
		WHERE m.run = $1`+where, args...)
	if err != nil {
		return fmt.Errorf("read members: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		var (
			d                      document
			m                      member
			key, result, envDigest []byte
			digests                [7][]byte
			inclusion              float64
			confidence             *float64
			repeats                int
		)
		err := rows.Scan(&key, &result, &d.doc, &digests[0], &digests[1], &digests[2], &digests[3], &digests[4], &digests[5], &digests[6],
			&m.environment, &m.version, &envDigest, &m.tool, &m.mode, &m.canary, &m.actual, &m.rehearsed, &m.masked,
			&m.group, &m.success, &m.weight, &inclusion, &confidence, &repeats)
		if err != nil {
			return fmt.Errorf("read members: %w", err)
		}
		for i, b := range d.all() {
			if digests[i] != nil {
				b.digest = audit.Digest(digests[i])
			}
		}
		d.extra = []byte(`{}`)
		m.envDigest = string(envDigest)
		if d.digest() != audit.Digest(result) {
			find("pair %s holds another document than its digest says", audit.Digest(key))
		}
		p, err := d.pair()
		if err != nil {
			find("pair %s cannot be read: %v", audit.Digest(key), err)
			continue
		}
		p.Executed, p.Repeats, p.Action.Inclusion = untruth(m.success), repeats, inclusion
		if p.Action.Rehearsal != nil {
			p.Action.Rehearsal.Confidence = confidence
		}
		m.pair = &p
		add(m)
	}
	return rows.Err()
}

func (r *Report) find(format string, args ...any) {
	r.Findings = append(r.Findings, fmt.Sprintf(format, args...))
}

func (l *Ledger) compareRollups(ctx context.Context, tx pgx.Tx, run int32, fresh *counts, report *Report) error {
	rows, err := tx.Query(ctx, `SELECT environment, version, env_digest, tool, mode, canary, success, prompt_group, pairs, `+l.rollup.sums+` FROM rollup WHERE run = $1`, run)
	if err != nil {
		return fmt.Errorf("read rollups of run %d: %w", run, err)
	}
	var (
		k      rollupKey
		digest []byte
		pairs  int64
		v      = make([]float64, 4*len(l.rollup.figures))
		n      = make([]int64, len(l.rollup.figures))
		met    = make(map[rollupKey]bool, len(fresh.rollups))
		dest   = []any{&k.environment, &k.version, &digest, &k.tool, &k.mode, &k.canary, &k.success, &k.group, &pairs}
	)
	for i := range n {
		dest = append(dest, &n[i], &v[4*i+1], &v[4*i+2], &v[4*i+3])
	}
	_, err = pgx.ForEachRow(rows, dest, func() error {
		k.envDigest = string(digest)
		want, ok := fresh.rollups[k]
		if !ok {
			report.find("run %d: rollup of %s, group %s, counts %d pairs that are not there", run, k.tool, k.group, pairs)
			return nil
		}
		met[k] = true
		if want.pairs != pairs {
			report.find("run %d: rollup of %s, group %s, counts %d pairs, there are %d", run, k.tool, k.group, pairs, want.pairs)
		}
		for i, f := range l.rollup.figures {
			s := stat.Cluster{N: int(n[i]), Weight: v[4*i+1], Sum: v[4*i+2], SumSq: v[4*i+3]}
			report.compare(run, k, audit.Counter(f), s, want.counters[audit.Counter(f)])
		}
		return nil
	})
	for k, want := range fresh.rollups {
		if met[k] {
			continue
		}
		report.find("run %d: no rollup of %s, group %s, for %d pairs", run, k.tool, k.group, want.pairs)
	}
	return err
}

// compare finds sums that are not those of the recount.
func (r *Report) compare(run int32, k rollupKey, name audit.Counter, got, want stat.Cluster) {
	if got.N != want.N || !near(got.Weight, want.Weight) || !near(got.Sum, want.Sum) || !near(got.SumSq, want.SumSq) {
		r.find("run %d: counters of %s, group %s: %s is %d %g %g %g, recounted %d %g %g %g",
			run, k.tool, k.group, name, got.N, got.Weight, got.Sum, got.SumSq, want.N, want.Weight, want.Sum, want.SumSq)
	}
}

func compareCounters(ctx context.Context, tx pgx.Tx, run int32, fresh *counts, report *Report) error {
	rows, err := tx.Query(ctx, `SELECT environment, version, env_digest, tool, mode, canary, success, prompt_group, name, n, w, x, xx FROM counter WHERE run = $1`, run)
	if err != nil {
		return fmt.Errorf("read counters of run %d: %w", run, err)
	}
	type counterKey struct {
		rollupKey
		name audit.Counter
	}
	left := map[counterKey]stat.Cluster{}
	for k, sums := range fresh.rollups {
		for name, s := range sparse(sums.counters) {
			left[counterKey{k, name}] = s
		}
	}
	var (
		k      counterKey
		digest []byte
		s      stat.Cluster
	)
	dest := []any{&k.environment, &k.version, &digest, &k.tool, &k.mode, &k.canary, &k.success, &k.group, &k.name, &s.N, &s.Weight, &s.Sum, &s.SumSq}
	_, err = pgx.ForEachRow(rows, dest, func() error {
		k.envDigest = string(digest)
		report.compare(run, k.rollupKey, k.name, s, left[k])
		delete(left, k)
		return nil
	})
	for k, want := range left {
		report.compare(run, k.rollupKey, k.name, stat.Cluster{}, want)
	}
	return err
}

// near compares sums of doubles, whose last digits depend on their order.
func near(a, b float64) bool {
	return math.Abs(a-b) <= 1e-9*max(1, math.Abs(a), math.Abs(b))
}

func compareCells(ctx context.Context, tx pgx.Tx, run int32, fresh *counts, report *Report) error {
	rows, err := tx.Query(ctx, `
		SELECT environment, version, env_digest, tool, mode, canary, success, prompt_group, actual, rehearsed, masked, severity, cascaded,
			n, weight, repeats, unobservable
		FROM cell WHERE run = $1`, run)
	if err != nil {
		return fmt.Errorf("read cells of run %d: %w", run, err)
	}
	var (
		k      cellKey
		digest []byte
		s      cellSums
	)
	dest := []any{
		&k.environment, &k.version, &digest, &k.tool, &k.mode, &k.canary, &k.success, &k.group, &k.actual, &k.rehearsed, &k.masked, &k.severity, &k.cascaded,
		&s.n, &s.weight, &s.repeats, &s.unobservable,
	}
	_, err = pgx.ForEachRow(rows, dest, func() error {
		k.envDigest = string(digest)
		want, ok := fresh.cells[k]
		delete(fresh.cells, k)
		if !ok {
			want = &cellSums{}
		}
		if !near(want.weight, s.weight) {
			report.find("run %d: cell %s %s/%s weighs %g, recounted %g", run, k.tool, k.actual, k.rehearsed, s.weight, want.weight)
		}
		s.weight = want.weight
		if *want != s {
			report.find("run %d: cell %s %s/%s is %+v, recounted %+v", run, k.tool, k.actual, k.rehearsed, s, *want)
		}
		return nil
	})
	for k, want := range fresh.cells {
		report.find("run %d: no cell %s %s/%s for %d pairs", run, k.tool, k.actual, k.rehearsed, want.n)
	}
	return err
}
