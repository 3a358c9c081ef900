// Command benchtable measures every speed that the project speaks of and prints one
// Markdown table: the figure, its ratio to the alternative in the same run, and the
// goal; then what was not measured, and why. What it is at is on stderr. It fails
// when a benchmark fails or no longer says what is asked of it, not when a goal is
// missed: machines differ.
package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := measure(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "benchtable:", err)
		os.Exit(1) //nolint:gocritic // nothing is deferred that matters
	}
}

func measure(ctx context.Context) error {
	began, all := time.Now(), runs()
	fmt.Printf("%d processors, %s/%s, load %s\n\n", runtime.NumCPU(), runtime.GOOS, runtime.GOARCH, load())
	fmt.Printf("| what | figure | beside it | goal | |\n|---|---|---|---|---|\n")
	var missing []string
	for i, r := range all {
		fmt.Fprintf(os.Stderr, "%4.0fs  %d of %d: go test -bench %s %s\n", time.Since(began).Seconds(), i+1, len(all), r.pattern, r.pkg)
		out, err := exec.CommandContext(ctx, "go", "test", "-run", "^$", "-bench", r.pattern, "-benchtime", r.time, "-timeout", "20m", r.pkg).CombinedOutput() //nolint:gosec // the arguments are ours
		if err != nil {
			return fmt.Errorf("go test -bench %s %s: %w\n%s", r.pattern, r.pkg, err, out)
		}
		lines := parse(out)
		for _, c := range r.claims {
			row, err := c.row(lines)
			if err != nil {
				return fmt.Errorf("%s: %w\n%s", r.pkg, err, out)
			}
			if row == "" {
				missing = append(missing, fmt.Sprintf("- %s: needs %s", c.what, c.needs))
				continue
			}
			fmt.Println(row)
		}
	}
	missing = append(missing, elsewhere()...)
	fmt.Printf("\nNot measured here:\n\n%s\n\nMeasured in %.0f minutes; load %s at the end.\n", strings.Join(missing, "\n"), time.Since(began).Minutes(), load())
	return nil
}

// load is what else the machine does: figures of a busy one are worth less.
func load() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	return strings.Fields(string(text))[0]
}

// line is one benchmark's line: its name and its figures by unit.
type line struct {
	name    string
	figures map[string]float64
}

// parse reads go test's output.
func parse(out []byte) []line {
	var lines []line
	scanner := bufio.NewScanner(bytes.NewReader(out))
	for scanner.Scan() {
		fields := strings.Fields(scanner.Text())
		if len(fields) < 4 || !strings.HasPrefix(fields[0], "Benchmark") {
			continue
		}
		l := line{name: processors().ReplaceAllString(fields[0], ""), figures: map[string]float64{}}
		for i := 2; i+1 < len(fields); i += 2 {
			if value, err := strconv.ParseFloat(fields[i], 64); err == nil {
				l.figures[fields[i+1]] = value
			}
		}
		lines = append(lines, l)
	}
	return lines
}

// processors is the -GOMAXPROCS at the end of a name.
func processors() *regexp.Regexp { return regexp.MustCompile(`-\d+$`) }

// row is the claim's line of the table, of the first benchmark with its name; "" when
// what it is compared with is not there.
func (c claim) row(lines []line) (string, error) {
	name, err := regexp.Compile("^(?:" + c.bench + ")$")
	if err != nil {
		return "", fmt.Errorf("claim %q: %w", c.what, err)
	}
	for _, l := range lines {
		if !name.MatchString(l.name) {
			continue
		}
		value, ok := l.figures[c.unit]
		switch {
		case !ok && c.needs != "":
			return "", nil
		case !ok:
			return "", fmt.Errorf("%s reports no %s", l.name, c.unit)
		}
		if c.scale != 0 {
			value *= c.scale
		}
		var beside []string
		for _, unit := range c.beside {
			beside = append(beside, fmt.Sprintf("%.4g %s", l.figures[unit], unit))
		}
		return fmt.Sprintf("| %s | "+c.written+" | %s | %s | %s |", c.what, value, strings.Join(beside, ", "), c.bound(), c.met(value)), nil
	}
	return "", fmt.Errorf("no benchmark is called %s: %s cannot be measured", c.bench, c.what)
}

func (c claim) bound() string {
	switch {
	case c.goal == 0:
		return ""
	case c.atMost:
		return fmt.Sprintf("at most "+c.written, c.goal)
	default:
		return fmt.Sprintf("at least "+c.written, c.goal)
	}
}

func (c claim) met(value float64) string {
	switch {
	case c.goal == 0:
		return ""
	case c.atMost == (value <= c.goal) || value == c.goal:
		return "met"
	default:
		return "NOT MET"
	}
}
