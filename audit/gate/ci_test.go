package gate_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
)

// TestActionFile lints the GitHub Action: every input is declared and used, and
// none is pasted into a script, where it would be run.
func TestActionFile(t *testing.T) {
	text, err := os.ReadFile("../../.ci/gate/action.yml")
	if err != nil {
		t.Fatal(err)
	}
	var action struct {
		Name, Description string
		Inputs            map[string]struct {
			Description string
			Required    bool
			Default     string
		}
		Runs struct {
			Using string
			Steps []struct {
				Name, If, Shell, Run, Uses string
				Env, With                  map[string]string
			}
		}
	}
	if err := yaml.UnmarshalWithOptions(text, &action, yaml.Strict()); err != nil {
		t.Fatal(err)
	}
	if action.Name == "" || action.Runs.Using != "composite" || len(action.Runs.Steps) == 0 {
		t.Fatalf("no composite action: %+v", action)
	}
	for name := range action.Inputs {
		if action.Inputs[name].Description == "" || !strings.Contains(string(text), "inputs."+name) {
			t.Errorf("input %s is not described or not used", name)
		}
	}
	for _, m := range regexp.MustCompile(`inputs\.([a-z_]+)`).FindAllStringSubmatch(string(text), -1) {
		if _, ok := action.Inputs[m[1]]; !ok {
			t.Errorf("input %s is used and not declared", m[1])
		}
	}
	for _, step := range action.Runs.Steps {
		if (step.Run == "") == (step.Uses == "") || step.Run != "" && step.Shell == "" {
			t.Errorf("step %q needs a script with a shell, or an action", step.Name)
		}
		if strings.Contains(step.Run, "${{") {
			t.Errorf("step %q pastes an expression into its script", step.Name)
		}
		for _, m := range regexp.MustCompile(`\$([A-Z_]+)`).FindAllStringSubmatch(step.Run, -1) {
			if _, ok := step.Env[m[1]]; !ok {
				t.Errorf("step %q uses %s, which nothing sets", step.Name, m[1])
			}
		}
	}
}

// TestGitLabSnippet lints the job: GitLab's own keys, and the exit status of
// INCONCLUSIVE.
func TestGitLabSnippet(t *testing.T) {
	text, err := os.ReadFile("../../.ci/gate/gitlab.yml")
	if err != nil {
		t.Fatal(err)
	}
	var file map[string]struct {
		Stage        string            `yaml:"stage"`
		Variables    map[string]string `yaml:"variables"`
		Script       []string          `yaml:"script"`
		AllowFailure struct {
			ExitCodes []int `yaml:"exit_codes"`
		} `yaml:"allow_failure"`
		Artifacts struct {
			When    string            `yaml:"when"`
			Paths   []string          `yaml:"paths"`
			Reports map[string]string `yaml:"reports"`
		} `yaml:"artifacts"`
	}
	if err := yaml.UnmarshalWithOptions(text, &file, yaml.Strict()); err != nil {
		t.Fatal(err)
	}
	job, ok := file["understudy-gate"]
	if !ok || len(job.Script) != 1 || !slices.Equal(job.AllowFailure.ExitCodes, []int{2}) || job.Artifacts.Reports["junit"] == "" {
		t.Errorf("job %+v", job)
	}
}
