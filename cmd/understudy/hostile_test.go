package main_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"understudy/audit"
	main "understudy/cmd/understudy"
)

var update = flag.Bool("update", false, "write the table of hostile input into web/SECURITY.md anew")

// The table of hostile input lies between these lines.
const (
	securityFile = "../../web/SECURITY.md"
	tableBegin   = "<!-- hostile input: written by go test ./cmd/understudy -run HostileInput -update -->\n"
	tableEnd     = "<!-- end of hostile input -->\n"
	// patience is for the slowest machine: nothing that works waits for it. A row that
	// waits for a pipe waits for ever.
	patience = 5 * time.Minute
)

// hostileRow is one input and how it is given to the program.
type hostileRow struct {
	where, input string
	give         func(w *hostileWorld) (status int, said string)
}

// hostileWorld is where the rows play: a folder, a database, a service.
type hostileWorld struct {
	t        *testing.T
	dir      string
	database string
	model    string // a tiny one, to be broken
	service  *main.Main
}

// TestHostileInput gives the program what nobody should: the outcome of each row is
// what web/SECURITY.md says, nothing hangs, nothing is our own fault, and each
// refusal says what to do. Review the table when you write it anew.
func TestHostileInput(t *testing.T) {
	t.Parallel()
	w := newHostileWorld(t)
	var table strings.Builder
	table.WriteString("\n| where | input | outcome |\n|-|-|-|\n")
	for _, row := range hostileRows() {
		status, said := w.within(row)
		if strings.HasPrefix(row.where, "HTTP") && status >= 500 || status < 100 && status != 0 && status != 3 && status != 4 {
			t.Errorf("%s, %s: got %d %s: that is no refusal", row.where, row.input, status, said)
		}
		if (status == 3 || status == 4) && !strings.Contains(said, "hint: ") || status >= 400 && !strings.Contains(said, `"hint"`) {
			t.Errorf("%s, %s: got %d %s, which does not say what to do", row.where, row.input, status, said)
		}
		fmt.Fprintf(&table, "| %s | %s | %s |\n", row.where, row.input, w.outcome(status, said))
	}
	table.WriteByte('\n')
	text, err := os.ReadFile(securityFile)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, begun := strings.Cut(string(text), tableBegin)
	have, after, ended := strings.Cut(rest, tableEnd)
	if !begun || !ended {
		t.Fatalf("%s has no place for the table", securityFile)
	}
	if *update {
		if err := os.WriteFile(securityFile, []byte(before+tableBegin+table.String()+tableEnd+after), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	for line := range strings.SplitSeq(table.String(), "\n") {
		if !strings.Contains(have, line+"\n") {
			t.Errorf("the outcome has changed; see -update:\n%s", line)
		}
	}
	if strings.Count(have, "\n") != strings.Count(table.String(), "\n") {
		t.Errorf("the table has %d lines, want %d", strings.Count(have, "\n"), strings.Count(table.String(), "\n"))
	}
}

func newHostileWorld(t *testing.T) *hostileWorld {
	t.Helper()
	w := &hostileWorld{t: t, dir: folder(t), database: postgres.URL(t), model: modelFolder(t)}
	cfg, err := main.LoadConfig(map[string]string{"data-dir": filepath.Join(w.dir, "data"), "database-url": w.database, "listen": "127.0.0.1:0", "stop-timeout": patience.String()}, nil)
	if err != nil {
		t.Fatal(err)
	}
	w.service = &main.Main{Config: cfg, Logger: slog.New(slog.DiscardHandler)}
	if err := w.service.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.service.Close(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	return w
}

// within gives a row, but does not wait for ever.
func (w *hostileWorld) within(row hostileRow) (status int, said string) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		status, said = row.give(w)
	}()
	select {
	case <-done:
		return status, said
	case <-time.After(patience):
		w.t.Fatalf("%s, %s: no outcome within %s", row.where, row.input, patience)
		return 0, ""
	}
}

// outcome is a status and the first line that was said, without what differs from
// run to run.
func (w *hostileWorld) outcome(status int, said string) string {
	if status >= 100 {
		var report audit.ErrorReport
		if json.Unmarshal([]byte(said), &report) == nil && report.Error.Code != "" {
			said = string(report.Error.Code) + ": " + report.Error.Message
		} else {
			said = ""
		}
		said = fmt.Sprintf("%d %s", status, said)
	} else {
		first, _, _ := strings.Cut(strings.TrimPrefix(said, "understudy: "), "\n")
		said = fmt.Sprintf("exit %d %s", status, first)
	}
	said = strings.ReplaceAll(said, w.dir, "DIR")
	said = regexp.MustCompile(`127\.0\.0\.1:[0-9]+|[0-9a-f]{16,}|test_[0-9]+`).ReplaceAllString(said, "…")
	const most = 140
	if r := []rune(said); len(r) > most {
		said = string(r[:most]) + "…"
	}
	return "`" + strings.NewReplacer("|", "¦", "`", "'", "\n", " ").Replace(strings.TrimSpace(said)) + "`"
}

// write makes a file of the world's folder.
func (w *hostileWorld) write(name, text string) string {
	path := filepath.Join(w.dir, name)
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o600)); err != nil {
		w.t.Error(err)
	}
	return path
}

// command runs the program on the world's database.
func (w *hostileWorld) command(args ...string) (int, string) {
	args = append(args, "--database-url", w.database, "--data-dir", filepath.Join(w.dir, "data"))
	status, stdout, stderr := main.Invoke(w.t.Context(), nil, "", args...)
	if status == 0 {
		return status, stdout
	}
	return status, stderr
}

// request asks the service.
func (w *hostileWorld) request(method, path, body string) (int, string) {
	req, err := http.NewRequestWithContext(w.t.Context(), method, w.service.URL()+path, strings.NewReader(body))
	if err != nil {
		w.t.Error(err)
		return 0, err.Error()
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := client.Do(req)
	if err != nil {
		w.t.Error(err)
		return 0, err.Error()
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		w.t.Error(err)
	}
	return res.StatusCode, string(text)
}

const (
	nested = 100_000
	many   = 1_000_000
)
