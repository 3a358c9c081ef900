//go:build !linux

package cluster

import (
	"context"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
)

// dieWithParent does nothing: only Linux has a parent-death signal. A server
// that outlives a killed program is stopped by the next start.
func dieWithParent(*syscall.SysProcAttr) {}

// runsIn reports whether pid is a server whose cluster is data, as its command
// line says.
func runsIn(pid int, data string) bool {
	out, err := exec.CommandContext(context.Background(), "ps", "-o", "command=", "-p", strconv.Itoa(pid)).Output()
	return err == nil && strings.Contains(string(out), "-D "+data+" ")
}
