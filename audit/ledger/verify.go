package ledger

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"understudy/audit"
)

// Report is what Verify counted, and everything that did not add up.
type Report struct {
	Runs         int      `json:"runs"`
	Episodes     int      `json:"episodes"`
	Open         int      `json:"open"`         // episodes without a result yet
	Dead         int      `json:"dead"`         // episodes given up
	Undetermined int      `json:"undetermined"` // episodes that no answer can be had for
	Samples      int      `json:"samples"`      // actions that were asked to be audited
	Results      int      `json:"results"`      // actions that have a result
	Pairs        int      `json:"pairs"`        // memberships of runs
	Bodies       int      `json:"bodies"`
	Duplicates   int      `json:"duplicates"`  // absorbed
	Late         int      `json:"late"`        // results that came after their job was given up or sent again
	Conflicts    int      `json:"conflicts"`   // results that disagree with the ledger's: to look at, not a fault of the ledger
	Unpublished  int      `json:"unpublished"` // messages that wait for a relay
	Findings     []string `json:"findings,omitempty"`
}

// Err is nil when everything adds up, else an error that lists the findings.
func (r Report) Err() error {
	if len(r.Findings) == 0 {
		return nil
	}
	shown := r.Findings
	if len(shown) > 20 {
		shown = append(shown[:20:20], fmt.Sprintf("and %d more", len(r.Findings)-20))
	}
	return &audit.Error{
		Code: audit.CodeInternal, Message: fmt.Sprintf("the ledger does not add up: %d findings: %s", len(r.Findings), strings.Join(shown, "; ")),
		Hint: "keep the database as it is and report the findings",
	}
}

// check is one claim about the ledger: its query returns one line for each thing
// that breaks it.
type check struct{ claim, sql string }

func checks() []check {
	return []check{
		{"a finished episode holds as many actions as it says", `
			SELECT format('episode %s of run %s says %s results, has %s', encode(e.id, 'hex'), e.run, e.results, count(a.key))
			FROM episode e LEFT JOIN action a ON a.run = e.run AND a.episode = e.id
			GROUP BY e.run, e.id HAVING e.results <> count(a.key)`},
		{"a done episode with samples has results", `
			SELECT format('episode %s of run %s is done without results', encode(id, 'hex'), run)
			FROM episode WHERE state = 'done' AND samples > 0 AND results = 0`},
		{"only a done episode has results", `
			SELECT format('episode %s of run %s is %s with %s results', encode(id, 'hex'), run, state, results)
			FROM episode WHERE state <> 'done' AND results > 0`},
		{"a dead or undetermined episode has a letter that was not revived, and no other has", `
			SELECT format('episode %s of run %s is %s with %s letters', encode(e.id, 'hex'), e.run, e.state, count(d.attempt))
			FROM episode e LEFT JOIN dead_letter d ON d.run = e.run AND d.episode = e.id AND d.revived_at IS NULL
			GROUP BY e.run, e.id HAVING (e.state IN ('dead', 'undetermined')) <> (count(d.attempt) > 0)`},
		{"an open episode has the message of its attempt", `
			SELECT format('episode %s of run %s is open without a message', encode(e.id, 'hex'), e.run)
			FROM episode e WHERE e.state = 'open' AND NOT EXISTS (
				SELECT FROM outbox o WHERE o.run = e.run AND o.episode = e.id AND o.topic = 'job' AND o.attempt = e.attempt)`},
		{"an unpublished message belongs to an episode", `
			SELECT format('message %s of run %s has no episode', o.id, o.run)
			FROM outbox o WHERE o.published_at IS NULL AND o.topic <> 'score' AND NOT EXISTS (SELECT FROM episode e WHERE e.run = o.run AND e.id = o.episode)`},
		{"a paid verdict is in the ledger", `
			SELECT format('score %s of run %s pays for pair %s, which is not there', encode(s.id, 'hex'), s.run, encode(s.key, 'hex'))
			FROM score s WHERE s.key IS NOT NULL AND NOT EXISTS (SELECT FROM action a WHERE a.run = s.run AND a.key = s.key)`},
		{"a finished batch has paid every payee", `
			SELECT format('batch %s of run %s has not paid %s', encode(b.id, 'hex'), b.run, encode(p.id, 'hex'))
			FROM score_batch b, unnest(b.payees) AS p (id)
			WHERE b.finished_at IS NOT NULL AND NOT EXISTS (SELECT FROM score s WHERE s.id = p.id)`},
		{"an action has an episode and a stored result", `
			SELECT format('action %s of episode %s of run %s has no %s', a.step, encode(a.episode, 'hex'), a.run,
				CASE WHEN e.id IS NULL THEN 'episode' ELSE 'pair' END)
			FROM action a
			LEFT JOIN episode e ON e.run = a.run AND e.id = a.episode
			LEFT JOIN pair p ON p.key = a.key AND p.result = a.result
			WHERE e.id IS NULL OR p.key IS NULL`},
		{"the keys of a run's actions are its pairs, each once", `
			SELECT format('key %s of run %s is in %s', encode(coalesce(a.key, m.key), 'hex'), coalesce(a.run, m.run),
				CASE WHEN m.key IS NULL THEN 'an action, but no member' ELSE 'the run, but in no action' END)
			FROM (SELECT DISTINCT run, key FROM action) a
			FULL JOIN run_pair m ON m.run = a.run AND m.key = a.key
			WHERE a.key IS NULL OR m.key IS NULL`},
		{"a member has its result", `
			SELECT format('pair %s of run %s has no result', encode(m.key, 'hex'), m.run)
			FROM run_pair m LEFT JOIN pair p ON p.key = m.key AND p.result = m.result WHERE p.key IS NULL`},
		{"a stored pair belongs to a run", `
			SELECT format('pair %s belongs to no run', encode(p.key, 'hex'))
			FROM pair p WHERE NOT EXISTS (SELECT FROM action a WHERE a.key = p.key AND a.result = p.result)
				AND NOT EXISTS (SELECT FROM dropped_pair d WHERE d.key = p.key AND d.result = p.result)`},
		{"two results of one key are a known conflict, or an outage", `
			SELECT format('key %s has two results, %s and %s, and no conflict says so', encode(p.key, 'hex'), encode(p.result, 'hex'), encode(o.result, 'hex'))
			FROM pair p JOIN pair o ON o.key = p.key AND o.result > p.result
			WHERE NOT p.outage AND NOT o.outage AND NOT EXISTS (
				SELECT FROM audit_conflict c WHERE c.key = p.key AND c.result IN (p.result, o.result) AND c.stored IN (p.result, o.result))
				AND NOT EXISTS (SELECT FROM dropped_pair d WHERE d.key = p.key)`},
		{"a pair's bodies are there", `
			SELECT format('body %s of pair %s is missing', encode(b.digest, 'hex'), encode(p.key, 'hex'))
			FROM pair p
			CROSS JOIN LATERAL (VALUES (p.arguments), (p.prompt), (p.rehearsal), (p.state_block), (p.recorded), (p.observation), (p.twin)) AS b (digest)
			WHERE b.digest IS NOT NULL AND NOT EXISTS (SELECT FROM body s WHERE s.digest = b.digest)
				AND NOT EXISTS (SELECT FROM dropped_pair d WHERE d.key = p.key)`},
		{"a body is what its digest says", `
			SELECT format('body %s of run %s holds other bytes', encode(digest, 'hex'), run)
			FROM body WHERE NOT truncated AND sha256(content) <> digest`},
		{"rollups, counters, cells and leaves belong to a run", `
			SELECT format('%s rows of run %s, which does not exist', what, run)
			FROM (SELECT 'rollup' AS what, run FROM rollup UNION SELECT 'counter', run FROM counter UNION SELECT 'cell', run FROM cell UNION SELECT 'leaf', run FROM leaf
				UNION SELECT 'outbox', run FROM outbox UNION SELECT 'action', run FROM action UNION SELECT 'body', run FROM body) AS t
			WHERE NOT EXISTS (SELECT FROM run r WHERE r.id = t.run)`},
		{"a run's progress is that of its members", `
			SELECT format('progress of run %s says %s pairs, %s masked; there are %s, %s', coalesce(p.run, m.run),
				coalesce(p.pairs, 0), coalesce(p.masked, 0), coalesce(m.pairs, 0), coalesce(m.masked, 0))
			FROM (SELECT run, sum(pairs) AS pairs, sum(masked) AS masked FROM progress GROUP BY run) p
			FULL JOIN (SELECT run, count(*) AS pairs, count(*) FILTER (WHERE masked <> '') AS masked FROM run_pair GROUP BY run) m USING (run)
			WHERE (p.pairs, p.masked) IS DISTINCT FROM (m.pairs, m.masked)`},
		{"a kind of difference keeps as many samples as it has pairs, at most five", `
			SELECT format('leaf %s of run %s has %s pairs and %s samples', l.id, l.run, l.pairs, count(s.slot))
			FROM leaf l LEFT JOIN leaf_sample s ON s.leaf = l.id
			GROUP BY l.id HAVING count(s.slot) > least(l.pairs, 5)
				OR (count(s.slot) < least(l.pairs, 5) AND NOT EXISTS (SELECT FROM mark_run x WHERE x.run = l.run))`},
		{"a call without a number that was judged is excused by a mark, and no other is", `
			SELECT format('call %s of run %s is masked as %s', encode(m.key, 'hex'), m.run, m.masked)
			FROM run_pair m JOIN pair p ON p.key = m.key AND p.result = m.result
			LEFT JOIN excused x ON x.run = m.run AND x.key = m.key
			WHERE (m.masked <> p.masked) <> (x.key IS NOT NULL)`},
	}
}

// Verify recounts everything in one snapshot and reports what does not add up.
// The error is only for a ledger that cannot be read. It may run beside
// commits; it costs a scan of every table.
func (l *Ledger) Verify(ctx context.Context) (Report, error) {
	var report Report
	err := retry(ctx, l.config.Retries, func() error {
		report = Report{}
		tx, err := l.pool.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly})
		if err != nil {
			return fmt.Errorf("verify: begin: %w", err)
		}
		defer rollback(ctx, tx)
		if err := report.totals(ctx, tx); err != nil {
			return err
		}
		for _, c := range checks() {
			rows, err := tx.Query(ctx, c.sql)
			if err != nil {
				return fmt.Errorf("verify that %s: %w", c.claim, err)
			}
			findings, err := pgx.CollectRows(rows, pgx.RowTo[string])
			if err != nil {
				return fmt.Errorf("verify that %s: %w", c.claim, err)
			}
			report.Findings = append(report.Findings, findings...)
		}
		return l.recount(ctx, tx, &report)
	})
	return report, infrastructure(err)
}

func (r *Report) totals(ctx context.Context, tx pgx.Tx) error {
	err := tx.QueryRow(ctx, `
		SELECT (SELECT count(*) FROM run), count(*), count(*) FILTER (WHERE state = 'open'), count(*) FILTER (WHERE state = 'dead'),
			count(*) FILTER (WHERE state = 'undetermined'), coalesce(sum(samples), 0), (SELECT count(*) FROM action),
			(SELECT count(*) FROM run_pair), (SELECT count(*) FROM body), coalesce(sum(duplicates), 0), coalesce(sum(late), 0),
			(SELECT count(*) FROM audit_conflict), (SELECT count(*) FROM outbox WHERE published_at IS NULL)
		FROM episode`).Scan(&r.Runs, &r.Episodes, &r.Open, &r.Dead, &r.Undetermined, &r.Samples, &r.Results, &r.Pairs, &r.Bodies,
		&r.Duplicates, &r.Late, &r.Conflicts, &r.Unpublished)
	if err != nil {
		return fmt.Errorf("verify totals: %w", err)
	}
	return nil
}
