package cluster

import (
	"fmt"
	"os"
	"syscall"
)

// dieWithParent asks the kernel for a fast shutdown when our program is killed.
func dieWithParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGINT }

// runsIn reports whether pid is a server whose cluster is data: PostgreSQL makes
// the cluster its working folder.
func runsIn(pid int, data string) bool {
	cwd, err := os.Stat(fmt.Sprintf("/proc/%d/cwd", pid))
	if err != nil {
		return false // gone, or of another user, which cannot be our server
	}
	folder, err := os.Stat(data)
	return err == nil && os.SameFile(cwd, folder)
}
