package ledger

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"understudy/audit"
)

const (
	defaultPage = 50
	maxPage     = 1000
)

// pgxTime is a timestamp that may be NULL.
type pgxTime = *time.Time

func pageLimit(p audit.Page) int {
	if p.Limit <= 0 {
		return defaultPage
	}
	return min(p.Limit, maxPage)
}

// pageNumber reads the cursor of a descending list of numbers.
func pageNumber(after string) (int64, error) {
	if after == "" {
		return math.MaxInt64, nil
	}
	n, err := strconv.ParseInt(after, 10, 64)
	if err != nil {
		return 0, badCursor(after)
	}
	return n, nil
}

func badCursor(after string) error {
	return &audit.Error{Code: audit.CodeInvalid, Message: fmt.Sprintf("page cursor %q is not one of ours", cut(label(after), 60)), Hint: "pass the next cursor of the page before, or none"}
}

// notFound turns "no rows" into an error for people and wraps the rest.
func notFound(err error, what, hint string) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, pgx.ErrNoRows):
		return &audit.Error{Code: audit.CodeNotFound, Message: what + " does not exist", Hint: hint}
	default:
		return fmt.Errorf("read %s: %w", what, err)
	}
}
