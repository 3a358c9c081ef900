package main_test

import (
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"understudy/audit"
	main "understudy/cmd/understudy"
)

// A policy that has learned version 1 by heart does not notice later ones.
func TestAcrossVersions(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	old := world(t, "retail@1")
	url := modelServer(t, func(calls []audit.Call) (string, int) {
		answers := replay(t, old, calls...)
		return answers[len(answers)-1], http.StatusOK
	})
	d.says(d.do(3, "audit", "--across-versions", "--environment", "retail@1"), "needs an environment and a policy", "hint: understudy audit")
	out := d.do(0, "audit", "--across-versions", "--environment", "retail@1", "--policy", url, "--tasks", "12", "--run", "parrot")
	d.says(out, "version", "retail@2", "100.0 [", "parrot/retail@2", "retail@3", "stale =")
	if rungs, _ := d.ladder("parrot/retail@1"); rungs[0] == 0 || rungs[3]+rungs[4]+rungs[5] > 0 {
		t.Errorf("got ladder %v on the version that the policy knows, want exact answers", rungs)
	}
	if rungs, _ := d.ladder("parrot/retail@2"); rungs[3]+rungs[4]+rungs[5] == 0 {
		t.Errorf("got ladder %v on a version that the policy does not know, want errors", rungs)
	}
}

// Commands that audit nothing work beside a running service; others say who is
// in the way.
func TestBesideARunningService(t *testing.T) {
	t.Parallel()
	dir := folder(t)
	cfg := main.Default()
	cfg.DataDir, cfg.Listen, cfg.StopTimeout = filepath.Join(dir, "data"), "127.0.0.1:0", patience
	m := &main.Main{Config: cfg, Logger: slog.New(slog.DiscardHandler)}
	if err := m.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	d := &desk{t, dir, map[string]string{"UNDERSTUDY_DATA_DIR": cfg.DataDir, "UNDERSTUDY_LOG_LEVEL": "warn"}}
	calls := []audit.Call{{Tool: "get_user", Arguments: json.RawMessage(`{"user":"U1"}`)}}
	path := d.write("chat.jsonl", chatLine("e", calls, replay(t, world(t, "retail-mini@1"), calls...))+"\n")
	d.says(d.do(0, "report"), "no run yet", "understudy audit")
	d.says(d.do(0, "import", path, "--environment", "retail-mini@1", "--run", "beside"), "queued as run beside")
	d.says(d.do(0, "report"), "RUN", "RESULTS", "beside", "open")
	d.says(d.do(0, "report", "--format", "json"), `"name": "beside"`)
	d.says(d.do(3, "report", "besides"), `run "besides" does not exist`, "understudy report lists")
	d.says(d.do(0, "report", "beside"), "no call has a verdict yet", "1 open")
	d.do(0, "verify")
	d.says(d.do(4, "audit", "--run", "beside"), "in use by process", "hint: ", "import, report, gate, verify")
	if err := errors.Join(m.Close(t.Context())); err != nil {
		t.Fatal(err)
	}
	d.says(d.do(0, "audit", "--run", "beside"), "get_user", "1 scored")
}

// A worker of its own audits what another process queued, over shared servers, and
// shows how it does.
func TestWorkerProcess(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	ns, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: -1, JetStream: true, StoreDir: t.TempDir(), NoSigs: true})
	if err != nil {
		t.Fatal(err)
	}
	ns.Start()
	t.Cleanup(func() { ns.Shutdown(); ns.WaitForShutdown() })
	if !ns.ReadyForConnections(patience) {
		t.Fatal("the NATS server does not start")
	}
	calls := []audit.Call{{Tool: "get_user", Arguments: json.RawMessage(`{"user":"U1"}`)}, {Tool: "get_user", Arguments: json.RawMessage(`{"user":"U2"}`)}}
	path := d.write("chat.jsonl", chatLine("e", calls, replay(t, world(t, "retail-mini@1"), calls...))+"\n")
	d.do(0, "import", path, "--environment", "retail-mini@1", "--run", "shared")
	var env []string
	for name, value := range d.env {
		env = append(env, name+"="+value)
	}
	worker := program(t, d.dir, env, "worker", "--nats-url", ns.ClientURL(), "--metrics", "127.0.0.1:0", "--log-level", "info")
	stderr := &lockedBuffer{}
	worker.Stderr = stderr
	if err := worker.Start(); err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(patience)
	for !strings.Contains(d.do(0, "report", "shared"), "2 results: 2 scored") {
		if time.Now().After(deadline) {
			t.Fatalf("the worker does not audit: %s", stderr.String())
		}
	}
	showing := regexp.MustCompile(`"msg":"showing metrics","url":"(http://127\.0\.0\.1:\d+)/metrics"`)
	found := showing.FindStringSubmatch(stderr.String())
	for ; found == nil && time.Now().Before(deadline); found = showing.FindStringSubmatch(stderr.String()) {
		time.Sleep(time.Millisecond) // what it said may be on its way
	}
	if found == nil {
		t.Fatalf("the log does not say where metrics are:\n%s", stderr)
	}
	showsMetrics(t, found[1])
	if err := worker.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := worker.Wait(); err != nil {
		t.Errorf("a worker that is asked to stop: %v: %s", err, stderr.String())
	}
	said := stderr.String()
	if n := strings.Count(said, `"msg":"batch committed","run":"shared","jobs":1,"actions":2,`); n != 1 || strings.Count(said, "get_user") != 0 {
		t.Errorf("%d lines of one batch of two actions, want 1 and none an action:\n%s", n, said)
	}
}

// showsMetrics asks a worker for what it did.
func showsMetrics(t *testing.T, at string) {
	t.Helper()
	for _, path := range []string{"/healthz", "/readyz"} {
		if status, _ := get(t, at+path); status != http.StatusOK {
			t.Errorf("%s: got %d, want 200", path, status)
		}
	}
	if status, _ := get(t, at+"/v1/runs"); status != http.StatusNotFound {
		t.Errorf("a worker answers %d to what is the service's, want 404", status)
	}
	status, text := get(t, at+"/metrics")
	for _, want := range []string{
		`understudy_actions_audited_total{severity="S0"} 2`, `understudy_actions_audited_total{severity="S5"} 0`,
		`understudy_episode_audit_seconds_count{result="ok"} 1`, "go_goroutines ", "process_resident_memory_bytes ",
	} {
		if status != http.StatusOK || !strings.Contains(text, want) {
			t.Errorf("/metrics (%d) does not say %q:\n%s", status, want, text)
		}
	}
}

// The demo is the first thing that anybody sees.
func TestDemo(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	recipe := smaller(t, t.TempDir(), "demo", map[string]string{
		"model:":       "{layers: 1, width: 32, hidden: 64, heads: 2, kv_heads: 1, head: 16, context: 256}",
		"data:":        "{source: environment, train: 24, train_seed: 11, heldout: 6, heldout_seed: 12}",
		"  prompts:":   "2",
		"  rollouts:":  "2",
		"steps:":       "2",
		"warm_start:":  "{steps: 20, batch: 8, learning_rate: 1e-2, until: 1, every: 20, tasks: 2, explore: 0.5}",
		"checkpoints:": "{every: 2, rule: last}",
		"evaluation:":  "{every: 2, tasks: 2, samples: 1, canaries: 4}",
	})
	out := d.do(0, "demo", "--once", "--environment", "retail-mini@1", "--rollouts", "3", "--canaries", "20", "--recipe", recipe)
	d.says(out,
		"starting", "ledger: PostgreSQL", "no trained policy",
		"checkpoint 100", "140 episodes queued", "tool", "get_order", "imagination gap ", "after their episode's worlds had forked", "gate: ",
		"checkpoint 400", "140 episodes queued", "tool", "gate: ", "a policy of our own", "gate: ",
		"2 steps of EnvACE with calibration", "step 2/2", "gate: ")
	for _, lie := range []string{"NaN", "in conflict", "given up", "without an answer", "serving"} {
		if strings.Contains(out, lie) {
			t.Errorf("the demo says %q:\n%s", lie, out)
		}
	}
	if entries, err := os.ReadDir(d.env["UNDERSTUDY_DATA_DIR"]); err != nil || len(entries) == 0 {
		t.Errorf("got %v, %v in the data folder, want the transport", entries, err)
	}
}
