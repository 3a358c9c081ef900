package main_test

import (
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"understudy/sandbox/synth/synthtest"
)

// A user makes environments from a task file and calls one of them.
func TestSandboxSynth(t *testing.T) {
	dir := t.TempDir()
	server := httptest.NewServer(&synthtest.Author{})
	defer server.Close()
	tasks := filepath.Join(dir, "tasks.jsonl")
	if err := os.WriteFile(tasks, []byte(`{"query":"lend me Dune"}`+"\n{}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	args := []string{
		"sandbox", "synth", "--from", tasks, "--model", server.URL, "--scenarios", "2", "--steps", "5",
		"--price-in", "1", "--price-out", "4", "--emit", "python",
	}
	for _, row := range []struct {
		args   []string
		status int
		want   []string // in what is printed
		reason string
	}{
		{append(args, "--max-tokens", "500"), 3, []string{"budget of 500 tokens", "--max-tokens"}, "a budget ends the run"},
		{args, 0, []string{
			"1 records without a request", "share most words", "lending-desk", "weather-oracle (rejected)", "1.00", "EnvScaler  18.58", "no operation writes",
			"env_metadata.json", "hold 1: lending-desk",
		}, "and a second run goes on"},
		{[]string{"sandbox", "call", "synth:lending-desk", "lend", `{"member":"m2","book":"b4"}`}, 0, []string{"refused limit"}, "it is mounted"},
		{[]string{"sandbox", "check", "synth:lending-desk", "--calls", "200"}, -1, []string{"2"}, "its tasks and invariants are checked like any domain's"},
		{[]string{"sandbox", "synth", "--model", server.URL}, 3, []string{"--from"}, "no file"},
		{append(args, "--emit", "java"), 3, []string{"python"}, "a format that is not there"},
		{[]string{"sandbox", "synth", "--from", tasks, "--model", "ftp://x"}, 3, []string{"http://"}, "not a URL of a server"},
	} {
		got := run(t, program(t, dir, []string{"UNDERSTUDY_DATA_DIR=" + filepath.Join(dir, "data")}, row.args...))
		text := got.stdout + got.stderr
		if row.status >= 0 && got.status != row.status {
			t.Errorf("%s: status %d, want %d\n%s", row.reason, got.status, row.status, text)
		}
		for _, want := range row.want {
			if !strings.Contains(text, want) {
				t.Errorf("%s: %q is not in\n%s", row.reason, want, text)
			}
		}
	}
}
