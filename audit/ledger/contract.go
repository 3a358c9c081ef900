package ledger

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"understudy/audit"
)

var _ audit.ContractSource = (*Ledger)(nil)

// SaveContract keeps the outcome of an environment's contract test. The time is
// the ledger's own.
func (l *Ledger) SaveContract(ctx context.Context, c audit.Contract) error {
	c.Checked = time.Time{}
	document, err := json.Marshal(c)
	if err != nil {
		return fmt.Errorf("encode the contract of %s: %w", c.Ref, err)
	}
	_, err = l.pool.Exec(ctx, `
		INSERT INTO environment_contract (ref, digest, adapter, failed, document) VALUES ($1, $2, $3, $4, $5)`,
		label(c.Ref), c.Environment.Digest.String(), label(c.Adapter), c.Failed(), string(document))
	if err != nil {
		return fmt.Errorf("save the contract of %s: %w", c.Ref, err)
	}
	return nil
}

// Contracts lists the last contract of every environment, by name.
func (l *Ledger) Contracts(ctx context.Context) ([]audit.Contract, error) {
	rows, err := l.pool.Query(ctx, `
		SELECT DISTINCT ON (ref) document, checked_at FROM environment_contract ORDER BY ref, id DESC`)
	if err != nil {
		return nil, fmt.Errorf("list contracts: %w", err)
	}
	all, err := pgx.CollectRows(rows, scanContract)
	if err != nil {
		return nil, fmt.Errorf("list contracts: %w", err)
	}
	return all, nil
}

// Contract is the last contract of an environment.
func (l *Ledger) Contract(ctx context.Context, ref string) (audit.Contract, error) {
	rows, err := l.pool.Query(ctx, `
		SELECT document, checked_at FROM environment_contract WHERE ref = $1 ORDER BY id DESC LIMIT 1`, label(ref))
	if err != nil {
		return audit.Contract{}, fmt.Errorf("read the contract of %s: %w", ref, err)
	}
	c, err := pgx.CollectExactlyOneRow(rows, scanContract)
	return c, notFound(err, fmt.Sprintf("a contract of environment %q", ref), "it is tested when the environment is first used: understudy audit, or understudy sandbox contract "+ref+" --save")
}

func scanContract(row pgx.CollectableRow) (c audit.Contract, err error) {
	var document string
	var checked time.Time
	if err := row.Scan(&document, &checked); err != nil {
		return c, err
	}
	err = json.Unmarshal([]byte(document), &c)
	c.Checked = checked
	return c, err
}
