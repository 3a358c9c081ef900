//go:build linux && (amd64 || arm64)

package starlark_test

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"understudy/sandbox/starlark"
)

const confinedProbe = "UNDERSTUDY_TEST_CONFINED"

// TestConfinedProbe is a process that confines itself as a child does and then
// tries what a domain must not: TestChildIsConfined starts it.
func TestConfinedProbe(t *testing.T) { //nolint:paralleltest // it gives up its process
	if os.Getenv(confinedProbe) == "" {
		t.Skip("started by TestChildIsConfined")
	}
	if err := starlark.Confine(); err != nil {
		t.Fatal(err)
	}
	try := func(what string, err error) { fmt.Printf("%s: %v\n", what, err) }
	_, err := os.ReadFile("/etc/passwd")
	try("read", err)
	try("write", os.WriteFile("/tmp/understudy-confined", nil, 0o600))
	_, err = net.Dial("tcp", "127.0.0.1:1") //nolint:noctx // it must fail at once
	try("dial", err)
	_, err = net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // it must fail at once
	try("listen", err)
	try("run", exec.Command("/bin/true").Run()) //nolint:noctx // it must fail at once
	try("kill", syscall.Kill(os.Getppid(), 0))
	done := make(chan string)
	go func() { done <- "threads go on" }()
	fmt.Println(<-done)
}

// TestChildIsConfined: a domain's process has no environment, and neither files,
// network, programs nor other processes.
func TestChildIsConfined(t *testing.T) {
	t.Parallel()
	env := bomb(t)
	if _, err := env.Tools(t.Context()); err != nil {
		t.Fatal(err)
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", starlark.ChildPID(env)))
	if err != nil {
		t.Fatal(err)
	}
	for _, holds := range []string{"NoNewPrivs:\t1", "Seccomp:\t2"} {
		if !strings.Contains(string(status), holds) {
			t.Errorf("the child's status does not say %q", holds)
		}
	}
	if variables, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", starlark.ChildPID(env))); err != nil || len(variables) > 0 {
		t.Errorf("the child's environment is %q, %v, want none", variables, err)
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestConfinedProbe$")
	cmd.Env = []string{confinedProbe + "=1"}
	out, err := cmd.CombinedOutput()
	for _, what := range []string{"read", "write", "dial", "listen", "run", "kill"} {
		line := what + ": "
		at := strings.Index(string(out), line)
		if at < 0 || !strings.Contains(strings.SplitN(string(out)[at:], "\n", 2)[0], "not permitted") {
			t.Errorf("a confined process may %s (%v):\n%s", what, err, out)
		}
	}
	if !strings.Contains(string(out), "threads go on") {
		t.Errorf("a confined process does not work:\n%s", out)
	}
}
