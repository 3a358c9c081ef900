package main_test

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/goccy/go-yaml"

	main "understudy/cmd/understudy"
)

const (
	readmePath = "../../README.md"
	// readmeWhole, when set, runs the slow blocks, too, each with a private
	// PostgreSQL as on a machine that has none: make readme.
	readmeWhole = "UNDERSTUDY_README"
	// readmeUpdate, when set, writes what README takes from the code.
	readmeUpdate = "UNDERSTUDY_README_UPDATE"
)

// block is a piece of README that people copy, after the comment
//
//	<!-- tested NAME, WORD... : what the lines below say must be printed, in this order
//	TEXT
//	-->
//
// whose words are slow, needs data, script (a CI job file: its script is run) and
// exit N.
type block struct {
	name       string
	slow, data bool
	script     bool
	exit       int
	says       []string
	text       string
}

// readmeBlocks are the tested blocks of README, by name.
func readmeBlocks(t *testing.T, readme string) map[string]block {
	t.Helper()
	pattern := regexp.MustCompile(`(?s)<!-- tested ([^\n]*?)(?:\n(.*?))?-->\n+(.*?)(?:\n\n[^ \n]|\z)`)
	found := map[string]block{}
	for _, part := range pattern.FindAllStringSubmatch(readme, -1) {
		words := strings.Split(strings.TrimSpace(part[1]), ", ")
		b := block{name: words[0], says: lines(part[2])}
		for _, word := range words[1:] {
			exit, isExit := strings.CutPrefix(word, "exit ")
			var err error
			switch {
			case word == "slow":
				b.slow = true
			case word == "needs data":
				b.data = true
			case word == "script":
				b.script = true
			case isExit:
				b.exit, err = strconv.Atoi(exit)
			default:
				err = errors.New("no such word")
			}
			if err != nil {
				t.Fatalf("the comment of block %s: %q: %v", b.name, word, err)
			}
		}
		for line := range strings.Lines(part[3]) {
			code, indented := strings.CutPrefix(line, "    ")
			if !indented && strings.TrimSpace(line) != "" {
				t.Fatalf("block %s: the line %q is not indented by four blanks", b.name, line)
			}
			b.text += strings.TrimRight(code, "\n") + "\n"
		}
		if _, twice := found[b.name]; twice || strings.TrimSpace(b.text) == "" {
			t.Fatalf("block %s is there twice, or empty", b.name)
		}
		found[b.name] = b
	}
	return found
}

// lines are the lines of text that are not blank, trimmed.
func lines(text string) []string {
	all := strings.Split(text, "\n")
	for i := range all {
		all[i] = strings.TrimSpace(all[i])
	}
	return slices.DeleteFunc(all, func(line string) bool { return line == "" })
}

// shell is what the block runs: the text, or the script of the job that it declares.
func (b block) shell(t *testing.T) string {
	t.Helper()
	if !b.script {
		return b.text
	}
	var file map[string]struct{ Script []string }
	if err := yaml.Unmarshal([]byte(b.text), &file); err != nil {
		t.Fatalf("the job file of block %s: %v", b.name, err)
	}
	var steps []string
	for _, job := range file {
		steps = append(steps, job.Script...)
	}
	return strings.Join(steps, "\n")
}

// TestReadme runs what people copy from README, as it stands there but for the
// two addresses, for which free ones are taken.
func TestReadme(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(readmePath)
	if err != nil {
		t.Fatal(err)
	}
	blocks := readmeBlocks(t, string(text))
	for _, name := range []string{"first", "trajectories", "recordings", "remote", "mcp", "gate", "python", "curl", "operator"} {
		if _, found := blocks[name]; !found {
			t.Errorf("README has no tested block %q", name)
		}
	}
	for _, b := range blocks {
		t.Run(b.name, func(t *testing.T) {
			if b.slow && os.Getenv(readmeWhole) == "" {
				t.Skip("slow: make readme runs it")
			}
			b.run(t)
		})
	}
}

func (b block) run(t *testing.T) {
	t.Helper()
	home := folder(t)
	dir := checkout(t, home, b.data)
	policy, listen := modelServer(t, alwaysOK), freeAddress(t)
	script := strings.NewReplacer("http://127.0.0.1:8000/v1", policy, "127.0.0.1:8080", listen).Replace(b.shell(t))
	// What a block leaves in the background is asked to stop, and waited for.
	script = "trap 'left=$(jobs -pr); [ -z \"$left\" ] || kill $left 2> /dev/null || true; wait' EXIT\n" + script
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-euo", "pipefail", "-c", script)
	cmd.Dir = dir
	cmd.Env = []string{
		"HOME=" + home, "PATH=" + filepath.Join(home, "bin") + ":" + os.Getenv("PATH"), "PYTHONDONTWRITEBYTECODE=1",
		"UNDERSTUDY_DATA_DIR=" + filepath.Join(home, "data"), "UNDERSTUDY_LISTEN=" + listen, "UNDERSTUDY_LOG_LEVEL=warn",
	}
	if os.Getenv(readmeWhole) == "" {
		cmd.Env = append(cmd.Env, "UNDERSTUDY_DATABASE_URL="+postgres.URL(t))
	}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = patience // a server that holds on to the output is a fault of the block
	err := cmd.Run()
	if _, exited := errors.AsType[*exec.ExitError](err); err != nil && !exited {
		t.Fatalf("%v\n%s", err, out.String())
	}
	if got := cmd.ProcessState.ExitCode(); got != b.exit {
		t.Fatalf("exit status %d, want %d\n%s", got, b.exit, out.String())
	}
	(&desk{t: t}).says(out.String(), b.says...)
	t.Log(out.String())
}

// checkout is a folder that looks like the root of a checkout, with understudy on
// the home's PATH and the recordings beside it.
func checkout(t *testing.T, home string, data bool) string {
	t.Helper()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(home, "understudy")
	if err := errors.Join(os.Mkdir(dir, 0o700), os.Mkdir(filepath.Join(home, "bin"), 0o700)); err != nil {
		t.Fatal(err)
	}
	program := fmt.Sprintf("#!/bin/sh\n%s=1 exec %q \"$@\"\n", asProgram, os.Args[0])
	if err := os.WriteFile(filepath.Join(home, "bin", "understudy"), []byte(program), 0o700); err != nil { //nolint:gosec // a program
		t.Fatal(err)
	}
	for _, name := range []string{"sandbox", "web", ".ci"} {
		if err := os.Symlink(filepath.Join(root, name), filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	if !data {
		return dir
	}
	recordings, err := filepath.Abs(cmp.Or(os.Getenv("UNDERSTUDY_DATA"), filepath.Join(root, "../shared/data")))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(recordings, "tau2")); err != nil {
		t.Skipf("no recordings: set UNDERSTUDY_DATA to the folder that holds tau2/ (%v)", err)
	}
	if err := errors.Join(os.Mkdir(filepath.Join(home, "shared"), 0o700), os.Symlink(recordings, filepath.Join(home, "shared", "data"))); err != nil {
		t.Fatal(err)
	}
	return dir
}

// README's configuration reference is what the code says.
func TestReadmeSettings(t *testing.T) {
	t.Parallel()
	const begin, end = "<!-- settings: written by UNDERSTUDY_README_UPDATE=1 make readme -->\n", "<!-- end of settings -->"
	text, err := os.ReadFile(readmePath)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(text), begin)
	table, after, ends := strings.Cut(rest, end)
	if !found || !ends {
		t.Fatalf("README lacks %q or %q", begin, end)
	}
	want := main.SettingsTable()
	if table == want {
		return
	}
	if os.Getenv(readmeUpdate) == "" {
		t.Fatalf("the table of settings is not what the code says: UNDERSTUDY_README_UPDATE=1 make readme; want\n%s", want)
	}
	if err := os.WriteFile(readmePath, []byte(before+begin+want+end+after), 0o644); err != nil { //nolint:gosec // README is for all
		t.Fatal(err)
	}
}
