package chart_test

import (
	"encoding/xml"
	"errors"
	"flag"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"understudy/web/chart"
)

var update = flag.Bool("update", false, "write the golden drawings anew")

// charts are one of each kind, with the odd values that data brings.
func charts() map[string]chart.Chart {
	nan, inf := math.NaN(), math.Inf(1)
	return map[string]chart.Chart{
		"line": chart.Line{
			Title: "Fidelity", Desc: "By checkpoint.", XName: "checkpoint", Percent: true, Series: []chart.Series{
				{Name: "faithful", Class: "c3", Points: []chart.Point{{X: 0, Label: "step 100", Y: .8, Lo: .7, Hi: .9, N: 40, Href: "/?run=a"}, {X: 1, Label: "step 200", Y: .9, Lo: .85, Hi: .95, N: 50}}},
				{Name: "unbounded <b>", Class: "c2", Points: []chart.Point{{X: 0, Y: .1, Lo: -inf, Hi: inf, N: 1}, {X: 1, Y: nan}}},
			},
		},
		"stairs": chart.Line{Title: "Survival", XName: "call", Percent: true, Stairs: true, Series: []chart.Series{{Name: "open", Class: "c1", Points: []chart.Point{{X: 0, Y: 1, Lo: 1, Hi: 1, N: 9}, {X: 3, Y: .6, Lo: .4, Hi: .8, N: 9}, {X: 7, Y: .5, Lo: .3, Hi: .7, N: 4}}}}},
		"quiet": chart.Line{Title: "Length", XName: "step", Series: []chart.Series{
			{Name: "envace", Class: "c1", Quiet: true, Points: []chart.Point{{X: 0, Y: 120.3, Lo: 118, Hi: 123, N: 5}, {X: 5, Y: nan, Lo: nan, Hi: nan}, {X: 10, Y: 97.5, Lo: 96, Hi: 99, N: 5}}},
			{Name: "envace", Class: "c1", Quiet: true, Unlisted: true, Points: []chart.Point{{X: 0, Y: 121, Lo: 121, Hi: 121, N: 5}, {X: 10, Y: 99, Lo: 99, Hi: 99, N: 5}}},
		}},
		"nothing":  chart.Line{Title: "Nothing", XName: "x"},
		"ladder":   chart.Ladder{Title: "Severity", Parts: []chart.Part{{Name: "S0", Class: "s0", N: 1_000_000}, {Name: "S3", Class: "s3"}, {Name: "S5", Class: "s5", N: 1}}},
		"spark":    chart.Spark{Title: "Trend", Class: "c3", Values: []float64{.9, nan, .91, .97}},
		"interval": chart.Interval{Title: "Interval", Value: .31, Lo: .24, Hi: .39, Limit: new(.1), Class: "c3"},
		"matrix": chart.Matrix{
			Title: "Outcomes", Desc: "Executed against rehearsed.", RowName: "executed", ColName: "rehearsed", Rows: []string{"ok", "not_found"}, Cols: []string{"ok", "not_found"},
			Cells: [][]chart.Cell{{{N: 12000, Href: "/calls?a=1"}, {N: 3.5}}, {{N: 7, Href: "javascript:alert(1)"}, {}}}, AlarmText: "false success", Alarm: func(i, j int) bool { return i == 1 && j == 0 },
		},
		"reliability": chart.Reliability{Title: "Reliability", Desc: "Stated against right.", Bins: []chart.Bin{{Stated: .2, Right: .1, Lo: .05, Hi: .2, N: 30}, {}, {Stated: .9, Right: .95, Lo: .8, Hi: .99, N: 60}}},
		"strip":       chart.Strip{Title: "Tokens", Values: []float64{1, .95, .6, .2, .01}},
	}
}

func TestGolden(t *testing.T) {
	t.Parallel()
	set, err := chart.New()
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range charts() {
		drawn, err := set.Draw(c)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		path := filepath.Join("testdata", name+".svg")
		if *update {
			if err := os.WriteFile(path, []byte(drawn), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if string(drawn) != string(want) {
			t.Errorf("%s is drawn otherwise than %s; look at it, then -update:\n%s", name, path, drawn)
		}
		checkSVG(t, name, string(drawn))
	}
}

// checkSVG parses a drawing: well-formed, named, and without a number that is none.
func checkSVG(t *testing.T, name, drawn string) {
	t.Helper()
	decoder := xml.NewDecoder(strings.NewReader(drawn))
	for {
		if _, err := decoder.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	for _, bad := range []string{"NaN", "Inf", "style=", "<script", "javascript:", "<b>"} {
		if strings.Contains(drawn, bad) {
			t.Errorf("%s holds %q", name, bad)
		}
	}
	if !strings.Contains(drawn, "<title>") || !strings.Contains(drawn, "<desc>") {
		t.Errorf("%s has no title or no description", name)
	}
}

// TestTwinsHoldTheNumbers compares each chart with its table.
func TestTwinsHoldTheNumbers(t *testing.T) {
	t.Parallel()
	rows := map[string]int{"line": 4, "quiet": 5, "stairs": 3, "nothing": 0, "ladder": 3, "spark": 4, "interval": 1, "matrix": 2, "reliability": 3, "strip": 5}
	for name, c := range charts() {
		twin := c.Twin()
		if twin.Caption == "" || len(twin.Rows) != rows[name] {
			t.Errorf("%s: %d rows, want %d, caption %q", name, len(twin.Rows), rows[name], twin.Caption)
		}
		for _, row := range twin.Rows {
			if len(row) != len(twin.Head) {
				t.Errorf("%s: %d cells under %d heads: %v", name, len(row), len(twin.Head), row)
			}
		}
	}
}

func TestPercentNeverRoundsToAllOrNone(t *testing.T) {
	t.Parallel()
	for x, want := range map[float64]string{0: "0.0 %", 1: "100.0 %", .99999: ">99.9 %", .00001: "<0.1 %", .314: "31.4 %", math.Inf(1): "–"} {
		if got := chart.Percent(x); got != want {
			t.Errorf("%v is written %q, want %q", x, got, want)
		}
	}
}
