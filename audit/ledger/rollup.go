package ledger

import (
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"understudy/audit"
)

// rollupStatements are the texts that follow from the list of figures: each has
// four columns in table rollup.
type rollupStatements struct {
	figures []audit.Figure
	upsert  string
	sums    string // the figures' columns, comma separated
	totals  string // the sum of each, as float8
}

func newRollupStatements() rollupStatements {
	figures := audit.FigureNames()
	var names, values, moves, totals []string
	for i, f := range figures {
		for j, suffix := range []string{"n", "w", "x", "xx"} {
			column := string(f) + "_" + suffix
			names = append(names, column)
			totals = append(totals, "sum("+column+"::float8)")
			values = append(values, fmt.Sprintf("($11::float8[])[(i - 1) * %d + %d]", 4*len(figures), 4*i+j+1))
			moves = append(moves, fmt.Sprintf("%[1]s = r.%[1]s + excluded.%[1]s", column))
		}
	}
	return rollupStatements{
		figures: figures,
		sums:    strings.Join(names, ", "),
		totals:  strings.Join(totals, ", "),
		// The numbers of all lines are one flat array. The lines come sorted.
		upsert: `
			INSERT INTO rollup AS r (run, environment, version, env_digest, tool, mode, canary, success, prompt_group, pairs, ` + strings.Join(names, ", ") + `)
			SELECT $1, environment, version, env_digest, tool, mode, canary, success, prompt_group, pairs, ` + strings.Join(values, ", ") + `
			FROM unnest($2::text[], $3::text[], $4::bytea[], $5::text[], $6::text[], $7::text[], $8::smallint[], $9::text[], $10::bigint[])
				WITH ORDINALITY AS k (environment, version, env_digest, tool, mode, canary, success, prompt_group, pairs, i)
			ON CONFLICT (run, environment, version, env_digest, tool, mode, canary, success, prompt_group)
			DO UPDATE SET pairs = r.pairs + excluded.pairs, ` + strings.Join(moves, ", "),
	}
}

// keyColumns are rollup keys turned by ninety degrees.
type keyColumns struct {
	environment, version, tool, mode, canary, group []string
	envDigest                                       [][]byte
	success                                         []int16
}

func (c *keyColumns) add(k rollupKey) {
	c.environment = append(c.environment, k.environment)
	c.version = append(c.version, k.version)
	c.envDigest = append(c.envDigest, []byte(k.envDigest))
	c.tool = append(c.tool, k.tool)
	c.mode = append(c.mode, k.mode)
	c.canary = append(c.canary, k.canary)
	c.success = append(c.success, k.success)
	c.group = append(c.group, k.group)
}

// queueRollups moves a run's figures by what an episode added.
func (l *Ledger) queueRollups(batch *pgx.Batch, run int32, c *counts) {
	var (
		k     keyColumns
		pairs []int64
		v     []float64
	)
	for _, key := range sorted(c.rollups, rollupKey.compare) {
		sums := c.rollups[key]
		k.add(key)
		pairs = append(pairs, sums.pairs)
		for _, f := range l.rollup.figures {
			s := sums.counters[audit.Counter(f)]
			v = append(v, float64(s.N), s.Weight, s.Sum, s.SumSq)
		}
	}
	batch.Queue(l.rollup.upsert, run, k.environment, k.version, k.envDigest, k.tool, k.mode, k.canary, k.success, k.group, pairs, v)
}

const upsertCells = `
	INSERT INTO cell AS c (run, environment, version, env_digest, tool, mode, canary, success, prompt_group,
		actual, rehearsed, masked, severity, cascaded, n, weight, repeats, unobservable)
	SELECT $1, * FROM unnest($2::text[], $3::text[], $4::bytea[], $5::text[], $6::text[], $7::text[], $8::smallint[], $9::text[],
		$10::text[], $11::text[], $12::text[], $13::smallint[], $14::boolean[], $15::bigint[], $16::float8[], $17::bigint[], $18::bigint[])
	ON CONFLICT (run, environment, version, env_digest, tool, mode, canary, success, prompt_group,
		actual, rehearsed, masked, severity, cascaded)
	DO UPDATE SET n = c.n + excluded.n, weight = c.weight + excluded.weight, repeats = c.repeats + excluded.repeats,
		unobservable = c.unobservable + excluded.unobservable`

// queueCells moves a run's confusion matrix by what an episode added.
func queueCells(batch *pgx.Batch, run int32, c *counts) {
	var (
		k                         keyColumns
		actual, rehearsed, masked []string
		severity                  []int16
		cascaded                  []bool
		n, repeats, unobservable  []int64
		weight                    []float64
	)
	for _, key := range sorted(c.cells, cellKey.compare) {
		s := c.cells[key]
		k.add(key.rollupKey)
		actual, rehearsed, masked = append(actual, key.actual), append(rehearsed, key.rehearsed), append(masked, key.masked)
		severity, cascaded = append(severity, key.severity), append(cascaded, key.cascaded)
		n, weight = append(n, s.n), append(weight, s.weight)
		repeats, unobservable = append(repeats, s.repeats), append(unobservable, s.unobservable)
	}
	batch.Queue(upsertCells, run, k.environment, k.version, k.envDigest, k.tool, k.mode, k.canary, k.success, k.group,
		actual, rehearsed, masked, severity, cascaded, n, weight, repeats, unobservable)
}

const upsertLeaves = `
	WITH moved AS (
		INSERT INTO leaf AS l (run, environment, version, tool, mode, part, pattern, kind, class, success, pairs, leaves, weight, severity)
		SELECT $1, * FROM unnest($2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[], $9::text[],
			$10::smallint[], $11::bigint[], $12::bigint[], $13::float8[], $14::smallint[])
		ON CONFLICT (run, tool, part, pattern, kind, class, mode, environment, version, success)
		DO UPDATE SET pairs = l.pairs + excluded.pairs, leaves = l.leaves + excluded.leaves,
			weight = l.weight + excluded.weight, severity = greatest(l.severity, excluded.severity)
		RETURNING *
	), added AS (
		SELECT * FROM unnest($2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[], $9::text[],
			$10::smallint[], $11::bigint[]) WITH ORDINALITY AS a (environment, version, tool, mode, part, pattern, kind, class, success, pairs, i)
	)
	INSERT INTO leaf_sample (leaf, slot, key, severity, pointer, rehearsed, actual)
	SELECT m.id, m.pairs - a.pairs + s.rank, s.key, s.severity, s.pointer, s.rehearsed, s.actual
	FROM added a
	JOIN moved m USING (environment, version, tool, mode, part, pattern, kind, class, success)
	JOIN unnest($15::bigint[], $16::bigint[], $17::bytea[], $18::smallint[], $19::bytea[], $20::bytea[], $21::bytea[])
		AS s (i, rank, key, severity, pointer, rehearsed, actual) USING (i)
	WHERE m.pairs - a.pairs + s.rank <= 5
	ON CONFLICT DO NOTHING`

// queueLeaves moves a run's leaf counters by what an episode added. An example
// takes the slot of its pair's number among the pairs that differ so.
func queueLeaves(batch *pgx.Batch, run int32, c *counts) {
	if len(c.leaves) == 0 {
		return
	}
	var (
		k                                 [8][]string
		pairs, leaves, index, rank        []int64
		weight                            []float64
		success, severity, sampleSeverity []int16
		keys, pointers, rehearsed, actual [][]byte
	)
	for i, key := range sorted(c.leaves, leafKey.compare) {
		s := c.leaves[key]
		for j, text := range []string{key.environment, key.version, key.tool, key.mode, key.part, key.pattern, key.kind, key.class} {
			k[j] = append(k[j], text)
		}
		success = append(success, key.success)
		pairs, leaves = append(pairs, s.pairs), append(leaves, s.leaves)
		weight, severity = append(weight, s.weight), append(severity, s.severity)
		for j, sample := range s.samples {
			index, rank = append(index, int64(i+1)), append(rank, int64(j+1))
			keys, pointers = append(keys, sample.key[:]), append(pointers, []byte(sample.pointer))
			sampleSeverity = append(sampleSeverity, sample.severity)
			rehearsed, actual = append(rehearsed, sample.rehearsed), append(actual, sample.actual)
		}
	}
	batch.Queue(upsertLeaves, run, k[0], k[1], k[2], k[3], k[4], k[5], k[6], k[7], success, pairs, leaves, weight, severity,
		index, rank, keys, sampleSeverity, pointers, rehearsed, actual)
}
