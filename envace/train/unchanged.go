package train

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"understudy/audit"
)

// evaluationChangesNothing digests the parameters of the last checkpoint before and
// after another evaluation.
func (d Dry) evaluationChangesNothing(ctx context.Context, c Config, report *DryReport) (err error) {
	t, err := Open(ctx, c, d.Runtime)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.Close()) }()
	digest := func(name string) (audit.Digest, error) {
		folder := filepath.Join(d.Runtime.Out, name)
		if err := t.Save(folder); err != nil {
			return audit.Digest{}, err
		}
		return digestFolder(folder)
	}
	if report.Before, err = digest("before"); err != nil {
		return err
	}
	if _, err = t.Evaluate(ctx); err != nil {
		return err
	}
	if report.After, err = digest("after"); err != nil {
		return err
	}
	if report.Before != report.After {
		return errors.New("the evaluation changed parameters, moments or draws")
	}
	return nil
}

// digestFolder is over the names and the contents of all files below a folder.
func digestFolder(folder string) (audit.Digest, error) {
	h := sha256.New()
	err := filepath.WalkDir(folder, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(folder, path)
		fmt.Fprintf(h, "%d %s %d ", len(name), name, len(text))
		h.Write(text)
		return err
	})
	if err != nil {
		return audit.Digest{}, fmt.Errorf("digest %s: %w", folder, err)
	}
	return audit.Digest(h.Sum(nil)), nil
}
