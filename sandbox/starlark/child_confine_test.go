//go:build linux && (amd64 || arm64)

package starlark_test

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

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
	for what, err := range reaches(os.Getppid()) {
		try(what, err)
	}
	var limit unix.Rlimit
	try("own limit", unix.Prlimit(0, unix.RLIMIT_NOFILE, &limit, nil))
	try("own limit by name", unix.Prlimit(os.Getpid(), unix.RLIMIT_NOFILE, &limit, nil))
	try("own signal", unix.Tgkill(os.Getpid(), unix.Gettid(), 0))
	_, err = unix.FcntlInt(0, unix.F_GETFL, 0)
	try("own flags", err)
	done := make(chan string)
	go func() { done <- "threads go on" }()
	fmt.Println(<-done)
}

// reaches tries what one process may do to another of its user, without any harm.
func reaches(pid int) map[string]error {
	call := func(number uintptr, args ...uintptr) error {
		var a [6]uintptr
		copy(a[:], args)
		if _, _, errno := unix.Syscall6(number, a[0], a[1], a[2], a[3], a[4], a[5]); errno != 0 {
			return errno
		}
		return nil
	}
	// A siginfo that the kernel lets a process send to another: signal 0, SI_QUEUE.
	info := [32]int32{2: -1}
	queued := uintptr(unsafe.Pointer(&info))
	var mask unix.CPUSet
	var limit unix.Rlimit
	other := uintptr(pid)
	return map[string]error{
		"rt_sigqueueinfo":   call(unix.SYS_RT_SIGQUEUEINFO, other, 0, queued),
		"rt_tgsigqueueinfo": call(unix.SYS_RT_TGSIGQUEUEINFO, other, other, 0, queued),
		"tkill":             call(unix.SYS_TKILL, other, 0),
		"tgkill":            unix.Tgkill(pid, pid, 0),
		"pidfd_send_signal": call(unix.SYS_PIDFD_SEND_SIGNAL, ^uintptr(0), 0, 0, 0),
		"prlimit64":         unix.Prlimit(pid, unix.RLIMIT_NOFILE, nil, &limit),
		"setpriority":       unix.Setpriority(unix.PRIO_PROCESS, pid, 0),
		"sched_setaffinity": errors.Join(unix.SchedGetaffinity(pid, &mask), unix.SchedSetaffinity(pid, &mask)),
		"shmget":            call(unix.SYS_SHMGET, 0x756e6465, 0, 0),
		"fcntl setown":      func() error { _, err := unix.FcntlInt(0, unix.F_SETOWN, pid); return err }(),
	}
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
	said := map[string]string{}
	for line := range strings.Lines(string(out)) {
		what, result, _ := strings.Cut(strings.TrimSpace(line), ": ")
		said[what] = result
	}
	denied := append(slices.Sorted(maps.Keys(reaches(os.Getpid()))), "read", "write", "dial", "listen", "run", "kill")
	for _, what := range denied {
		if !strings.Contains(said[what], "not permitted") {
			t.Errorf("a confined process may %s: %q (%v):\n%s", what, said[what], err, out)
		}
	}
	for _, what := range []string{"own limit", "own limit by name", "own signal", "own flags"} {
		if said[what] != "<nil>" {
			t.Errorf("a confined process may not, of itself, %s: %q", what, said[what])
		}
	}
	if !strings.Contains(string(out), "threads go on") {
		t.Errorf("a confined process does not work:\n%s", out)
	}
}
