package main_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"go.uber.org/goleak"

	"understudy/audit/leaktest"
	"understudy/audit/ledger/ledgertest"
	main "understudy/cmd/understudy"
	"understudy/sandbox/starlark"
)

// asProgram, when set, makes this test binary behave as understudy.
const asProgram = "UNDERSTUDY_TEST_PROGRAM"

var postgres ledgertest.Server

func TestMain(m *testing.M) {
	starlark.ChildMain() // a sandbox child inherits no environment
	if os.Getenv(asProgram) != "" {
		main.Execute()
	}
	if arguments := os.Getenv(asNATS); arguments != "" {
		if err := serveNATS(arguments); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(postgres.Main(m))
}

// folder is one that a dropped-to user can reach, which t.TempDir is not for root.
func folder(tb testing.TB) string {
	tb.Helper()
	dir, err := os.MkdirTemp("/tmp", "understudy-cmd-") //nolint:usetesting // see above
	if err != nil {
		tb.Fatal(err)
	}
	if err := os.Chmod(dir, 0o711); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			tb.Error(err)
		}
	})
	return dir
}

// result is what one run of the program left.
type result struct {
	status         int
	stdout, stderr string
}

// program prepares a run in dir with nothing but env in its environment.
func program(t *testing.T, dir string, env []string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], args...)
	cmd.Dir = dir
	cmd.Env = append([]string{asProgram + "=1", "PATH=" + os.Getenv("PATH"), "HOME=" + dir, "UNDERSTUDY_STOP_TIMEOUT=" + patience.String()}, env...)
	return cmd
}

func run(t *testing.T, cmd *exec.Cmd) result {
	t.Helper()
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if _, exited := errors.AsType[*exec.ExitError](err); err != nil && !exited {
		t.Fatal(err)
	}
	return result{cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()}
}

func TestMainServesAndStops(t *testing.T) {
	before := goleak.IgnoreCurrent() // the server that other tests share may be up
	cfg := main.Default()
	cfg.DataDir, cfg.Listen, cfg.StopTimeout = folder(t), "127.0.0.1:0", patience
	m := &main.Main{Config: cfg, Logger: slog.New(slog.NewTextHandler(t.Output(), nil))}
	if err := m.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/healthz", "/readyz", "/version"} {
		if status, body := get(t, m.URL()+path); status != http.StatusOK {
			t.Errorf("%s: got %d %s, want 200", path, status, body)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := errors.Join(m.Wait(ctx), m.Close(ctx), m.Close(ctx)); err != nil {
		t.Errorf("stop, twice, with a context that has ended: %v", err)
	}
	if err := leaktest.Find(before); err != nil {
		t.Error(err)
	}
}

func get(t *testing.T, url string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

func TestReadyTellsWhenTheLedgerIsGone(t *testing.T) {
	cfg := main.Default()
	cfg.DataDir, cfg.Listen, cfg.StopTimeout = folder(t), "127.0.0.1:0", patience
	m := &main.Main{Config: cfg, Logger: slog.New(slog.NewTextHandler(t.Output(), nil))}
	if err := m.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(cfg.DataDir, "postgres", "postmaster.pid"))
	if err != nil {
		t.Fatal(err)
	}
	var pid int
	if _, err := fmt.Sscan(string(text), &pid); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := m.Wait(ctx); err == nil || !strings.Contains(err.Error(), "ended by itself") {
		t.Errorf("got %v, want the lost server to be named", err)
	}
	for status := 0; status != http.StatusServiceUnavailable; status, _ = get(t, m.URL()+"/readyz") {
		if ctx.Err() != nil { // the server's last sessions answer for a moment
			t.Fatalf("got %d from /readyz without a ledger, want 503", status)
		}
	}
	if err := m.Close(t.Context()); err != nil {
		t.Errorf("close: %v", err)
	}
}

// TestKilledServiceStartsAgain kills the whole program with SIGKILL, starts it
// on the same folder, stops it in order at last, and has the ledger verified.
func TestKilledServiceStartsAgain(t *testing.T) {
	t.Parallel()
	dir := folder(t)
	args := []string{"serve", "--data-dir", filepath.Join(dir, "data"), "--listen", "127.0.0.1:0"}
	for _, sig := range []os.Signal{os.Kill, os.Kill, syscall.SIGTERM} {
		cmd := program(t, dir, nil, args...)
		stderr, err := cmd.StderrPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		var said bytes.Buffer
		buf := make([]byte, 4096)
		for !strings.Contains(said.String(), `"serving"`) {
			n, err := stderr.Read(buf)
			if err != nil {
				t.Fatalf("it did not serve: %s", said.String())
			}
			said.Write(buf[:n])
		}
		if err := cmd.Process.Signal(sig); err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(&said, stderr); err != nil {
			t.Fatal(err)
		}
		if err := cmd.Wait(); sig == syscall.SIGTERM && err != nil {
			t.Errorf("a service that is asked to stop: got %v and %s, want status 0", err, said.String())
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "data", "postgres", "postmaster.pid")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v, want PostgreSQL stopped with the service", err)
	}
	got := run(t, program(t, dir, nil, "verify", "--data-dir", filepath.Join(dir, "data")))
	if got.status != 0 {
		t.Errorf("verify after two kills: got %+v, want status 0", got)
	}
}

func TestPortTakenAndTwoPrograms(t *testing.T) {
	t.Parallel()
	var config net.ListenConfig
	taken, err := config.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	dir := folder(t)
	got := run(t, program(t, dir, nil, "serve", "--listen", taken.Addr().String()))
	if got.status != 4 || !strings.Contains(got.stderr, "cannot listen on "+taken.Addr().String()+": address already in use") {
		t.Errorf("got %+v, want status 4 and the address", got)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 0 {
		t.Errorf("got %v, %v in the folder, want nothing half-made", entries, err)
	}
}
