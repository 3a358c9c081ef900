package main_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"understudy/audit"
)

// count is what became of the actions of some rounds.
type count struct {
	Actions, Results, Masked, Dead, Open int
	Lost, Doubled, Wrong                 int
	Duplicates, Late                     int // absorbed by the ledger
}

func (n *count) add(m count) {
	n.Actions += m.Actions
	n.Results += m.Results
	n.Masked += m.Masked
	n.Dead += m.Dead
	n.Open += m.Open
	n.Lost += m.Lost
	n.Doubled += m.Doubled
	n.Wrong += m.Wrong
	n.Duplicates += m.Duplicates
	n.Late += m.Late
}

// judged is a row of the ledger: an episode with one of its actions, if it has any.
type judged struct {
	Episode  string
	State    string
	Letters  int
	Repeats  int // how often it was finished again
	Late     int
	Step     *int
	Severity *int
	Masked   *string
}

// count compares the ledger with what the round asked for: the ledger's own
// verify knows what belongs together, this knows what was sent. What is wrong
// comes back in words.
func (c *chaos) count(ctx context.Context, w *work) (n count, faults []string, err error) {
	rows, err := c.pool.Query(ctx, `
		SELECT e.name, e.state, (SELECT count(*) FROM dead_letter d WHERE d.run = e.run AND d.episode = e.id AND d.revived_at IS NULL),
			e.duplicates, e.late, a.step, p.severity::integer, p.masked::text
		FROM run r JOIN episode e ON e.run = r.id
		LEFT JOIN action a ON a.run = e.run AND a.episode = e.id
		LEFT JOIN pair p ON p.key = a.key AND p.result = a.result
		WHERE r.name = $1`, w.run)
	if err != nil {
		return n, nil, err
	}
	all, err := pgx.CollectRows(rows, pgx.RowToStructByPos[judged])
	if err != nil {
		return n, nil, err
	}
	byEpisode := map[string][]judged{}
	for _, row := range all {
		byEpisode[row.Episode] = append(byEpisode[row.Episode], row)
	}
	for _, name := range slices.Sorted(maps.Keys(w.expected)) {
		m, said := w.countEpisode(name, byEpisode[name])
		n.add(m)
		faults = append(faults, said...)
		delete(byEpisode, name)
	}
	for name := range byEpisode {
		n.Doubled++
		faults = append(faults, fmt.Sprintf("episode %q was sent by nobody", name))
	}
	return n, faults, nil
}

func (w *work) countEpisode(name string, rows []judged) (n count, faults []string) {
	expected := w.expected[name]
	n.Actions = len(expected)
	fault := func(field *int, by int, format string, args ...any) {
		*field += by
		faults = append(faults, fmt.Sprintf("episode %q: ", name)+fmt.Sprintf(format, args...))
	}
	if len(rows) == 0 {
		fault(&n.Lost, len(expected), "is not in the ledger")
		return n, faults
	}
	n.Duplicates, n.Late = rows[0].Repeats, rows[0].Late
	state, letters := rows[0].State, rows[0].Letters
	seen := map[int]int{}
	for _, row := range rows {
		if row.Step != nil {
			seen[*row.Step]++
		}
	}
	given := state == "dead" || state == "undetermined"
	switch {
	case given != (letters == 1) || letters > 1:
		fault(&n.Doubled, 1, "is %s with %d letters", state, letters)
	case given && len(seen) > 0:
		fault(&n.Doubled, len(seen), "is %s and has results", state)
	case given:
		n.Dead += len(expected)
		if !slices.ContainsFunc(expected, func(e expectation) bool { return e.dead }) {
			fault(&n.Wrong, len(expected), "was given up")
		}
		return n, faults
	case state == "open":
		n.Open += len(expected)
		return n, faults
	}
	for step := range expected {
		switch got := seen[step]; {
		case got == 0:
			fault(&n.Lost, 1, "action %d of a %s episode has no result", step, state)
		case got > 1:
			fault(&n.Doubled, got-1, "action %d has %d results", step, got)
		}
	}
	for _, row := range rows {
		if row.Step == nil {
			continue
		}
		if *row.Step >= len(expected) {
			fault(&n.Doubled, 1, "has an action %d that nobody sent", *row.Step)
			continue
		}
		n.Results++
		want, masked := expected[*row.Step], row.Masked != nil && *row.Masked != ""
		if masked {
			n.Masked++
		}
		switch {
		case want.any:
		case masked && !want.masked:
			fault(&n.Wrong, 1, "action %d is masked as %s", *row.Step, *row.Masked)
		case !masked && row.Severity == nil:
			fault(&n.Wrong, 1, "action %d is not judged, want %v", *row.Step, want.severity)
		case !masked && audit.Severity(*row.Severity) != want.severity:
			fault(&n.Wrong, 1, "action %d is judged %v, want %v", *row.Step, audit.Severity(*row.Severity), want.severity)
		}
	}
	return n, faults
}

// countPaid compares the ledger with what the payees were told.
func (c *chaos) countPaid(ctx context.Context, w *work, paid payment) (n count, faults []string, err error) {
	fault := func(field *int, by int, format string, args ...any) {
		*field += by
		faults = append(faults, fmt.Sprintf(format, args...))
	}
	var stored int
	if err := c.pool.QueryRow(ctx, `SELECT count(*) FROM score s JOIN run r ON r.id = s.run WHERE r.name = $1`, "paid-"+w.run).Scan(&stored); err != nil {
		return n, nil, err
	}
	for _, b := range w.batches {
		n.Actions += len(b.Outputs)
	}
	n.Results = min(stored, n.Actions)
	if stored > n.Actions {
		fault(&n.Doubled, stored-n.Actions, "%d payees of %d outputs", stored, n.Actions)
	}
	if missing := n.Actions - min(stored, len(paid)); missing > 0 {
		fault(&n.Lost, missing, "%d outputs, %d were answered, %d are in the ledger", n.Actions, len(paid), stored)
	}
	for _, r := range paid {
		switch {
		case r.Status != audit.RewardScored || r.Phi == nil:
			fault(&n.Wrong, 1, "%s is %s: %s %s", r.Episode, r.Status, r.Reason, r.Detail)
		case w.lies[r.Episode] != r.FalseSuccess, !w.lies[r.Episode] && *r.Phi != 1, w.lies[r.Episode] && *r.Phi != 0:
			fault(&n.Wrong, 1, "%s is paid %v, false success %v", r.Episode, *r.Phi, r.FalseSuccess)
		}
	}
	return n, faults, nil
}

// settled waits until no job of the ledger is open and nothing is unpublished.
func (c *chaos) settled(ctx context.Context) error {
	return insist(ctx, "drain", func() error {
		var open, unpublished int
		err := c.pool.QueryRow(ctx, `SELECT (SELECT count(*) FROM episode WHERE state = 'open'), (SELECT count(*) FROM outbox WHERE published_at IS NULL)`).Scan(&open, &unpublished)
		if err == nil && open+unpublished > 0 {
			err = fmt.Errorf("%d episodes are open, %d messages unpublished", open, unpublished)
		}
		return err
	})
}

// verified runs the code of `understudy verify`. While servers are down it cannot,
// which is no finding.
func (c *chaos) verified(ctx context.Context) error {
	report, err := c.ledger.Verify(ctx)
	if err != nil {
		return nil //nolint:nilerr // nobody can recount a ledger that does not answer
	}
	return report.Err()
}

func joined(faults []string) error {
	if len(faults) == 0 {
		return nil
	}
	return errors.New(strings.Join(faults, "\n"))
}
