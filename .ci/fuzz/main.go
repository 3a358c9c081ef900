// Command fuzz runs the module's fuzz targets for a stated time each, a few at a
// time, each under a limit of memory, and prints one line a target: what was
// tried, what was learned, and how it ended.
//
//	go run ./.ci/fuzz -time 10m -at-once 2 -memory 4096 [target...]
//
// Targets are named Package.Function, such as audit/diff.FuzzDecode; without
// names, all of them run. An input that makes a target fail is written into the
// package's testdata/fuzz, as `go test -fuzz` does, and is a test from then on.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

// grace is how long a target may take beyond its time: to build up its coverage
// from the corpus, and to shrink an input that failed.
const grace = 5 * time.Minute

func main() {
	var c campaign
	flag.DurationVar(&c.each, "time", 30*time.Second, "how long each target runs")
	flag.IntVar(&c.atOnce, "at-once", 1, "targets that run side by side")
	flag.IntVar(&c.memory, "memory", 4096, "MiB of data that one target's process may have; more is a failure")
	flag.StringVar(&c.corpus, "corpus", "", "folder that keeps what was learned; empty = Go's cache")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	failed, err := c.run(ctx, flag.Args())
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "fuzz:", err)
	}
	if err != nil || failed > 0 {
		os.Exit(1)
	}
}

// campaign is one run over many targets.
type campaign struct {
	each           time.Duration
	atOnce, memory int
	corpus         string
	binaries       string // folder of the test binaries
}

// target is one function to fuzz.
type target struct{ pkg, name string }

func (t target) String() string { return t.pkg + "." + t.name }

func (c campaign) run(ctx context.Context, names []string) (failed int, err error) {
	targets, err := find(".")
	if err != nil {
		return 0, err
	}
	if targets, err = choose(targets, names); err != nil {
		return 0, err
	}
	if c.binaries, err = os.MkdirTemp("", "fuzz-"); err != nil {
		return 0, fmt.Errorf("make a folder for the binaries: %w", err)
	}
	defer os.RemoveAll(c.binaries)
	if c.corpus == "" {
		cache, err := exec.CommandContext(ctx, "go", "env", "GOCACHE").Output()
		if err != nil {
			return 0, fmt.Errorf("ask for Go's cache: %w", err)
		}
		c.corpus = filepath.Join(strings.TrimSpace(string(cache)), "fuzz", "understudy")
	}
	if c.corpus, err = filepath.Abs(c.corpus); err != nil {
		return 0, fmt.Errorf("find the corpus: %w", err)
	}
	var group errgroup.Group
	group.SetLimit(max(c.atOnce, 1))
	var printing sync.Mutex
	for _, t := range targets {
		group.Go(func() error {
			if ctx.Err() != nil {
				return nil
			}
			result := c.fuzz(ctx, t)
			printing.Lock()
			defer printing.Unlock()
			fmt.Println(result)
			if !result.clean {
				failed++
				fmt.Println(indent(result.said))
			}
			return nil
		})
	}
	err = group.Wait()
	fmt.Printf("%s: %d targets, %d failed\n", time.Now().UTC().Format("15:04"), len(targets), failed)
	return failed, errors.Join(err, context.Cause(ctx))
}

// find lists the fuzz targets below root, by package and name.
func find(root string) ([]target, error) {
	declared := regexp.MustCompile(`(?m)^func (Fuzz\w+)\(\w+ \*testing\.F\)`)
	var targets []target
	err := filepath.WalkDir(root, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, match := range declared.FindAllSubmatch(text, -1) {
			targets = append(targets, target{filepath.ToSlash(filepath.Dir(path)), string(match[1])})
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("look for targets: %w", err)
	}
	return targets, nil
}

// choose keeps the named targets, in the order of the names.
func choose(all []target, names []string) ([]target, error) {
	if len(names) == 0 {
		return all, nil
	}
	var chosen []target
	for _, name := range names {
		at := slices.IndexFunc(all, func(t target) bool { return t.String() == name })
		if at < 0 {
			return nil, fmt.Errorf("no target %s; there are %v", name, all)
		}
		chosen = append(chosen, all[at])
	}
	return chosen, nil
}

// result is how one target ended.
type result struct {
	target
	took       time.Duration
	executions int
	learned    int // new corpus entries
	stalls     int // inputs that the machine was too busy for, and that passed alone
	clean      bool
	said       string // the end of the output
}

func (r result) String() string {
	verdict := "clean"
	if !r.clean {
		verdict = "FAILED"
	}
	line := fmt.Sprintf("%s %-6s %-45s %8s %12d executions %6d new entries",
		time.Now().UTC().Format("15:04"), verdict, r.target, r.took.Round(time.Second), r.executions, r.learned)
	if r.stalls > 0 {
		line += fmt.Sprintf(" (stalled %d times: the machine is busy)", r.stalls)
	}
	return line
}

// fuzz builds the target's package with the fuzzer's instrumentation and runs
// it in the package's folder, with one worker.
func (c campaign) fuzz(ctx context.Context, t target) result {
	r := result{target: t}
	binary := filepath.Join(c.binaries, strings.ReplaceAll(t.String(), "/", "_"))
	build := exec.CommandContext(ctx, "go", "test", "-c", "-fuzz", "^"+t.name+"$", "-o", binary, "./"+t.pkg)
	if out, err := build.CombinedOutput(); err != nil {
		r.said = string(out)
		return r
	}
	defer os.Remove(binary)
	r.spend(ctx, c.each,
		func(left time.Duration) (string, error) { return c.try(ctx, t, binary, left, &r) },
		func(said string) bool { return c.stalled(ctx, t, binary, said) })
	return r
}

// spend tries again after each stall until the time is up; the last try says how
// it ended.
func (r *result) spend(ctx context.Context, each time.Duration, try func(left time.Duration) (said string, err error), stalled func(said string) bool) {
	started := time.Now()
	for left := each; left > 0 && ctx.Err() == nil; left = each - time.Since(started) {
		said, err := try(left)
		if r.clean = err == nil || expired(said); r.clean {
			break
		}
		if r.clean = stalled(said); !r.clean {
			r.said = tail(said) + fmt.Sprintln(err)
			break
		}
		r.stalls++
	}
	r.took = time.Since(started)
}

// try fuzzes for a time and adds up what came of it.
func (c campaign) try(ctx context.Context, t target, binary string, lasting time.Duration, r *result) (said string, err error) {
	ctx, cancel := context.WithTimeout(ctx, lasting+grace)
	defer cancel()
	var out bytes.Buffer
	err = c.command(ctx, t, &out, binary, "-test.run=^$", "-test.fuzz=^"+t.name+"$", "-test.fuzztime="+lasting.String(),
		"-test.fuzzminimizetime=1000x", "-test.parallel=1", "-test.fuzzcachedir="+filepath.Join(c.corpus, t.pkg)).Run()
	progress := regexp.MustCompile(`execs: (\d+) .*new interesting: (\d+)`)
	if all := progress.FindAllStringSubmatch(out.String(), -1); len(all) > 0 {
		last := all[len(all)-1]
		executions, _ := strconv.Atoi(last[1]) // digits
		learned, _ := strconv.Atoi(last[2])
		r.executions, r.learned = r.executions+executions, r.learned+learned
	}
	return out.String(), err
}

// stalled tells a failure that is the machine's: the fuzzer kills a process that
// needs ten seconds for one input, which on a busy machine may be any, one of the
// seeds too. The input is tried alone; when it passes at once, what was written of it
// is forgotten.
func (c campaign) stalled(ctx context.Context, t target, binary, said string) bool {
	if !strings.Contains(said, "hung or terminated unexpectedly") {
		return false
	}
	written := regexp.MustCompile(`Failing input written to (\S+)`).FindStringSubmatch(said)
	seed := regexp.MustCompile(`failure while testing seed corpus entry: \w+/(\S+)`).FindStringSubmatch(said)
	var name string
	switch {
	case written != nil:
		name = filepath.Base(written[1])
	case seed != nil:
		name = seed[1]
	default:
		return false
	}
	began := time.Now()
	for range 3 {
		if c.command(ctx, t, io.Discard, binary, "-test.run=^"+t.name+"$/^"+regexp.QuoteMeta(name)+"$").Run() != nil {
			return false
		}
	}
	if time.Since(began) > 30*time.Second {
		return false
	}
	return written == nil || os.Remove(filepath.Join(t.pkg, filepath.FromSlash(written[1]))) == nil
}

// command runs the binary in the package's folder under a shell that limits its
// memory: the workers that the binary starts inherit the limit.
func (c campaign) command(ctx context.Context, t target, out io.Writer, binary string, args ...string) *exec.Cmd {
	shell := []string{"-c", `ulimit -d "$1" && shift && exec "$@"`, "sh", strconv.Itoa(c.memory << 10), binary}
	cmd := exec.CommandContext(ctx, "sh", append(shell, args...)...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = t.pkg, out, out
	cmd.WaitDelay = 10 * time.Second
	return cmd
}

// expired tells the one failure that is none: the fuzzer's time ran out while an
// input was under way (golang.org/issue/48591).
func expired(said string) bool {
	return strings.Contains(said, "context deadline exceeded") && !strings.Contains(said, "Failing input written")
}

// tail is the end of what a target said, without its progress.
func tail(said string) string {
	var lines []string
	for line := range strings.Lines(said) {
		if !strings.HasPrefix(line, "fuzz: elapsed") {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines[max(0, len(lines)-40):], "")
}

func indent(text string) string {
	return "    " + strings.ReplaceAll(strings.TrimSpace(text), "\n", "\n    ")
}
