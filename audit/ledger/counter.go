package ledger

import (
	"iter"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"understudy/audit"
	"understudy/audit/stat"
)

// sparse yields the counters of one rollup that table counter holds, in order:
// all that are no figure and that cells do not count. One that counts in the
// same pairs as another (see base) is held without n and Σw, and not at all
// while it is zero, as it mostly is.
func sparse(c audit.Counters) iter.Seq2[audit.Counter, stat.Cluster] {
	figures := audit.FigureNames()
	return func(yield func(audit.Counter, stat.Cluster) bool) {
		for _, name := range c.Names() {
			s := c[name]
			if slices.Contains(figures, audit.Figure(name)) || inCells(name) {
				continue
			}
			if base(name) != "" {
				if s.Sum == 0 {
					continue
				}
				s.N, s.Weight = 0, 0
			}
			if !yield(audit.Counter(label(string(name))), s) {
				return
			}
		}
	}
}

// inCells reports whether table cell tells the counter.
func inCells(name audit.Counter) bool {
	switch family, _, _ := strings.Cut(string(name), "/"); family {
	case string(audit.CountPairs), string(audit.CountCalls), string(audit.CountScored), string(audit.CountCascaded),
		"masked", "confusion", "severity":
		return true
	}
	return false
}

// base is the counter whose pairs are exactly those that the named one counts
// in; "" when there is none. Right by wrong counts in successful tasks only,
// which rollups hold apart.
func base(name audit.Counter) audit.Counter {
	switch {
	case slices.Contains(ofScored(), name):
		return audit.CountScored
	case slices.Contains(ofShape(), name):
		return audit.Counter(audit.FigureShape)
	}
	return ""
}

func ofScored() []audit.Counter {
	return []audit.Counter{audit.CountMaskedWeight, audit.CountApproximate, audit.CountOversize, audit.CountRightByWrong}
}

func ofShape() []audit.Counter { return []audit.Counter{audit.CountHallucinated, audit.CountOmitted} }

// fillBased adds, for each counter that table counter holds sparsely, the n and
// Σw of its base where the base is among c.
func fillBased(c audit.Counters, succeeded bool) {
	for _, name := range slices.Concat(ofScored(), ofShape()) {
		if s, ok := c[base(name)]; ok && (succeeded || name != audit.CountRightByWrong) {
			c.Merge(audit.Counters{name: {N: s.N, Weight: s.Weight}})
		}
	}
}

const upsertCounters = `
	INSERT INTO counter AS c (run, environment, version, env_digest, tool, mode, canary, success, prompt_group, name, n, w, x, xx)
	SELECT $1, * FROM unnest($2::text[], $3::text[], $4::bytea[], $5::text[], $6::text[], $7::text[], $8::smallint[], $9::text[],
		$10::text[], $11::bigint[], $12::float8[], $13::float8[], $14::float8[])
	ON CONFLICT (run, environment, version, env_digest, tool, mode, canary, success, prompt_group, name)
	DO UPDATE SET n = c.n + excluded.n, w = c.w + excluded.w, x = c.x + excluded.x, xx = c.xx + excluded.xx`

// queueCounters moves a run's other counters by what an episode added.
func queueCounters(batch *pgx.Batch, run int32, c *counts) {
	var (
		k        keyColumns
		names    []string
		n        []int64
		w, x, xx []float64
	)
	for _, key := range sorted(c.rollups, rollupKey.compare) {
		for name, s := range sparse(c.rollups[key].counters) {
			k.add(key)
			names, n = append(names, string(name)), append(n, int64(s.N))
			w, x, xx = append(w, s.Weight), append(x, s.Sum), append(xx, s.SumSq)
		}
	}
	if len(names) > 0 {
		batch.Queue(upsertCounters, run, k.environment, k.version, k.envDigest, k.tool, k.mode, k.canary, k.success, k.group, names, n, w, x, xx)
	}
}
