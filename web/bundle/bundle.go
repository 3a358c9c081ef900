// Package bundle writes the dashboard's pages of one run into a folder: a site
// that opens from the disk, with relative links, without a server and without a
// script. It asks the dashboard's own handler for its pages and follows their
// links, so that what is written is what is served.
//
//	crawl.go    which pages, in what order, and where it stops
//	sense.go    what a page says, so that nothing is there twice, or says nothing
//	rewrite.go  a served page made a file
//
// It is bounded: a run of a million calls has as many pages. What was left out
// is counted, said on every page, and its links are plain text.
package bundle

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"understudy/audit"
)

// Config says what is written.
type Config struct {
	Handler  http.Handler // of the dashboard; everything that it shows is public afterwards
	Run      string
	Dir      string // is made; must be empty
	MaxPages int    // default 1000
	MaxBytes int64  // of all files together; default 64 MiB
	Now      time.Time
}

func (c Config) withDefaults() Config {
	if c.MaxPages == 0 {
		c.MaxPages = 1000
	}
	if c.MaxBytes == 0 {
		c.MaxBytes = 64 << 20
	}
	return c
}

// Report says what was written.
type Report struct {
	Pages   int
	Files   int // pages, the style sheet, pictures
	Bytes   int64
	LeftOut int // pages that links lead to and that are not in the bundle
}

// Write writes the bundle. A folder that holds anything is CodeConflict, a run
// that does not exist CodeNotFound; then nothing is written.
func Write(ctx context.Context, cfg Config) (Report, error) {
	cfg = cfg.withDefaults()
	if err := vacant(cfg.Dir); err != nil {
		return Report{}, err
	}
	c := newCrawl(cfg)
	if err := c.run(ctx); err != nil {
		return Report{}, err
	}
	if err := os.MkdirAll(cfg.Dir, 0o755); err != nil {
		return Report{}, fmt.Errorf("make the bundle's folder: %w", err)
	}
	report := Report{Pages: len(c.pages), LeftOut: len(c.leftOut)}
	write := func(name string, content []byte) error {
		report.Files++
		report.Bytes += int64(len(content))
		if err := os.WriteFile(filepath.Join(cfg.Dir, name), content, 0o644); err != nil { //nolint:gosec // a site is for everybody
			return fmt.Errorf("write the bundle: %w", err)
		}
		return nil
	}
	for _, p := range c.pages {
		if err := write(p.file, c.rewrite(p.body)); err != nil {
			return report, err
		}
	}
	for _, f := range c.files {
		if err := write(f.file, f.body); err != nil {
			return report, err
		}
	}
	return report, nil
}

// vacant refuses a folder that somebody else uses.
func vacant(dir string) error {
	entries, err := os.ReadDir(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return &audit.Error{Code: audit.CodeInvalid, Message: "the folder " + dir, Hint: "name a folder that can be made, or an empty one", Err: err}
	case len(entries) > 0:
		return &audit.Error{Code: audit.CodeConflict, Message: "the folder " + dir + " is not empty", Hint: "name a new one: the bundle is written whole"}
	}
	return nil
}
