// Package eval plays a policy on the tasks of a benchmark and counts what came of it.
// It executes nothing itself: a task brings its world, its user and its grader.
//
//	task × samples ─► [N private attempts ─► memory] ─► one rollout ─► Verdict ─► Result, a line of a file
//	Results ─► Figures: Avg@n, pass^k, tool recall, precision and TF1, each with an interval
//	Figures of several benchmarks ─► columns ─► Overall, or what it lacks
//
//	metric.go, figures.go, column.go   the arithmetic: values in, values out
//	task.go, run.go, results.go        playing, and the file that a second run goes on with
//	world.go, tau2.go, bfcl.go, ace.go, finmcp.go   what benchmarks ask beside their checks
//	pycall.go, schema.go, user.go      their notation, and who speaks for the user
//
// What nobody could say (a server or a world that failed) is no 0: it counts in no
// figure, is reported, and is tried again by the next run.
package eval
