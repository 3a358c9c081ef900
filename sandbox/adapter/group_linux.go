package adapter

import (
	"os/exec"
	"syscall"
)

// Group gives a command that is yet to start a process group of its own, which
// dies with us: what it starts in turn ends with it.
func Group(cmd *exec.Cmd) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setpgid, cmd.SysProcAttr.Pdeathsig = true, syscall.SIGKILL
}

// KillGroup ends a started command and its group at once.
func KillGroup(cmd *exec.Cmd) {
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // gone already is as good
}
