package pyclass_test

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

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

    def descriptors(self):
        return {"success": True, "data": [os.readlink("/proc/self/fd/" + fd) for fd in os.listdir("/proc/self/fd") if os.path.exists("/proc/self/fd/" + fd) and int(fd) > 2]}
`

// TestHostileClass lets a class try what the jail is for.
func TestHostileClass(t *testing.T) {
	t.Parallel()
	env, s := open(t, pyclass.Spec{
		Name: "evil", Kind: pyclass.EnvScaler, Class: "Evil", Source: hostileClass,
		Tools:  tools("environment", "secret", "parent:pid", "shell:path", "resolve", "orphan", "descriptors"),
		Config: json.RawMessage(`{}`), Timeout: 5 * time.Minute, Memory: 256,
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
