package cuda_test

import (
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
	folder string
}

// newStranger has these programs for cuda.test and gpu.test.
func newStranger(t *testing.T, cudaTest, gpuTest string) stranger {
	t.Helper()
	s := stranger{t, t.TempDir()}
	for name, text := range map[string]string{"cuda.test": cudaTest, "gpu.test": gpuTest} {
		if err := os.WriteFile(filepath.Join(s.folder, name), []byte("#!/bin/bash\n"+text), 0o700); err != nil { //nolint:gosec // a program
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(s.folder, "built"), []byte("commit abc, go1.26\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"awk", "bash", "cat", "cut", "date", "dirname", "env", "grep", "head", "mkdir", "mktemp", "rm", "sed", "sort", "tail", "tee", "timeout", "uniq"} {
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

// run gives what a script prints on both outputs, and how it ends.
func (s stranger) run(script string, args, env []string) (text string, status int) {
	s.t.Helper()
	c := exec.CommandContext(s.t.Context(), "bash", append([]string{script}, args...)...) //nolint:gosec // our own
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
