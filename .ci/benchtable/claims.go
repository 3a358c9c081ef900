package main

import (
	"runtime"
	"strconv"
)

// claim is one speed that the project speaks of: where it is measured, and what it
// is to be compared with. Ratios are of the same run.
type claim struct {
	what    string
	bench   string // the benchmark's name, as its line has it, without -GOMAXPROCS
	unit    string // of the figure in that line
	scale   float64
	written string   // how the figure is written, with one verb
	beside  []string // other units of the same line, printed after it
	goal    float64  // 0 = none
	atMost  bool     // the goal is an upper bound
	needs   string   // another library, without which the line lacks the figure; "" = nothing
}

// run is one go test that measures some claims.
type run struct {
	pkg, pattern, time string
	claims             []claim
}

// elsewhere are the claims that this table leaves to targets of their own.
func elsewhere() []string {
	return []string{
		"- anything on a GPU: none was looked for; where there is one, gpu/cuda/bench.sh",
		"- memory over 1,000,000 audits: make memory",
		"- pages over 1,000,000 pairs and 10,000,000 rollups: make bench-web",
	}
}

const openBLAS = "OpenBLAS (Debian: libopenblas0)"

func runs() []run {
	return []run{
		{"./audit/ledger/cluster", "^BenchmarkStart$", "3x", []claim{
			{what: "the first start of a private PostgreSQL, which makes it", bench: "BenchmarkStart/make", unit: "ns/op", scale: 1e-6, written: "%.0f ms", goal: 2000, atMost: true},
			{what: "each start after it", bench: "BenchmarkStart/reopen", unit: "ns/op", scale: 1e-6, written: "%.0f ms"},
		}},
		{"./sandbox/starlark", "^BenchmarkCancelOrder$/^tau2$", "1s", []claim{
			{what: "a write in the sandbox, tau2's retail, against deep copy and diff", bench: "BenchmarkCancelOrder/tau2", unit: "ratio", written: "%.0f times", beside: []string{"calls/cpu-s"}, goal: 50},
		}},
		{"./audit/diff", "^BenchmarkAgainstGoCmp$", "1s", []claim{
			{what: "comparing a 1 kB pair, against go-cmp", bench: "BenchmarkAgainstGoCmp", unit: "x_go-cmp", written: "%.1f times", beside: []string{"cpu_us_ours"}, goal: 10},
		}},
		{"./audit/queue", "^BenchmarkAuditsInSandbox$/^workers=2$", "3000x", []claim{
			{what: "audits end to end, against a plain batched INSERT", bench: "BenchmarkAuditsInSandbox/workers=2", unit: "of-plain", written: "%.2f", beside: []string{"audits/s", "cpu-µs/audit", "postgres-µs/audit"}, goal: .25},
		}},
		{"./audit/queue", "^BenchmarkHook$/^samples=1$", "20x", []claim{
			{what: "calibration rewards, 256 outputs committed, median", bench: "BenchmarkHook/samples=1", unit: "p50-ms", written: "%.0f ms", beside: []string{"p99-ms", "audits/s"}, goal: 120, atMost: true},
			{what: "the same, audits a second against the plain audit", bench: "BenchmarkHook/samples=1", unit: "of-audit", written: "%.2f", goal: 1},
		}},
		{"./sandbox/pyclass", "^BenchmarkAudit$", "1s", []claim{
			{what: "audited calls of Python classes", bench: "BenchmarkAudit", unit: "calls/s", written: "%.0f a second"},
		}},
		{"./sandbox/mcp", "^BenchmarkCall$/^stdio$", "1s", []claim{
			{what: "a call of an MCP server over stdio", bench: "BenchmarkCall/stdio", unit: "ns/op", scale: 1e-6, written: "%.2f ms"},
		}},
		{"./web/dashboard", "^BenchmarkPages$/^(overview|tools|call)$", "50x", []claim{
			{what: "overview over 10,000 pairs, 95th percentile", bench: "BenchmarkPages/overview", unit: "p95-ms", written: "%.0f ms", goal: 100, atMost: true},
			{what: "tools", bench: "BenchmarkPages/tools", unit: "p95-ms", written: "%.0f ms", goal: 100, atMost: true},
			{what: "call", bench: "BenchmarkPages/call", unit: "p95-ms", written: "%.0f ms", goal: 150, atMost: true},
		}},
		{"./gpu/tokenizer", "^BenchmarkEncode$", "1s", []claim{
			{what: "tokenizer, code", bench: "BenchmarkEncode/.*code", unit: "MB/s", written: "%.1f MB/s", goal: 5},
			{what: "tokenizer, fuzzed Unicode", bench: "BenchmarkEncode/.*unicode", unit: "MB/s", written: "%.1f MB/s", goal: 5},
		}},
		{"./gpu/host", "^BenchmarkBLAS$/./^(512|1024|16x2048x2048)$/^(NN|NT|packed)$", "1s", []claim{
			{what: "GEMM 512, one thread, of OpenBLAS, median", bench: "BenchmarkBLAS/.*/512/NN", unit: "median-%-of-openblas", written: "%.0f %%", beside: []string{"GFLOP/s"}, goal: 80, needs: openBLAS},
			{what: "GEMM 512, second operand transposed", bench: "BenchmarkBLAS/.*/512/NT", unit: "median-%-of-openblas", written: "%.0f %%", beside: []string{"GFLOP/s"}, goal: 80, needs: openBLAS},
			{what: "GEMM 1024", bench: "BenchmarkBLAS/.*/1024/NN", unit: "median-%-of-openblas", written: "%.0f %%", beside: []string{"GFLOP/s"}, goal: 80, needs: openBLAS},
			{what: "GEMM 1024, second operand transposed", bench: "BenchmarkBLAS/.*/1024/NT", unit: "median-%-of-openblas", written: "%.0f %%", beside: []string{"GFLOP/s"}, goal: 80, needs: openBLAS},
			{what: "GEMM 16x2048x2048, packed weights", bench: "BenchmarkBLAS/.*/16x2048x2048/packed", unit: "median-%-of-openblas", written: "%.0f %%", beside: []string{"GFLOP/s"}, goal: 150, needs: openBLAS},
		}},
		{"./gpu/host", "^BenchmarkDecode$/./^threads=1$", "2s", []claim{
			{what: "decode of a 135M shape, 16 sequences, float32, of the machine's bound, one thread", bench: "BenchmarkDecode/f32/threads=1", unit: "%-of-bound", written: "%.0f %%", beside: []string{"%-of-memory", "%-of-products", "tokens/s"}, goal: 80},
			{what: "the same in bfloat16", bench: "BenchmarkDecode/bf16/threads=1", unit: "%-of-bound", written: "%.0f %%", beside: []string{"%-of-memory", "%-of-products", "tokens/s"}, goal: 80},
		}},
		{"./gpu", "^BenchmarkTraining$/^threads=" + strconv.Itoa(runtime.GOMAXPROCS(0)) + "$", "2s", []claim{
			{what: "training, d=256, 6 layers, on all processors", bench: "BenchmarkTraining/.*", unit: "tokens/s", written: "%.0f tokens/s"},
			{what: "training, d=256, 6 layers, against PyTorch eager", bench: "BenchmarkTraining/.*", unit: "of-torch", written: "%.2f times", goal: 1, needs: "PyTorch and transformers (UNDERSTUDY_TORCH=python)"},
		}},
		{"./gpu", "^BenchmarkSharedPrompt$", "2s", []claim{
			{what: "training 8 rollouts as a tree, against whole sequences", bench: "BenchmarkSharedPrompt", unit: "times-whole", written: "%.1f times", beside: []string{"text-tokens/s"}},
		}},
		{"./gpu", "^BenchmarkRecipe$/^(train|decode)$/^(tree|64)$", "1s", []claim{
			{what: "training on the recipe tiny's shape as a tree, one thread", bench: "BenchmarkRecipe/train/tree", unit: "tokens/s", written: "%.0f tokens/s"},
			{what: "decode of 64 rollouts of it", bench: "BenchmarkRecipe/decode/64", unit: "tokens/s", written: "%.0f tokens/s"},
		}},
		{"./gpu/generate", "^BenchmarkSharing$", "1x", []claim{
			{what: "8 rollouts of 600+64 tokens, prefix shared, against one by one", bench: "BenchmarkSharing", unit: "×one-by-one-cpu", written: "%.1f times", beside: []string{"×one-batch-cpu"}, goal: 3},
		}},
	}
}
