package ledger

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"understudy/audit"
)

// A sample holds at most so many episodes and results: some tenths of a second
// of reading, whatever the size of the run.
const (
	sampleEpisodes = 4_000
	sampleResults  = 12_000
)

// sampledEpisodes are the first episodes of a run by the hash of their prompt
// group, and one more that says where to stop.
const sampledEpisodes = `
	WITH first AS (
		SELECT id, name, prompt_group, md5(prompt_group) AS hash, results FROM episode
		WHERE run = $1 ORDER BY md5(prompt_group), id LIMIT $2
	), bounded AS (
		SELECT *, row_number() OVER w AS nth, sum(results) OVER w AS upto FROM first WINDOW w AS (ORDER BY hash, id)
	)
	SELECT id, name, prompt_group, hash FROM bounded WHERE nth = 1 OR (upto - results < $3 AND nth < $2) ORDER BY hash, id`

// SampleCalls reads the calls of as many prompt groups as a page can bear, in
// the order that all runs share. See audit.GroupSample.
func (l *Ledger) SampleCalls(ctx context.Context, run string) (*audit.GroupSample, error) {
	return l.sampleCalls(ctx, run, sampleEpisodes, sampleResults)
}

// sampleCalls is SampleCalls with at most so many episodes and about so many results.
func (l *Ledger) sampleCalls(ctx context.Context, run string, episodes, results int) (*audit.GroupSample, error) {
	id, err := l.runID(ctx, run)
	if err != nil {
		return nil, err
	}
	sample := &audit.GroupSample{Run: run}
	err = l.transact(ctx, beginLookups, "sample calls", func(ctx context.Context, tx pgx.Tx) error {
		sample.Calls, sample.Through = nil, ""
		chosen, err := chooseEpisodes(ctx, tx, id, episodes, results)
		if err != nil {
			return err
		}
		var whole bool
		err = tx.QueryRow(ctx, `SELECT count(*) <= $2 FROM (SELECT FROM episode WHERE run = $1 LIMIT $2 + 1) e`, id, len(chosen)).Scan(&whole)
		if err != nil {
			return fmt.Errorf("count episodes: %w", err)
		}
		if !whole {
			sample.Through = cutAt(chosen)
		}
		return readCalls(ctx, tx, id, chosen, sample)
	})
	if err != nil {
		return nil, err
	}
	return sample, nil
}

// sampledEpisode is one episode of a sample.
type sampledEpisode struct {
	id                []byte
	name, group, hash string
}

// cutAt is the first group that may lack episodes. Where it is the only one, it
// stays, cut as it is: what is longer than a hash comes right after it.
func cutAt(chosen []sampledEpisode) string {
	last := chosen[len(chosen)-1].hash
	if chosen[0].hash == last {
		return last + "+"
	}
	return last
}

func chooseEpisodes(ctx context.Context, tx pgx.Tx, run int32, episodes, results int) ([]sampledEpisode, error) {
	rows, err := tx.Query(ctx, sampledEpisodes, run, episodes+1, results)
	if err != nil {
		return nil, fmt.Errorf("choose episodes: %w", err)
	}
	chosen, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (e sampledEpisode, err error) {
		return e, row.Scan(&e.id, &e.name, &e.group, &e.hash)
	})
	if err != nil {
		return nil, fmt.Errorf("choose episodes: %w", err)
	}
	return chosen, nil
}

func readCalls(ctx context.Context, tx pgx.Tx, run int32, chosen []sampledEpisode, sample *audit.GroupSample) error {
	ids := make([][]byte, 0, len(chosen))
	index := make(map[audit.Digest]*sampledEpisode, len(chosen))
	for i := range chosen {
		ids = append(ids, chosen[i].id)
		index[audit.Digest(chosen[i].id)] = &chosen[i]
	}
	rows, err := tx.Query(ctx, `
		SELECT e.n, a.episode, a.step, a.probe, a.sample, a.attempt, a.key, p.environment, p.version, p.env_digest, p.mode, p.tool,
			p.arguments, p.before, p.actual, p.rehearsed, p.severity, p.false_success, m.masked, p.cascaded, m.weight,
			CASE WHEN m.executed >= 0 THEN m.executed ELSE m.reported END
		FROM unnest($2::bytea[]) WITH ORDINALITY AS e (id, n)
		JOIN action a ON a.run = $1 AND a.episode = e.id
		JOIN run_pair m ON m.run = $1 AND m.key = a.key AND m.result = a.result AND m.episode = a.episode AND m.step = a.step
		JOIN pair p ON p.key = a.key AND p.result = a.result
		ORDER BY e.n, a.step, a.probe, a.sample, a.attempt, a.ordinal`, run, ids)
	if err != nil {
		return fmt.Errorf("read calls: %w", err)
	}
	var (
		n                                     int64
		id, key, envDigest, arguments, before []byte
		c                                     audit.AuditedCall
		severity, success                     int16
		seen                                  = make(map[audit.Digest]bool)
	)
	dest := []any{
		&n, &id, &c.Step, &c.Probe, &c.Sample, &c.Attempt, &key, &c.Environment, &c.Version, &envDigest, &c.Mode, &c.Tool,
		&arguments, &before, &c.Real, &c.Rehearsed, &severity, &c.FalseSuccess, &c.Masked, &c.Cascaded, &c.Weight, &success,
	}
	_, err = pgx.ForEachRow(rows, dest, func() error {
		c.Key, c.EpisodeID, c.Severity = audit.Digest(key), audit.Digest(id), audit.Severity(severity)
		c.Split = splitOf(success)
		if seen[c.Key] { // a key counts once in a run, however many places of an episode hold it
			return nil
		}
		seen[c.Key] = true
		c.EnvDigest, c.Arguments, c.Before = digestOf(envDigest), digestOf(arguments), digestOf(before)
		e := index[c.EpisodeID]
		c.Episode, c.PromptGroup, c.GroupOrder = e.name, e.group, e.hash
		sample.Calls = append(sample.Calls, c)
		return nil
	})
	if err != nil {
		return fmt.Errorf("read calls: %w", err)
	}
	return nil
}

// digestOf is a digest that may be missing.
func digestOf(b []byte) audit.Digest {
	if len(b) != len(audit.Digest{}) {
		return audit.Digest{}
	}
	return audit.Digest(b)
}
