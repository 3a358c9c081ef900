package main_test

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"understudy/audit"
	"understudy/envace/train"
)

// What a person wrote of answers is read where policies are trained, evaluated and
// rehearsed, too: from the settings or from the recipe, and it stands beside the results.
func TestWrittenRulesOfATraining(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	values := map[string]string{
		"model:":      "{layers: 1, width: 32, hidden: 64, heads: 2, kv_heads: 1, head: 16, context: 256}",
		"data:":       "{source: environment, train: 24, train_seed: 11, heldout: 6, heldout_seed: 12}",
		"warm_start:": "{steps: 20, batch: 8, learning_rate: 1e-2, until: 1, every: 20, tasks: 2, explore: 0.5}",
		"evaluation:": "{every: 2, tasks: 2, samples: 1, canaries: 4}",
	}
	plain := smaller(t, t.TempDir(), "tiny", values)
	rules := d.write("rules.yaml", "version: \"1\"\ndefects:\n  - {environment: retail-mini, tool: cancel, note: it is broken}\n  - {environment: retail-mini, tool: refund, note: it is broken}\n")
	others := d.write("others.yaml", "version: \"2\"\n")
	values["steps:"] = "1\nrules: " + rules
	naming := smaller(t, t.TempDir(), "tiny", values)
	of := func(command string, args ...string) []string {
		return append([]string{command, "--recipe", plain, "--arm", "base", "--threads", "1"}, args...)
	}
	masked := func(out string) (map[audit.MaskReason]int, audit.Digest) {
		t.Helper()
		all, err := train.ReadEvaluations(filepath.Join(out, "base-s1", "evaluations.jsonl"))
		if err != nil || len(all) != 1 {
			t.Fatalf("%d evaluations in %s, %v", len(all), out, err)
		}
		return all[0].Of(audit.Forced).Masked, all[0].Rules
	}
	runs, byDefault, byRecipe := filepath.Join(d.dir, "runs"), filepath.Join(d.dir, "default"), filepath.Join(d.dir, "recipe")
	d.do(0, of("train", "--out", byDefault)...)
	name := regexp.MustCompile(`answers were read by the rules ([0-9a-f]{16})\n`).FindStringSubmatch(d.do(0, of("train", "--out", runs, "--rules", rules)...))
	if name == nil {
		t.Fatal("the table does not say by which rules")
	}
	d.says(d.do(0, "train", "--recipe", naming, "--arm", "base", "--threads", "1", "--out", byRecipe), name[0])
	if n, digest := masked(byDefault); len(n) != 0 || !digest.IsZero() {
		t.Errorf("by the defaults %v answers are masked, of rules %s", n, digest)
	}
	for _, out := range []string{runs, byRecipe} {
		if n, digest := masked(out); len(n) == 0 || digest.String()[:16] != name[1] {
			t.Errorf("%s: %v answers are masked, of rules %s; want those of the defects, of %s", out, n, digest, name[1])
		}
	}
	d.says(d.do(3, of("train", "--out", runs)...), "read by the rules "+name[1], "by the defaults", "hint: ", "--path-policy")
	d.says(d.do(3, of("train", "--out", byDefault, "--rules", others)...), "read by the defaults", "by the rules ")

	journal := filepath.Join(d.dir, "journal.jsonl")
	d.says(d.do(0, of("rehearse", "--out", runs, "--rules", rules, "--approve", "no", "--journal", journal)...), "answers are read by the rules "+name[1])
	if text, err := os.ReadFile(journal); err != nil || !regexp.MustCompile(`"phase":"done".*"rules":"`+name[1]).Match(text) {
		t.Errorf("the journal is %s, %v; want an execution with the digest of the rules", text, err)
	}
	eval := of("eval", "--run", runs, "--out", filepath.Join(d.dir, "results"), "--tasks", "2", "--samples", "1")
	d.says(d.do(0, append(eval, "--rules", rules)...), "answers are read by the rules "+name[1])
	d.says(d.do(3, append(eval, "--rules", others)...), "results of another run", "rules was "+name[1])
	d.says(d.do(3, eval...), "results of another run", "rules was "+name[1])
	for _, command := range [][]string{of("train", "--out", byRecipe), of("rehearse", "--out", runs), eval} {
		d.says(d.do(3, append(command, "--rules", "nowhere.yaml")...), "nowhere.yaml", "hint: name an existing file")
	}
}
