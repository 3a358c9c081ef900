package train_test

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"understudy/audit"
	"understudy/envace"
	"understudy/envace/judge"
	"understudy/envace/train"
)

// fickle is a grader that changes its mind, and pays every rollout.
type fickle struct{ unknown bool }

func (c fickle) Grade(_ context.Context, t *envace.Trajectory) (envace.Grade, error) {
	return envace.Grade{Reward: float64(len(t.Calls())), Success: true, Unknown: c.unknown, Reason: "the judge is asleep"}, nil
}

func (fickle) Flips(_ context.Context, _ *envace.Trajectory, k int) (judge.Flips, error) {
	return judge.Flips{Items: 1, Pairs: k * (k - 1) / 2, Flips: k - 1}, nil
}

// Every so many steps the grader itself is measured: how often it flips, and how often
// the terminal checks agree with it.
func testTheGraderIsMeasured(t *testing.T, c train.Config, out string) {
	t.Helper()
	c.Grader = fickle{}
	trainer, err := train.Open(t.Context(), c, machine(out))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = trainer.Close() }()
	trainer.Recipe.Reward.CheckEvery, trainer.Recipe.Reward.CheckRollouts, trainer.Recipe.Reward.Repeats = 2, 3, 4
	seen := &kept{}
	for range 2 {
		metrics, err := trainer.Step(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		_ = seen.Write(metrics)
	}
	if _, early := seen.steps[0][train.MetricFlipRate+"/"]; early {
		t.Error("the grader was measured in step 1, not only in every second")
	}
	step := seen.steps[1]
	if step[train.MetricFlipRate+"/"] != .5 {
		t.Errorf("flip rate %v, want 3 of 6 pairs", step[train.MetricFlipRate+"/"])
	}
	// It calls everything a success: what the checks fail is overpaid, all of it.
	if agreed, over := step[train.MetricAgreement+"/"], step[train.MetricOverpaid+"/"]; agreed >= 1 || over != 1 || step[train.MetricUnderpaid+"/"] != 0 {
		t.Errorf("agreement %v, overpaid %v, underpaid %v", agreed, over, step[train.MetricUnderpaid+"/"])
	}
}

// Trap 7: when too many rollouts have no grade, the run stops and says why.
func testTooManyUnknownsStopTheRun(t *testing.T, c train.Config, out string) {
	t.Helper()
	c.Grader = fickle{unknown: true}
	trainer, err := train.Open(t.Context(), c, machine(out))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = trainer.Close() }()
	for step := range 2 { // of 16 rollouts each: 20 are needed for a share
		_, err = trainer.Step(t.Context())
		if (err != nil) != (step == 1) {
			t.Fatalf("step %d: %v", step+1, err)
		}
	}
	if audit.ErrorCode(err) != audit.CodeInfrastructure || !strings.Contains(err.Error(), "32 of 32 rollouts have no grade, the last one since the judge is asleep") {
		t.Errorf("stopped by %v", err)
	}
}

// Groups that dynamic sampling drops, as nobody could grade them, are doubted as well.
func testUnknownsOfDroppedGroupsCount(t *testing.T, c train.Config, out string) {
	t.Helper()
	c.Grader = fickle{unknown: true}
	trainer, err := train.Open(t.Context(), c, machine(out))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = trainer.Close() }()
	trainer.Recipe.Rollout.DynamicSampling = 1
	if _, err := trainer.Step(t.Context()); audit.ErrorCode(err) != audit.CodeInfrastructure || !strings.Contains(err.Error(), "32 of 32 rollouts") {
		t.Errorf("16 rollouts without a grade, and 16 in their place: %v", err)
	}
}

// What is trained on terminal checks is evaluated in imagination all the same, where
// there are none.
func testEvaluationOfTheSandboxArm(t *testing.T, c train.Config, out string) {
	t.Helper()
	c.Arm, c.Imagined, c.Grader = train.ArmSandbox, c.Grader, envace.StateChecks{}
	trainer, err := train.Open(t.Context(), c, machine(out))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = trainer.Close() }()
	seen, err := trainer.Evaluate(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(seen.Tasks) != c.Recipe.Evaluation.Tasks {
		t.Errorf("%d tasks were evaluated, want %d", len(seen.Tasks), c.Recipe.Evaluation.Tasks)
	}
}

// payer scores every rehearsal: a given one is a false success, the rest earn phi.
type payer struct {
	asked  []audit.ScoreBatch
	masked bool
}

func (p *payer) Score(_ context.Context, b audit.ScoreBatch) (audit.ScoredBatch, error) {
	p.asked = append(p.asked, b)
	scored := audit.ScoredBatch{Scores: make([]audit.Reward, len(b.Outputs))}
	for i := range scored.Scores {
		reward := audit.Reward{Status: audit.RewardScored, Phi: new(1.0), Baseline: .5, Weight: 1, Term: .5, Real: audit.Outcome{Class: audit.OK}}
		if p.masked {
			reward = audit.Reward{Status: audit.RewardMasked}
		}
		scored.Scores[i] = reward
	}
	return scored, nil
}

func (*payer) Scores(context.Context, audit.Digest, time.Duration) (audit.ScoredBatch, error) {
	return audit.ScoredBatch{}, errors.New("not asked for")
}

func testArms(t *testing.T, c train.Config, out string) {
	t.Helper()
	step := func(arm train.Arm, scorer audit.Scorer) [32]byte {
		t.Helper()
		c.Arm, c.Scorer = arm, scorer
		trainer, err := train.Open(t.Context(), c, machine(out))
		if err != nil {
			t.Fatalf("%s: %v", arm, err)
		}
		defer func() { _ = trainer.Close() }()
		if _, err := trainer.Step(t.Context()); err != nil {
			t.Fatalf("%s: %v", arm, err)
		}
		folder := t.TempDir()
		if err := trainer.Save(folder); err != nil {
			t.Fatal(err)
		}
		if arm == train.ArmPerRole {
			return weights(t, filepath.Join(folder, "step-000001", "rehearse"))
		}
		return weights(t, filepath.Join(folder, "step-000001", "policy"))
	}
	paid, unpaid := &payer{}, &payer{masked: true}
	plain := step(train.ArmEnvACE, nil)
	digests := map[string][32]byte{
		"envace": plain, "calibrated": step(train.ArmCalibrated, paid), "per-role": step(train.ArmPerRole, nil),
		"frozen rehearse": step(train.ArmFrozenRole, nil), "frozen act": step(train.ArmFrozenActor, nil), "sandbox": step(train.ArmSandbox, nil),
	}
	for a, x := range digests {
		for b, y := range digests {
			same := a == "frozen act" && b == "per-role" // both learn from REHEARSE's outputs alone
			if a < b && (x == y) != same {
				t.Errorf("%s and %s end with the same parameters: %v", a, b, x == y)
			}
		}
	}
	if step(train.ArmCalibrated, unpaid) != plain {
		t.Error("masked rewards change what is learnt: they are no term, not a term of 0")
	}
	for _, o := range paid.asked[0].Outputs {
		if o.Role != audit.RoleRehearse || o.Mode != audit.Open || o.Rehearsal == nil || *o.Step != len(o.History) {
			t.Fatalf("asked for %+v", o)
		}
	}
	if _, err := train.ParseArm("grpo"); audit.ErrorCode(err) != audit.CodeInvalid {
		t.Errorf("an arm that is not there: %v", err)
	}
	c.Arm = train.ArmSimulator
	if _, err := train.Open(t.Context(), c, machine(out)); audit.ErrorCode(err) != audit.CodeInvalid {
		t.Errorf("a simulator arm without a simulator: %v", err)
	}
}
