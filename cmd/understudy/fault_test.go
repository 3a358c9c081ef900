package main_test

import (
	"context"
	"errors"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	main "understudy/cmd/understudy"
)

// TestBadInput is the list of what people get wrong: each gets one clear line, a
// hint, the right exit status, and nothing half-made.
func TestBadInput(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name   string
		args   []string
		env    []string
		file   string // of understudy.yaml
		status int
		want   string
		hint   string
		reason string
	}{
		{name: "nothing", status: 3, want: "name a command", hint: "understudy help", reason: "there is no default command"},
		{name: "command", args: []string{"serv"}, status: 3, want: "unknown command serv", hint: "did you mean serve?", reason: "the nearest command is named"},
		{name: "far command", args: []string{"frobnicate"}, status: 3, want: "unknown command frobnicate", hint: "understudy help", reason: "no command is near: the list is named"},
		{name: "far flag", args: []string{"report", "--q"}, status: 3, want: "unknown flag --q", hint: "understudy help report", reason: "no flag is near: their list is named"},
		{name: "canaries", args: []string{"audit", "--policy", "http://127.0.0.1:1/v1", "--environment", "retail-mini", "--canaries", "-5"}, status: 3, want: "--canaries -5", hint: "without either", reason: "a run of nothing would pass for an audit"},
		{name: "gate verify", args: []string{"gate", "verify"}, status: 3, want: "gate verify", hint: "understudy gate verify FILE", reason: "a verb that was spelled right lacks its argument"},
		{name: "bundle", args: []string{"report", "--bundle", "site"}, status: 3, want: "one run", hint: "understudy report RUN --bundle site", reason: "a site is of one run"},
		{name: "episode of no run", args: []string{"report", "--format", "atif"}, status: 3, want: "one episode of one run", hint: "understudy report RUN --format atif --episode ID", reason: "a list of runs has no trajectories"},
		{name: "flag", args: []string{"serve", "--databse-url", "x"}, status: 3, want: "unknown flag --databse-url", hint: "did you mean --database-url?", reason: "the nearest flag is named"},
		{name: "kv memory", args: []string{"serve", "--kv-memory", "9000000000000"}, status: 3, want: `"9000000000000" for flag -kv-memory: write whole MiB, from 0 to 1073741824`, hint: "understudy help serve", reason: "bytes that are no number are no memory"},
		{name: "own flag", args: []string{"version", "--device"}, status: 3, want: "unknown flag --device", hint: "did you mean --devices?", reason: "a command's own flags are known too"},
		{name: "no value", args: []string{"serve", "--listen"}, status: 3, want: "flag needs an argument: -listen", hint: "understudy help serve", reason: "a flag without its value"},
		{name: "no benchmark", args: []string{"eval"}, status: 3, want: "name a benchmark", hint: "an environment", reason: "what is to be evaluated is not guessed"},
		{name: "key", args: []string{"demo"}, file: "listen: :1\nlog_lvl: debug\n", status: 3, want: "understudy.yaml:2: unknown key log_lvl; did you mean log_level?", hint: "understudy help config", reason: "the nearest key is named, with its line"},
		{name: "yaml", args: []string{"demo"}, file: "listen: [\n", status: 3, want: "is no YAML", hint: "understudy help config", reason: "a file that does not parse"},
		{name: "list", args: []string{"demo"}, file: "listen: [a]\n", status: 3, want: "understudy.yaml:1: listen: want one value", hint: "understudy help config", reason: "settings are single values"},
		{name: "no file", args: []string{"demo", "--config", "missing.yaml"}, status: 3, want: "missing.yaml: no such file", hint: "--config", reason: "a file that was named must be there"},
		{name: "all faults", args: []string{"demo", "--listen", "nowhere"}, env: []string{"UNDERSTUDY_DATABASE_CONNECTIONS=many"}, file: "log_level: loud\nstop_timeout: 5\n", status: 3, want: `understudy.yaml:2: stop_timeout: "5" is no duration`, hint: "understudy help config", reason: "every fault at once: file"},
		{name: "all faults, environment", args: []string{"demo", "--listen", "nowhere"}, env: []string{"UNDERSTUDY_DATABASE_CONNECTIONS=many"}, file: "log_level: loud\n", status: 3, want: `UNDERSTUDY_DATABASE_CONNECTIONS: "many" is no whole number`, hint: "understudy help config", reason: "every fault at once: environment"},
		{name: "all faults, flag", args: []string{"demo", "--listen", "nowhere"}, env: []string{"UNDERSTUDY_DATABASE_CONNECTIONS=many"}, file: "log_level: loud\n", status: 3, want: `"nowhere" is no address`, hint: "understudy help config", reason: "every fault at once: validation"},
		{name: "database url", args: []string{"migrate", "--database-url", "mysql://root:geheim@db/x"}, status: 3, want: "is no PostgreSQL URL", hint: "understudy help config", reason: "another kind of database"},
		{name: "replicas", args: []string{"serve", "--stream-replicas", "3"}, status: 3, want: "the one in process is one", hint: "understudy help config", reason: "a lone server keeps one copy"},
		{name: "even replicas", args: []string{"serve", "--nats-url", "nats://a:4222", "--stream-replicas", "2"}, status: 3, want: "none of 1, 3, 5", hint: "understudy help config", reason: "two cannot outvote one"},
		{name: "nats url", args: []string{"demo", "--nats-url", "localhost:4222"}, status: 3, want: "is no NATS URL", hint: "understudy help config", reason: "a URL without its scheme"},
		{name: "unreachable", args: []string{"migrate", "--database-url", "postgres://u:geheim@127.0.0.1:1/ledger"}, status: 4, want: "the database ledger at 127.0.0.1:1 cannot be reached: connection refused", hint: "start it", reason: "no server on that port"},
		{name: "no host", args: []string{"migrate", "--database-url", "postgres://u:geheim@nowhere.invalid/ledger"}, status: 4, want: "the database ledger at nowhere.invalid:5432 cannot be reached", hint: "start it", reason: "a name that does not resolve"},
		{name: "bench", args: []string{"bench", "everything"}, status: 3, want: "name what to measure", hint: "understudy help bench", reason: "an argument that is not on the list"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			dir := folder(t)
			if test.file != "" {
				if err := os.WriteFile(filepath.Join(dir, "understudy.yaml"), []byte(test.file), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			got := run(t, program(t, dir, test.env, test.args...))
			refuses(t, got, test.status, test.want, test.hint, test.reason)
			if entries, err := filepath.Glob(filepath.Join(dir, "[^u]*")); err != nil || len(entries) != 0 {
				t.Errorf("%s: got %v, %v in the folder, want nothing half-made", test.reason, entries, err)
			}
		})
	}
}

// Who types Ctrl-C is told that, and not at which step a context ended; what else
// was wrong is told behind it.
func TestInterrupted(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(main.ErrInterrupted())
	env := map[string]string{"UNDERSTUDY_DATABASE_URL": postgres.URL(t), "UNDERSTUDY_LOG_LEVEL": "warn"}
	if status, _, stderr := main.Invoke(ctx, env, "", "verify"); status != 4 || stderr != "understudy: interrupted\n" {
		t.Errorf("got status %d and %q, want 4 and that it was interrupted", status, stderr)
	}
	if status, _, stderr := main.Invoke(ctx, env, "", "verfy"); status != 3 || stderr != "understudy: interrupted: unknown command verfy\n" {
		t.Errorf("got status %d and %q, want 3 and what was wrong beside", status, stderr)
	}
}

func refuses(t *testing.T, got result, status int, want, hint, reason string) {
	t.Helper()
	if got.status != status {
		t.Errorf("%s: got status %d, want %d", reason, got.status, status)
	}
	if !strings.Contains(got.stderr, want) {
		t.Errorf("%s: got %q, want it to say %q", reason, got.stderr, want)
	}
	if _, said, _ := strings.Cut(got.stderr, "\nhint: "); !strings.Contains(said, hint) {
		t.Errorf("%s: got %q, want the hint %q", reason, got.stderr, hint)
	}
	if strings.Contains(got.stderr, "geheim") || strings.Contains(got.stdout, "geheim") {
		t.Errorf("%s: got %q, which gives the password away", reason, got.stderr)
	}
}

func TestDatabaseRefusals(t *testing.T) {
	t.Parallel()
	dir := folder(t)
	newer := postgres.URL(t)
	execSQL(t, newer, `INSERT INTO goose_db_version (version_id, is_applied) VALUES (99999, true)`)
	execSQL(t, newer, `DROP ROLE IF EXISTS visitor; CREATE ROLE visitor LOGIN`)
	for _, test := range []struct{ url, want, hint, reason string }{
		{newer, "has schema version 99999, this program knows versions up to", "update this program", "a newer program migrated it"},
		{changed(t, postgres.URL(t), func(u *url.URL) { u.Path = "/nowhere" }), "the database nowhere at", "createdb", "a database that does not exist"},
		{changed(t, postgres.URL(t), func(u *url.URL) { u.User = url.UserPassword("stranger", "geheim") }), "refuses user stranger", "correct the user", "a user that does not exist"},
		{changed(t, postgres.EmptyURL(t), func(u *url.URL) { u.User = url.User("visitor") }), "does not let user visitor make tables", "GRANT CREATE", "a user without rights"},
	} {
		got := run(t, program(t, dir, nil, "migrate", "--database-url", test.url))
		refuses(t, got, 4, test.want, test.hint, test.reason)
	}
}

func execSQL(t *testing.T, dsn, sql string) {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	if _, err := pool.Exec(t.Context(), sql); err != nil {
		t.Fatal(err)
	}
}

func changed(t *testing.T, dsn string, change func(*url.URL)) string {
	t.Helper()
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	change(u)
	return u.String()
}

func TestDamagedClusterIsLeftAlone(t *testing.T) {
	t.Parallel()
	dir := folder(t)
	kept := filepath.Join(dir, "data", "postgres", "PG_VERSION")
	if err := errors.Join(os.MkdirAll(filepath.Dir(kept), 0o755), os.WriteFile(kept, []byte("?"), 0o600)); err != nil {
		t.Fatal(err)
	}
	got := run(t, program(t, dir, nil, "demo", "--data-dir", filepath.Join(dir, "data")))
	refuses(t, got, 4, "is damaged", "restore that folder from a backup", "a cluster that cannot be read")
	if text, err := os.ReadFile(kept); err != nil || string(text) != "?" {
		t.Errorf("got %q, %v, want the damaged file untouched", text, err)
	}
}

// TestOrdinaryUser runs the program as nobody: a folder that may not be written,
// then one that may. Where the tests are not root's, they are the ordinary user.
func TestOrdinaryUser(t *testing.T) {
	t.Parallel()
	dir := folder(t)
	closed, open := filepath.Join(dir, "closed"), filepath.Join(dir, "open")
	if err := errors.Join(os.Mkdir(closed, 0o555), os.Mkdir(open, 0o700)); err != nil {
		t.Fatal(err)
	}
	var credential *syscall.Credential
	binary := os.Args[0]
	if os.Geteuid() == 0 {
		nobody, err := user.Lookup("nobody")
		if err != nil {
			t.Fatal(err)
		}
		uid, err1 := strconv.ParseUint(nobody.Uid, 10, 32)
		gid, err2 := strconv.ParseUint(nobody.Gid, 10, 32)
		if err := errors.Join(err1, err2, os.Chown(open, int(uid), int(gid))); err != nil {
			t.Fatal(err)
		}
		credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
		binary = copied(t, dir) // the test binary lies where only root may look
	}
	as := func(args ...string) result {
		cmd := program(t, open, nil, args...)
		cmd.Path = binary
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: credential}
		return run(t, cmd)
	}
	refuses(t, as("migrate", "--data-dir", filepath.Join(closed, "data")), 4, "cannot be written", "--data-dir", "a folder that may only be read")
	got := as("bench", "start", "--count", "1", "--data-dir", filepath.Join(open, "data"))
	if got.status != 0 || !strings.Contains(got.stdout, "later starts") {
		t.Errorf("an ordinary user: got %+v, want status 0", got)
	}
}

// copied is a copy of this binary that everybody may run. cp makes it: a file
// that this process had open for writing could not be run while a parallel test
// forks.
func copied(t *testing.T, dir string) string {
	t.Helper()
	path := filepath.Join(dir, "understudy")
	if out, err := exec.CommandContext(t.Context(), "cp", os.Args[0], path).CombinedOutput(); err != nil {
		t.Fatalf("cp: %v: %s", err, out)
	}
	if err := os.Chmod(path, 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}
