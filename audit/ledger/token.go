package ledger

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"understudy/audit"
)

// AddToken keeps a new token by the hash of its text. A name that a live token
// has is CodeConflict.
func (l *Ledger) AddToken(ctx context.Context, t audit.Token, hash audit.Digest) error {
	if t.Name == "" || label(t.Name) != t.Name {
		return &audit.Error{Code: audit.CodeInvalid, Message: fmt.Sprintf("token name %q cannot be used", cut(label(t.Name), 60)), Hint: "name who or what holds it, in at most 200 bytes"}
	}
	_, err := l.pool.Exec(ctx, `INSERT INTO token (name, role, hash, expires_at) VALUES ($1, $2, $3, $4)`, t.Name, string(t.Role), hash[:], timeOrNull(t.Expires))
	if e, ok := errors.AsType[*pgconn.PgError](err); ok && e.Code == "23505" {
		return &audit.Error{Code: audit.CodeConflict, Message: fmt.Sprintf("a token for %q exists", t.Name), Hint: "revoke it first, or choose another name", Err: err}
	}
	if err != nil {
		return fmt.Errorf("add token: %w", err)
	}
	return nil
}

// RevokeToken ends a token and its sessions.
func (l *Ledger) RevokeToken(ctx context.Context, name string) error {
	return l.inTx(ctx, "revoke token", func(ctx context.Context, tx pgx.Tx) error {
		var id int
		err := tx.QueryRow(ctx, `UPDATE token SET revoked_at = now() WHERE name = $1 AND revoked_at IS NULL RETURNING id`, label(name)).Scan(&id)
		if err != nil {
			return notFound(err, fmt.Sprintf("a live token for %q", name), "list them: understudy token list")
		}
		_, err = tx.Exec(ctx, `DELETE FROM session WHERE token = $1`, id)
		return err
	})
}

// Tokens lists tokens, newest first, revoked ones included.
func (l *Ledger) Tokens(ctx context.Context) ([]audit.Token, error) {
	rows, err := l.pool.Query(ctx, `SELECT `+tokenColumns+` FROM token t ORDER BY t.id DESC LIMIT 1000`)
	if err != nil {
		return nil, fmt.Errorf("list tokens: %w", err)
	}
	return pgx.CollectRows(rows, scanToken)
}

// HasToken reports whether a token was ever made: one that has expired or was revoked
// must not open the door that the first one closed.
func (l *Ledger) HasToken(ctx context.Context) (bool, error) {
	var has bool
	err := l.pool.QueryRow(ctx, `SELECT EXISTS (SELECT FROM token)`).Scan(&has)
	return has, infrastructure(err)
}

// Token finds a live token by the hash of its text, or is CodeUnauthorized.
func (l *Ledger) Token(ctx context.Context, hash audit.Digest) (audit.Token, error) {
	return l.tokenWhere(ctx, `FROM token t WHERE t.hash = $1 AND `+liveToken, hash)
}

// Session finds the live token behind a live session, or is CodeUnauthorized.
func (l *Ledger) Session(ctx context.Context, session audit.Digest) (audit.Token, error) {
	return l.tokenWhere(ctx, `FROM session s JOIN token t ON t.id = s.token WHERE s.hash = $1 AND s.expires_at > now() AND `+liveToken, session)
}

// OpenSession lets the holder of a token in by another secret until it expires.
// Sessions that have expired go on the way.
func (l *Ledger) OpenSession(ctx context.Context, session audit.Digest, token int, expires time.Time) error {
	_, err := l.pool.Exec(ctx, `
		WITH expired AS (DELETE FROM session WHERE expires_at < now())
		INSERT INTO session (hash, token, expires_at) VALUES ($1, $2, $3)`, session[:], token, expires)
	return infrastructure(err)
}

// CloseSession ends a session.
func (l *Ledger) CloseSession(ctx context.Context, session audit.Digest) error {
	_, err := l.pool.Exec(ctx, `DELETE FROM session WHERE hash = $1`, session[:])
	return infrastructure(err)
}

const (
	tokenColumns = `t.id, t.name::text, t.role, t.created_at, t.expires_at, t.revoked_at`
	liveToken    = `t.revoked_at IS NULL AND (t.expires_at IS NULL OR t.expires_at > now())`
)

func (l *Ledger) tokenWhere(ctx context.Context, from string, hash audit.Digest) (audit.Token, error) {
	rows, err := l.pool.Query(ctx, `SELECT `+tokenColumns+` `+from, hash[:])
	if err != nil {
		return audit.Token{}, infrastructure(err)
	}
	t, err := pgx.CollectExactlyOneRow(rows, scanToken)
	if errors.Is(err, pgx.ErrNoRows) {
		return t, &audit.Error{Code: audit.CodeUnauthorized, Message: "the token is unknown, revoked or expired", Hint: "an admin makes one: understudy token add NAME --role reader"}
	}
	return t, infrastructure(err)
}

func scanToken(row pgx.CollectableRow) (audit.Token, error) {
	var (
		t                audit.Token
		expires, revoked pgxTime
	)
	err := row.Scan(&t.ID, &t.Name, &t.Role, &t.Created, &expires, &revoked)
	if expires != nil {
		t.Expires = *expires
	}
	if revoked != nil {
		t.Revoked = *revoked
	}
	return t, err
}

// timeOrNull is t for a column that takes NULL for "never".
func timeOrNull(t time.Time) pgxTime {
	if t.IsZero() {
		return nil
	}
	return &t
}
