package cuda_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// stranger is a machine with a card for the scripts: programs in place of the tests', and few others.
type stranger struct {
	t      *testing.T
	folder string // of programs
	at     string // where a script is called
}

// newStranger has these programs for cuda.test and gpu.test.
func newStranger(t *testing.T, cudaTest, gpuTest string) stranger {
	t.Helper()
	s := stranger{t, t.TempDir(), "."}
	s.add("cuda.test", cudaTest)
	s.add("gpu.test", gpuTest)
	if err := os.WriteFile(filepath.Join(s.folder, "built"), []byte("commit abc, go1.26\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"awk", "bash", "cat", "cut", "date", "dirname", "env", "grep", "head", "mkdir", "mktemp", "rm", "sed", "sleep", "sort", "tail", "tee", "timeout", "uniq"} {
		at, err := exec.LookPath(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(at, filepath.Join(s.folder, name)); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// add makes a program.
func (s stranger) add(name, text string) {
	s.t.Helper()
	path := filepath.Join(s.folder, name)
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) { // a link to that of this machine
		s.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("#!/bin/bash\n"+text), 0o700); err != nil { //nolint:gosec // a program
		s.t.Fatal(err)
	}
}

// run gives what a script prints on both outputs, and how it ends; the programs that it runs know it as SCRIPT.
func (s stranger) run(script string, args, env []string) (text string, status int) {
	s.t.Helper()
	script, err := filepath.Abs(script)
	if err != nil {
		s.t.Fatal(err)
	}
	c := exec.CommandContext(s.t.Context(), "bash", append([]string{"-c", `SCRIPT=$$ exec bash "$@"`, "bash", script}, args...)...) //nolint:gosec // our own
	c.Dir = s.at
	c.Env = append([]string{"PATH=" + s.folder, "UNDERSTUDY_CUDA_TESTS=" + s.folder}, env...)
	out, err := c.CombinedOutput()
	if c.ProcessState == nil {
		s.t.Fatal(err)
	}
	return string(out), c.ProcessState.ExitCode()
}

// holds fails the test unless a script ended so and printed this, with none of that.
func (s stranger) holds(what, text string, status, want int, lines, not []string) {
	s.t.Helper()
	flat := strings.Join(strings.Fields(text), " ")
	holds := func(line string) bool { return strings.Contains(flat, line) }
	lacks := func(line string) bool { return !holds(line) }
	if status != want || slices.ContainsFunc(lines, lacks) || slices.ContainsFunc(not, holds) {
		s.t.Errorf("%s ended with %d, want %d; it has to hold %q and not %q:\n%s", what, status, want, lines, not, text)
	}
}

const aCard = `case "$*" in *TestThisCard*) echo "    cards_test.go:9: card 0: NVIDIA H200, 139.8 GiB"; exit;; esac
`

// The table of bench.sh comes whatever fails on the way: with what was measured, and what was not.
func TestBenchSurvives(t *testing.T) {
	t.Parallel()
	s := newStranger(t, aCard+`case "$*" in
*copy*) echo "BenchmarkCard/copy"; echo "BenchmarkCard/copy-16 30 1 ns/op 4000 GB/s";;
*0.6B*) echo "BenchmarkCard/0.6B/decode/batch=1/shared=1-16 3 1 ns/op 1000 MB/token 1600 tokens/s"; echo "BenchmarkCard/0.6B/train"; echo "panic: the card is lost"; exit 2;;
*4B*) echo "--- SKIP: BenchmarkCard/4B/train"; echo "    bench_test.go:1: it does not fit";;
esac`, "")
	text, status := s.run("bench.sh", nil, []string{"UNDERSTUDY_CUDA_SHAPES=0.6B,4B"})
	s.holds("a run that fails", text, status, 1, []string{
		"commit abc, go1.26", "card 0: NVIDIA H200", "no PyTorch in python3", "panic: the card is lost",
		"copy 4000.0 GB/s", "0.6B/decode/batch=1/shared=1 1600.0 tokens/s - - 40.0 % of the bytes that copy moves; aim 40: met",
		"not measured: 0.6B on the device, or a part of it: it failed", "not measured: 4B/train, for the reason above",
	}, []string{"0.6B/train 0"})
	text, status = s.run("bench.sh", nil, []string{"UNDERSTUDY_CUDA_SECONDS=0", "UNDERSTUDY_CUDA_SHAPES=8B"})
	s.holds("a run without time for the card", text, status, 1, []string{"share of the card's limit", "not measured: 8B on the device: 0 seconds were up"}, []string{"GB/s"})
	text, status = s.run("bench.sh", nil, []string{"UNDERSTUDY_CUDA_SECONDS=ten"})
	s.holds("a limit that is none", text, status, 1, []string{"UNDERSTUDY_CUDA_SECONDS=ten is no number of seconds"}, []string{"card 0"})
	text, status = s.run("bench.sh", nil, []string{"UNDERSTUDY_CUDA_SHAPES=9B"})
	s.holds("a shape that there is not", text, status, 1, []string{"there are 0.6B, 1.7B, 4B and 8B"}, []string{"understudy"})
}

// check.sh says of each step whether it passed, failed, was stopped or not run, and goes on.
func TestCheckSurvives(t *testing.T) {
	t.Parallel()
	s := newStranger(t, aCard+`case "$*" in
*TestDeviceOpens*) echo "--- PASS: TestDeviceOpens (0.1s)";;
*) echo "=== RUN   TestSlow"; exit 124;; # as timeout does
esac`, `echo "--- PASS: TestTree (1s)"; echo "    --- SKIP: TestGolden/x"; echo "    not on a card: it is slow"; echo "--- FAIL: TestRatioIsOne (1s)"; echo "    ratio 1.01"; exit 1`)
	text, status := s.run("check.sh", []string{"device", "engine", "operations"}, nil)
	s.holds("a check", text, status, 1, []string{
		"device: kernels load, cuBLASLt is there passed in", "(1 passed, 0 skipped)",
		"logits, gradients, losses, ratio 1 FAILED after", "(1 passed, 1 skipped)", "ratio 1.01",
		"operations, products, graphs STOPPED after", "in the middle of TestSlow",
	}, nil)
	text, status = s.run("check.sh", []string{"engine"}, []string{"UNDERSTUDY_CUDA_SECONDS=0"})
	s.holds("a check without time", text, status, 1, []string{"logits, gradients, losses, ratio 1 NOT RUN: 0 seconds were up"}, []string{"FAILED"})
	text, status = s.run("check.sh", []string{"everything"}, nil)
	s.holds("a step that there is not", text, status, 1, []string{"no step is called everything"}, nil)
	none := newStranger(t, `echo "    cards_test.go:21: no CUDA device: the driver's library is not on this machine"; exit 1`, "")
	for script, what := range map[string]string{"check.sh": "nothing was checked", "bench.sh": "nothing was measured"} {
		text, status = none.run(script, nil, nil)
		none.holds(script+" without a card", text, status, 1, []string{
			"the driver's library is not on this machine", "this machine has no NVIDIA GPU that its driver knows of: " + what,
		}, []string{"share of the card's limit"})
		text, status = none.run(script, nil, []string{"UNDERSTUDY_CUDA_TESTS="})
		none.holds(script+" without Go", text, status, 1, []string{"there is no Go here. Where there is: gpu/cuda/check.sh build FOLDER"}, nil)
		text, status = none.run(script, nil, []string{"UNDERSTUDY_CUDA_TESTS=nowhere"})
		none.holds(script+" without tests", text, status, 1, []string{"UNDERSTUDY_CUDA_TESTS=nowhere holds no tests"}, nil)
	}
}

// A program that crashes, is killed or prints nothing is not taken for one that ran out of time, or did its work.
func TestScriptsDoubtPrograms(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		cudaTest, gpuTest string
		script            string
		args, env         []string
		lines, not        []string
	}{
		"a program that knows of no card": {
			"exit 0", "", "check.sh", nil, nil,
			[]string{"ended with 0 and this machine's card is not known: nothing was checked"},
			[]string{"passed in", "NOT RUN"},
		},
		"a program for another machine": {
			"echo cannot execute; exit 126", "", "bench.sh", nil, nil,
			[]string{"cannot execute", "ended with 126 and this machine's card is not known: nothing was measured"},
			[]string{"no NVIDIA GPU", "share of the card's limit"},
		},
		"benchmarks that print nothing": {
			aCard + "exit 0", "", "bench.sh", nil,
			[]string{"UNDERSTUDY_CUDA_SHAPES=4B"},
			[]string{"not measured: the card on the device: it ended well, and told no figure", "not measured: 4B on the device: it ended well"},
			nil,
		},
		"benchmarks that are killed for memory": {
			aCard + "echo BenchmarkCard/copy; kill -KILL $$", "", "bench.sh", nil,
			[]string{"UNDERSTUDY_CUDA_SHAPES=4B"},
			[]string{"not measured: 4B on the device, or a part of it: it failed"},
			[]string{"seconds were up"},
		},
		"tests that are killed for memory": {
			aCard, "echo '=== RUN   TestTree'; kill -KILL $$", "check.sh",
			[]string{"engine"},
			nil,
			[]string{"ratio 1 FAILED after"},
			[]string{"STOPPED"},
		},
		"tests that print nothing": {
			aCard, "exit 0", "check.sh",
			[]string{"engine"},
			nil,
			[]string{"ratio 1 NOT RUN: there was no such test (0 passed, 0 skipped)"},
			nil,
		},
		"tests that are stopped before the first": {
			aCard, "exit 124", "check.sh",
			[]string{"engine"},
			nil,
			[]string{"STOPPED after", "(0 passed, 0 skipped), before its first test"},
			[]string{"in the middle of"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStranger(t, c.cudaTest, c.gpuTest)
			text, status := s.run(c.script, c.args, c.env)
			s.holds("it", text, status, 1, c.lines, c.not)
		})
	}
}

// What is asked of a machine before its card is measured, too, ends when it hangs.
func TestScriptsAskBriefly(t *testing.T) {
	t.Parallel()
	s := newStranger(t, `[ "$LIMIT" ] || { echo hung; exit; }
`+aCard, `[ "$LIMIT" ] && echo "--- PASS: TestTree (1s)"`)
	s.add("timeout", `while [ "${1#-}" != "$1" ]; do [ "$1" != -k ] || shift; shift; done
LIMIT=$1 exec "${@:2}"`)
	s.add("nvidia-smi", `[ "$LIMIT" ] || echo hung; exit 124`)
	s.add("python3", `[ "$LIMIT" ] || echo hung; exit 1`)
	text, status := s.run("check.sh", []string{"engine"}, nil)
	s.holds("a check", text, status, 0, []string{"nvidia-smi: (it ended with 124; 124: it did not answer)", "ratio 1 passed in"}, []string{"hung"})
	text, _ = s.run("bench.sh", nil, nil)
	s.holds("a measurement", text, 1, 1, []string{"no PyTorch in python3", "card 0: NVIDIA H200"}, []string{"hung"})
	if err := os.Remove(filepath.Join(s.folder, "timeout")); err != nil {
		t.Fatal(err)
	}
	text, status = s.run("check.sh", []string{"engine"}, nil)
	s.holds("a machine without timeout", text, status, 1, []string{"there is no timeout"}, []string{"passed", "hung"})
}

// Folders may have spaces, and be named from where the script is called, whatever cd does there.
func TestScriptsFindFolders(t *testing.T) {
	t.Parallel()
	s := newStranger(t, aCard+`case "$*" in *copy*) echo "BenchmarkCard/copy-16 30 1 ns/op 4000 GB/s";; esac`, `echo "--- PASS: TestTree (1s)"`)
	home := filepath.Join(t.TempDir(), "of mine")
	for _, name := range []string{"a python", "of a time"} {
		if err := os.MkdirAll(filepath.Join(home, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(s.folder, filepath.Join(home, "the tests")); err != nil {
		t.Fatal(err)
	}
	s.add("mktemp", `mkdir -p "$HOME/a b/out" && echo "$HOME/a b/out"`)
	python := "#!/bin/bash\n" + `case "$*" in *bench.py*card) echo "copy 4100";; *sysconfig*) echo "/some wheels/lib";; esac`
	if err := os.WriteFile(filepath.Join(home, "a python", "python"), []byte(python), 0o700); err != nil { //nolint:gosec // a program
		t.Fatal(err)
	}
	s.at = home
	env := []string{"TMPDIR=" + filepath.Join(home, "of a time"), "CDPATH=/:" + home, "UNDERSTUDY_CUDA_TESTS=the tests", "UNDERSTUDY_TORCH=a python/python", "UNDERSTUDY_CUDA_LOGS=the logs", "UNDERSTUDY_CUDA_SHAPES=4B"}
	text, status := s.run("check.sh", []string{"engine"}, env)
	s.holds("a check", text, status, 0, []string{"commit abc", "ratio 1 passed in"}, nil)
	if _, err := os.Stat(filepath.Join(home, "the logs", "logits,-gradients,-losses,-ratio-1.log")); err != nil {
		t.Error(err)
	}
	text, _ = s.run("bench.sh", nil, env)
	s.holds("a measurement", text, 1, 1, []string{"commit abc", "copy 4000.0 GB/s 4100.0"}, []string{"no PyTorch"})
	if left, err := filepath.Glob(filepath.Join(home, "of a time", "*")); err != nil || len(left) > 0 {
		t.Errorf("the scripts left %v, %v", left, err)
	}
}

// A script that is told to stop ends what it runs, and says what it has.
func TestScriptsAreStopped(t *testing.T) {
	t.Parallel()
	for script, c := range map[string]struct {
		args  []string
		lines []string
	}{
		"check.sh": {[]string{"engine"}, []string{"told to stop"}},
		"bench.sh": {nil, []string{"copy 4000.0 GB/s", "not measured: the rest: the script was told to stop"}},
	} {
		t.Run(script, func(t *testing.T) {
			t.Parallel()
			const long = `kill -TERM "$SCRIPT"; sleep 60; : >"$TMPDIR/survived"`
			s, home := newStranger(t, aCard+`echo "BenchmarkCard/copy-16 30 1 ns/op 4000 GB/s"; `+long, long), t.TempDir()
			text, status := s.run(script, c.args, []string{"TMPDIR=" + home})
			s.holds("it", text, status, 1, c.lines, nil)
			if left, err := filepath.Glob(filepath.Join(home, "*")); err != nil || len(left) > 0 {
				t.Errorf("it left %v, %v", left, err)
			}
		})
	}
}
