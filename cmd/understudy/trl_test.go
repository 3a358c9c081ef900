package main_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestTRL trains a tiny random model for two steps with the real TRL against a
// live service: masked outputs reach it as None, the others as finite numbers.
// UNDERSTUDY_TRL names the Python that has it (make trl).
func TestTRL(t *testing.T) {
	t.Parallel()
	python := os.Getenv("UNDERSTUDY_TRL")
	if python == "" {
		t.Skip("UNDERSTUDY_TRL names no Python: make trl")
	}
	script, err := filepath.Abs("../../web/clients/python/tests/check_trl.py")
	if err != nil {
		t.Fatal(err)
	}
	s := serve(t, nil, "--database-url", postgres.URL(t))
	cmd := exec.CommandContext(t.Context(), python, script)
	cmd.Dir = t.TempDir()
	cmd.Env = append(os.Environ(), "UNDERSTUDY_URL="+s.url, "PYTHONDONTWRITEBYTECODE=1")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Logf("%s", out)
}
