package cluster_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"understudy/audit/leaktest"
	"understudy/audit/ledger/cluster"
)

// childDir, when set, makes this test binary the program that is killed.
const childDir = "CLUSTER_TEST_CHILD"

func TestMain(m *testing.M) {
	if dir := os.Getenv(childDir); dir != "" {
		if err := commitForEver(context.Background(), dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
		os.Exit(1)
	}
	status := m.Run()
	if err := errors.Join(leaktest.Find(), os.RemoveAll(model.dir)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		status = max(status, 1)
	}
	os.Exit(status)
}

// commitForEver commits row after row and prints each one that was acknowledged.
func commitForEver(ctx context.Context, dir string) error {
	c, err := cluster.Start(ctx, cluster.Config{Dir: dir})
	if err != nil {
		return err
	}
	conn, err := pgx.Connect(ctx, c.URL())
	if err != nil {
		return err
	}
	if _, err := conn.Exec(ctx, `CREATE TABLE IF NOT EXISTS kept (n bigint PRIMARY KEY)`); err != nil {
		return err
	}
	var last int
	if err := conn.QueryRow(ctx, `SELECT coalesce(max(n), 0) FROM kept`).Scan(&last); err != nil {
		return err
	}
	for n := last + 1; ; n++ {
		if _, err := conn.Exec(ctx, `INSERT INTO kept VALUES ($1)`, n); err != nil {
			return err
		}
		fmt.Println(n)
	}
}

func TestKilledProgramLosesNothing(t *testing.T) {
	t.Parallel()
	dir := made(t)
	acknowledged := 0
	for round := range 3 {
		child := exec.CommandContext(t.Context(), os.Args[0])
		child.Env = append(os.Environ(), childDir+"="+dir)
		child.Stderr = t.Output()
		out, err := child.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := child.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(out)
		for range 20 * (round + 1) {
			if !lines.Scan() {
				t.Fatal("the child ended by itself")
			}
			acknowledged = number(t, lines.Text())
		}
		if err := child.Process.Kill(); err != nil { // SIGKILL, in the middle of a commit
			t.Fatal(err)
		}
		for lines.Scan() { // what it had said before it died
			acknowledged = number(t, lines.Text())
		}
		_ = child.Wait() // killed, as it should be
	}
	var rows, last int
	c := start(t, cluster.Config{Dir: dir})
	if err := connect(t, c).QueryRow(t.Context(), `SELECT count(*), max(n) FROM kept`).Scan(&rows, &last); err != nil {
		t.Fatal(err)
	}
	if rows < acknowledged || rows != last {
		t.Errorf("got %d rows up to %d, want all of the %d that were acknowledged and no gap", rows, last, acknowledged)
	}
}

func number(t *testing.T, text string) int {
	t.Helper()
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// asOwner runs a program as the user that owns the cluster of dir.
func asOwner(t *testing.T, dir, name string, args ...string) *exec.Cmd {
	t.Helper()
	info, err := os.Stat(filepath.Join(dir, "postgres"))
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir = dir
	if stat := info.Sys().(*syscall.Stat_t); os.Geteuid() == 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: stat.Uid, Gid: stat.Gid}}
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it has ended where the test passes
		_ = cmd.Wait()
	})
	return cmd
}

func TestSurvivorIsStopped(t *testing.T) {
	t.Parallel()
	dir := made(t)
	server, err := cluster.Find(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	data := filepath.Join(dir, "postgres")
	survivor := asOwner(t, dir, filepath.Join(server.Dir, "postgres"), "-D", data, "-c", "listen_addresses=", "-c", "unix_socket_directories="+data)
	pidFile := filepath.Join(data, "postmaster.pid")
	for deadline := time.Now().Add(5 * time.Minute); ; {
		if text, err := os.ReadFile(pidFile); err == nil && strings.Contains(string(text), "ready") {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the survivor did not start")
		}
		<-time.After(5 * time.Millisecond)
	}
	connect(t, start(t, cluster.Config{Dir: dir, Ephemeral: true}))
	if err := survivor.Wait(); err != nil {
		t.Errorf("got %v, want the survivor to have shut down in order", err)
	}
}

func TestStaleProcessFileOfAnotherProgram(t *testing.T) {
	t.Parallel()
	dir := made(t)
	other := asOwner(t, dir, "sleep", "3600")
	stale := fmt.Sprintf("%d\n%s\n1\n5432\n\n\n", other.Process.Pid, filepath.Join(dir, "postgres"))
	if err := os.WriteFile(filepath.Join(dir, "postgres", "postmaster.pid"), []byte(stale), 0o600); err != nil {
		t.Fatal(err)
	}
	connect(t, start(t, cluster.Config{Dir: dir, Ephemeral: true}))
	// One that had ended before would still be there to be signalled, and be of another end.
	if err := other.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = other.Wait()
	if end := other.ProcessState.Sys().(syscall.WaitStatus); end.Signal() != syscall.SIGKILL {
		t.Errorf("it ended by %v, want the program that has the number now to be left alone", end.Signal())
	}
}
