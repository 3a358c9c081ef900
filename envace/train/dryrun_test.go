package train_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"understudy/audit"
	"understudy/envace/cm2"
	"understudy/envace/judge"
	"understudy/envace/remote"
	"understudy/envace/train"
	"understudy/gpu"
	"understudy/gpu/host"
)

// dry is a dry run of a paper recipe on the built-in conversations, judged by a
// scripted server.
func dry(t *testing.T, recipe string, decide func(body string) (int, string)) train.Dry {
	t.Helper()
	server := httptest.NewServer(judge.Scripted(decide))
	t.Cleanup(server.Close)
	completer, err := remote.NewCompleter(remote.Config{URL: server.URL, Retries: -1})
	if err != nil {
		t.Fatal(err)
	}
	d := train.Dry{
		Arm: train.ArmEnvACE, Seed: 1, Judge: judge.Asking(completer), Progress: func(line string) { t.Log(line) },
		Runtime: train.Runtime{Out: t.TempDir(), Device: func(mode gpu.Mode) (gpu.Device, error) { return host.New(host.Options{Mode: mode, Threads: 1}) }},
	}
	if d.Recipe, err = train.ReadRecipe(recipe); err != nil {
		t.Fatal(err)
	}
	var faults []cm2.Fault
	if d.Samples, faults, err = cm2.Read(cm2.BuiltIn()); err != nil || len(faults) > 0 {
		t.Fatal(err, faults)
	}
	return d
}

// The paper's recipe is run: everything real but small. What the judge says means
// nothing; that both roles speak, that rewards reach the loss, that the engine's
// log-probabilities are those of training in the chat format, too (traps 2 and 5), and
// that an evaluation leaves the weights alone does.
func TestDryRun(t *testing.T) {
	t.Parallel()
	report, err := dry(t, "paper-qwen3-8b", judge.ByHash).Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if report.Before != report.After || report.Before.IsZero() {
		t.Errorf("weights before the evaluation %s, after it %s", report.Before, report.After)
	}
	if len(report.Evaluated) != 2 || !report.Evaluated[1].Unexecuted || report.Evaluated[1].Tasks[0].Samples != 2 {
		t.Errorf("evaluations %+v", report.Evaluated)
	}
	var steps []map[string]float64
	for _, metrics := range report.Steps {
		step := map[string]float64{}
		for _, m := range metrics {
			step[m.Name+"/"+string(m.Role)] = m.Value
		}
		if _, trained := step["tokens/"]; trained {
			steps = append(steps, step)
		}
	}
	if len(steps) != 2 {
		t.Fatalf("%d training steps in %v", len(steps), report.Steps)
	}
	for i, step := range steps {
		if step["ratio_gap/"] != 0 || step["clip_fraction/"] != 0 || step["length/act"] == 0 || step["length/rehearse"] == 0 || step["reward/"] == 0 {
			t.Errorf("step %d: %v", i+1, step)
		}
	}
	if rate, asked := steps[1][train.MetricFlipRate+"/"]; !asked || rate != 0 {
		t.Errorf("flip rate %v, measured: %v; a judge by hash never changes its mind", rate, asked)
	}
	lowered := map[string]string{}
	for _, l := range report.Lowered {
		lowered[l.Key] = l.From + " " + l.To
	}
	for key, want := range map[string]string{"model.layers": "36 2", "rollout.response_tokens": "8000 48", "steps": "470 2", "model.weights": "the folder's random"} {
		if lowered[key] != want {
			t.Errorf("lowered %s: %q, want %q", key, lowered[key], want)
		}
	}
}

// A judge that fails for good stops the run, and what an arm lacks is said before
// anything is trained.
func TestDryRunStops(t *testing.T) {
	t.Parallel()
	d := dry(t, "paper-qwen3-1.7b", func(string) (int, string) { return http.StatusUnauthorized, "" })
	for arm, want := range map[train.Arm]string{
		train.ArmSimulator: "--policy", train.ArmSandbox: "recipe with an environment", train.ArmCalibrated: "take the arm envace",
	} {
		d.Arm, d.Runtime.Out = arm, t.TempDir()
		if _, err := d.Run(t.Context()); audit.ErrorCode(err) != audit.CodeInvalid || !strings.Contains(audit.ErrorHint(err), want) {
			t.Errorf("%s without its world: %v", arm, err)
		}
	}
	d.Arm, d.Runtime.Out = train.ArmRecorded, t.TempDir() // the conversations are its recordings
	d.Samples[1].Items = d.Samples[1].Items[:2]           // so that the warm start is short
	if _, err := d.Run(t.Context()); audit.ErrorCode(err) != audit.CodeUnauthorized || !strings.Contains(audit.ErrorHint(err), "--judge-key") {
		t.Errorf("the run ended with %v", err)
	}
}
