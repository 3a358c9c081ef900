package ledger

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"understudy/audit"
)

const selectMark = `
	SELECT k.id, coalesce(r.name::text, ''), k.key, k.kind, k.environment, k.tool, k.pattern, k.difference, k.reason, k.author,
		k.created_at, k.expires_at, k.revoked_at, (SELECT count(*) FROM excused x WHERE x.mark = k.id)
	FROM mark k LEFT JOIN run r ON r.id = k.run`

// markLives holds while a mark takes calls out of figures.
const markLives = `k.revoked_at IS NULL AND (k.expires_at IS NULL OR k.expires_at > now())`

func scanMark(row pgx.CollectableRow) (audit.Mark, error) {
	var (
		m                audit.Mark
		key              []byte
		expires, revoked pgxTime
	)
	err := row.Scan(&m.ID, &m.Run, &key, &m.Kind, &m.Environment, &m.Tool, &m.Pattern, &m.Difference, &m.Reason, &m.Author,
		&m.Created, &expires, &revoked, &m.Calls)
	if err == nil {
		m.Key = audit.Digest(key)
	}
	if expires != nil {
		m.Expires = *expires
	}
	if revoked != nil {
		m.Revoked = *revoked
	}
	return m, err
}

// Marks lists marks, newest first.
func (l *Ledger) Marks(ctx context.Context, limit int) ([]audit.Mark, error) {
	rows, err := l.pool.Query(ctx, selectMark+` ORDER BY k.id DESC LIMIT $1`, limit)
	if err != nil {
		return nil, infrastructure(err)
	}
	marks, err := pgx.CollectRows(rows, scanMark)
	return marks, infrastructure(err)
}

// marksOf are the marks that have taken a pair out of the figures, or were made on it.
func marksOf(ctx context.Context, tx pgx.Tx, run int32, p *audit.Pair) ([]audit.Mark, error) {
	rows, err := tx.Query(ctx, selectMark+`
		WHERE k.id = (SELECT mark FROM excused WHERE run = $1 AND key = $2) OR (k.run = $1 AND k.key = $2)
		ORDER BY k.id DESC`, run, p.Key[:])
	if err != nil {
		return nil, fmt.Errorf("read marks: %w", err)
	}
	return pgx.CollectRows(rows, scanMark)
}

// AddMark keeps a mark and takes the calls of its run that it excuses out of
// the run's figures, in the same transaction. It returns how many they are.
func (l *Ledger) AddMark(ctx context.Context, m audit.Mark) (int, error) {
	if m.Reason == "" {
		return 0, &audit.Error{Code: audit.CodeInvalid, Message: "the mark has no reason", Hint: "say in a few words why these calls should not count"}
	}
	run, err := l.runID(ctx, m.Run)
	if err != nil {
		return 0, infrastructure(err)
	}
	excused := 0
	err = l.inTx(ctx, "add mark", func(ctx context.Context, tx pgx.Tx) error {
		err := tx.QueryRow(ctx, `
			INSERT INTO mark (run, key, kind, environment, tool, pattern, difference, reason, author, expires_at)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) RETURNING id`,
			run, m.Key[:], string(m.Kind), label(m.Environment), label(m.Tool), label(m.Pattern), label(m.Difference), label(m.Reason), label(m.Author),
			timeOrNull(m.Expires)).Scan(&m.ID)
		if err != nil {
			return err
		}
		excused, err = l.applyMark(ctx, tx, run, &m)
		return err
	})
	return excused, infrastructure(err)
}

// RevokeMark ends a mark; its calls count again.
func (l *Ledger) RevokeMark(ctx context.Context, id int) error {
	tag, err := l.pool.Exec(ctx, `UPDATE mark SET revoked_at = now() WHERE id = $1 AND revoked_at IS NULL`, id)
	if err != nil {
		return infrastructure(fmt.Errorf("revoke mark %d: %w", id, err))
	}
	if tag.RowsAffected() == 0 {
		return &audit.Error{Code: audit.CodeNotFound, Message: fmt.Sprintf("mark %d does not exist, or was revoked before", id), Hint: "the call shows the marks that concern it"}
	}
	return l.EndMarks(ctx)
}

// ApplyMarks brings a run's figures in line with what people said: calls of ended
// marks return, and calls that came since a mark last looked leave.
func (l *Ledger) ApplyMarks(ctx context.Context, name string) error {
	if err := l.EndMarks(ctx); err != nil {
		return err
	}
	run, err := l.runID(ctx, name)
	if err != nil {
		return infrastructure(err)
	}
	return l.applyMarks(ctx, run)
}

// applyMarks takes the calls that living marks excuse out of a run's figures.
func (l *Ledger) applyMarks(ctx context.Context, run int32) error {
	rows, err := l.pool.Query(ctx, selectMark+` WHERE `+markLives+` AND (k.kind <> 'reference_wrong' OR k.run = $1) ORDER BY k.id`, run)
	if err != nil {
		return infrastructure(err)
	}
	marks, err := pgx.CollectRows(rows, scanMark)
	if err != nil {
		return infrastructure(err)
	}
	for i := range marks {
		err := l.inTx(ctx, "apply mark", func(ctx context.Context, tx pgx.Tx) error {
			_, err := l.applyMark(ctx, tx, run, &marks[i])
			return err
		})
		if err != nil {
			return infrastructure(err)
		}
	}
	return nil
}

// markOverlap is longer than a transaction of a commit lasts: what it committed
// late is still looked at.
const markOverlap = time.Minute

// applyMark takes the calls that came since the mark last looked at the run. A mark
// that looked in the future did so before the clock was set back: it looks at all.
func (l *Ledger) applyMark(ctx context.Context, tx pgx.Tx, run int32, m *audit.Mark) (int, error) {
	var through time.Time
	err := tx.QueryRow(ctx, `
		INSERT INTO mark_run AS x (mark, run, through) VALUES ($1, $2, '-infinity'::timestamptz)
		ON CONFLICT (mark, run) DO UPDATE SET through = x.through RETURNING CASE WHEN through = '-infinity' OR through > now() + $3 THEN 'epoch' ELSE through END`,
		m.ID, run, markOverlap).Scan(&through)
	if err != nil {
		return 0, fmt.Errorf("lock mark: %w", err)
	}
	where, args := ` AND m.tool = $2 AND m.committed_at > $3`, []any{run, label(m.Tool), through.Add(-markOverlap)}
	if m.Kind == audit.MarkReferenceWrong {
		where, args = ` AND m.key = $2`, []any{run, m.Key[:]}
	}
	var taken []member // of a tool's many calls
	err = eachMember(ctx, tx, leaveToVerify, func(at member) {
		if m.Excuses(at.pair) {
			taken = append(taken, at)
		}
	}, where+` AND m.masked = '' FOR UPDATE OF m`, args...)
	if err != nil {
		return 0, err
	}
	if _, err := tx.Exec(ctx, `UPDATE mark_run SET through = now() WHERE mark = $1 AND run = $2`, m.ID, run); err != nil {
		return 0, err
	}
	return len(taken), l.moveMembers(ctx, tx, run, taken, m)
}

// moveMembers takes pairs out of a run's counters under a mark.
func (l *Ledger) moveMembers(ctx context.Context, tx pgx.Tx, run int32, members []member, m *audit.Mark) error {
	if len(members) == 0 {
		return nil
	}
	sums := newCounts()
	keys := make([][]byte, len(members))
	for i := range members {
		keys[i] = members[i].pair.Key[:]
		sums.add(members[i])
	}
	sums.negate()
	for i := range members {
		sums.add(members[i].excused(m.Kind.Reason(), m.Reason))
	}
	batch := &pgx.Batch{}
	batch.Queue(`UPDATE run_pair SET masked = $3 WHERE run = $1 AND key = ANY($2)`, run, keys, string(m.Kind.Reason()))
	batch.Queue(`INSERT INTO excused (run, key, mark) SELECT $1, unnest($2::bytea[]), $3 ON CONFLICT DO NOTHING`, run, keys, m.ID)
	l.queueMoved(batch, run, sums, len(members), keys)
	if err := tx.SendBatch(ctx, batch).Close(); err != nil {
		return fmt.Errorf("move counters: %w", err)
	}
	return nil
}

// queueMoved moves every counter by sums that may be negative, and drops the
// examples of calls that left.
func (l *Ledger) queueMoved(batch *pgx.Batch, run int32, sums *counts, masked int, gone [][]byte) {
	l.queueRollups(batch, run, sums)
	queueCounters(batch, run, sums)
	queueCells(batch, run, sums)
	queueLeaves(batch, run, sums)
	batch.Queue(`DELETE FROM leaf_sample s USING leaf l WHERE l.id = s.leaf AND l.run = $1 AND s.key = ANY($2)`, run, gone)
	batch.Queue(moveProgress, run, 0, masked)
}

// excused is the same pair without a number.
func (m member) excused(reason audit.MaskReason, detail string) member {
	p := *m.pair
	p.Verdict.Excuse(reason, detail)
	m.pair, m.masked = &p, label(string(reason))
	return m
}

// EndMarks lets the calls of marks that were revoked or have expired count again,
// unless another mark excuses them, too.
func (l *Ledger) EndMarks(ctx context.Context) error {
	rows, err := l.pool.Query(ctx, `SELECT DISTINCT x.run, k.id, k.kind FROM excused x JOIN mark k ON k.id = x.mark WHERE NOT (`+markLives+`)`)
	if err != nil {
		return infrastructure(err)
	}
	type ended struct {
		Run  int32
		Mark int
		Kind audit.MarkKind
	}
	over, err := pgx.CollectRows(rows, pgx.RowToStructByPos[ended])
	if err != nil {
		return infrastructure(err)
	}
	for _, e := range over {
		err := l.inTx(ctx, "return calls", func(ctx context.Context, tx pgx.Tx) error {
			return l.returnMembers(ctx, tx, e.Run, e.Mark, e.Kind.Reason())
		})
		if err != nil {
			return infrastructure(err)
		}
	}
	slices.SortFunc(over, func(a, b ended) int { return cmp.Compare(a.Run, b.Run) })
	for _, e := range slices.CompactFunc(over, func(a, b ended) bool { return a.Run == b.Run }) {
		if err := l.applyMarks(ctx, e.Run); err != nil {
			return err
		}
	}
	return nil
}

func (l *Ledger) returnMembers(ctx context.Context, tx pgx.Tx, run int32, mark int, reason audit.MaskReason) error {
	members, err := readMembers(ctx, tx, ` AND EXISTS (SELECT FROM excused x WHERE x.run = m.run AND x.key = m.key AND x.mark = $2) FOR UPDATE OF m`, run, mark)
	if err != nil || len(members) == 0 {
		return err
	}
	sums := newCounts()
	keys := make([][]byte, len(members))
	for i := range members {
		keys[i] = members[i].pair.Key[:]
		sums.add(members[i].excused(reason, ""))
	}
	sums.negate()
	for i := range members {
		members[i].masked = ""
		sums.add(members[i])
	}
	batch := &pgx.Batch{}
	batch.Queue(`UPDATE run_pair SET masked = '' WHERE run = $1 AND key = ANY($2)`, run, keys)
	batch.Queue(`DELETE FROM excused WHERE run = $1 AND key = ANY($2)`, run, keys)
	batch.Queue(`UPDATE mark_run SET through = '-infinity' WHERE run = $1`, run) // other marks look at them again
	l.queueMoved(batch, run, sums, -len(members), nil)
	if err := tx.SendBatch(ctx, batch).Close(); err != nil {
		return fmt.Errorf("move counters: %w", err)
	}
	return nil
}
