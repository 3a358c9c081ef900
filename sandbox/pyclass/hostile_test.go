package pyclass_test

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"understudy/audit"
	"understudy/sandbox/pyclass"
)

const hostileClass = `
import os, socket, subprocess, sys

class Evil:
    def __init__(self, config=None):
        self.n = 0

    def environment(self):
        return {"success": True, "data": sorted(os.environ)}

    def secret(self):
        with open("/etc/shadow") as f:
            return {"success": True, "data": f.read()}

    def parent(self, pid: str):
        os.kill(int(pid), 0)
        return {"success": True, "data": "it can be signalled"}

    def shell(self, path: str):
        done = subprocess.run(["/bin/sh", "-c", "echo stolen > " + path], capture_output=True)
        return {"success": True, "data": done.returncode}

    def resolve(self):
        return {"success": True, "data": socket.getaddrinfo("example.com", 80)}

    def orphan(self):
        if os.fork() == 0:
            import time
            os.setsid()
            time.sleep(600)
            os._exit(0)
        return {"success": True}

    def shared(self):
        import mmap
        return {"success": True, "data": len(mmap.mmap(-1, 8 << 30))}

    def processes(self):
        import resource
        return {"success": True, "data": resource.getrlimit(resource.RLIMIT_NPROC)[1] <= 4096}

    def chatter(self):
        os.write(1, b'{"id": 1, "ok": {}}\n')
        os.system("echo so do programs")
        self.n += 1
        return {"success": True, "data": self.n}

    def ask(self):
        return {"success": True, "data": input()}

    def leave(self):
        sys.exit(3)

    def descriptors(self):
        return {"success": True, "data": [os.readlink("/proc/self/fd/" + fd) for fd in os.listdir("/proc/self/fd") if os.path.exists("/proc/self/fd/" + fd) and int(fd) > 2]}
`

// TestHostileClass lets a class try what the jail is for.
func TestHostileClass(t *testing.T) {
	t.Parallel()
	env, s := open(t, pyclass.Spec{
		Name: "evil", Kind: pyclass.EnvScaler, Class: "Evil", Source: hostileClass,
		Tools:  tools("environment", "secret", "parent:pid", "shell:path", "resolve", "orphan", "descriptors"),
		Config: json.RawMessage(`{}`), Memory: 256,
	})
	holds, err := env.Jail(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	seen := call(t, s, "environment", `{}`)
	for _, name := range []string{"HOME", "USER", "UNDERSTUDY", "PGPASSWORD", "DATABASE"} {
		if strings.Contains(string(seen.Raw), name) {
			t.Errorf("the environment has %s: %s", name, seen.Raw)
		}
	}
	stolen := fmt.Sprintf("/tmp/understudy-stolen-%d", os.Getpid())
	call(t, s, "shell", fmt.Sprintf(`{"path":%q}`, stolen))
	if text, err := os.ReadFile(stolen); err == nil && len(text) > 0 {
		t.Errorf("a program that the class started wrote %q", text)
	}
	_ = os.Remove(stolen)
	opened := strings.ReplaceAll(string(call(t, s, "descriptors", `{}`).Raw), `"/dev/null"`, "") // the runner's own
	if strings.Contains(opened, `"/`) || strings.Contains(opened, "socket:") {
		t.Errorf("the class has open files of ours: %s", opened)
	}
	if strings.Contains(holds, "WEAKER") {
		t.Logf("not tried, since the jail says so itself: %s", holds)
		return
	}
	for tool, args := range map[string]string{"secret": `{}`, "parent": fmt.Sprintf(`{"pid":"%d"}`, os.Getpid()), "resolve": `{}`} {
		if seen := call(t, s, tool, args); seen.Status == audit.StatusOK {
			t.Errorf("%s: %s (%s)", tool, seen.Raw, holds)
		}
	}
}

// TestClassThatDisturbs lets a class do by accident what would cost a verdict, or
// the sessions beside it: it prints and asks where the protocol was, leaves, and
// takes memory that is no data.
func TestClassThatDisturbs(t *testing.T) {
	t.Parallel()
	_, s := open(t, pyclass.Spec{
		Name: "evil", Kind: pyclass.EnvScaler, Class: "Evil", Source: hostileClass,
		Tools:  tools("chatter", "ask", "leave", "shared", "processes"),
		Config: json.RawMessage(`{}`), Memory: 256,
	})
	for i, row := range []struct {
		tool   string
		status audit.Status
		said   string
		reason string
	}{
		{"chatter", audit.StatusOK, `{"success": true, "data": 1}`, "what it prints is no reply"},
		{"ask", audit.StatusFault, "EOFError", "nobody is there to answer, and no request is lost"},
		{"leave", audit.StatusFault, "SystemExit", "it ends its call, not the runner"},
		{"shared", audit.StatusFault, "Cannot allocate memory", "shared memory is memory"},
		{"processes", audit.StatusOK, "true", "processes are counted"},
		{"chatter", audit.StatusOK, `{"success": true, "data": 2}`, "the instance is still there"},
	} {
		seen := call(t, s, row.tool, `{}`)
		said := string(seen.Raw)
		if seen.Error != nil {
			said += seen.Error.Message
		}
		if seen.Status != row.status || !strings.Contains(said, row.said) {
			t.Errorf("%d. %s: got %s %s, want %s with %q: %s", i, row.tool, seen.Status, said, row.status, row.said, row.reason)
		}
	}
}
