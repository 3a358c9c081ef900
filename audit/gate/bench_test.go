package gate_test

import (
	"strconv"
	"testing"

	"understudy/audit"
	"understudy/audit/gate"
)

// BenchmarkDecide decides on 50 tools with three figures of 200 prompt groups.
func BenchmarkDecide(b *testing.B) {
	for _, looks := range []gate.Looks{gate.Anytime, gate.Once} {
		b.Run(string(looks), func(b *testing.B) {
			p := load(b, "looks: "+string(looks)+"\ndefaults: {fsr: {max: 0.1}, leaf_f1: {min: 0.9}, material: {max: 0.2}}")
			var counts []audit.ToolCounts
			for i := range 50 {
				c := tool("t"+strconv.Itoa(i), audit.FigureFSR, 200, 8, 0, 1, 0, 2)
				c.Groups[audit.FigureLeafF1] = tool("", audit.FigureLeafF1, 200, 8, 8, 7, 8).Groups[audit.FigureLeafF1]
				c.Groups[audit.FigureMaterial] = c.Groups[audit.FigureFSR]
				counts = append(counts, c)
			}
			e := evidence(counts...)
			checks := 0
			for b.Loop() {
				checks += len(decide(p, e).Checks)
			}
			b.ReportMetric(float64(checks)/b.Elapsed().Seconds(), "checks/s")
		})
	}
}
