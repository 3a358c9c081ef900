package pyclass

import (
	"os"
	"os/exec"
	"os/user"
	"strconv"
	"strings"
	"syscall"
)

// namespaces keep a class from the network and from other processes, which it can
// neither see nor signal; its own end with the runner.
const namespaces = syscall.CLONE_NEWNET | syscall.CLONE_NEWIPC | syscall.CLONE_NEWUTS | syscall.CLONE_NEWPID

// jails lists, strongest first, the ways to start the runner on Linux. The
// caller tries them in order; each says what it holds.
func jails(readsFiles bool) []jail {
	always := "memory and file writes limited, empty environment"
	if os.Geteuid() != 0 {
		return []jail{
			{always + ", no network, no other processes", func(cmd *exec.Cmd) {
				cmd.SysProcAttr = &syscall.SysProcAttr{
					Cloneflags:  syscall.CLONE_NEWUSER | namespaces,
					UidMappings: []syscall.SysProcIDMap{{ContainerID: os.Geteuid(), HostID: os.Geteuid(), Size: 1}},
					GidMappings: []syscall.SysProcIDMap{{ContainerID: os.Getegid(), HostID: os.Getegid(), Size: 1}},
				}
			}},
			{always + "; WEAKER THAN ASKED: the network is open and this user's other processes can be reached (no user namespaces here)", func(*exec.Cmd) {}},
		}
	}
	credential := nobody()
	who := ", as user nobody"
	if readsFiles || credential == nil {
		credential, who = nil, "; WEAKER THAN ASKED: runs as root, because the class is a file that may be root's alone"
	}
	return []jail{
		{always + ", no network, no other processes" + who, func(cmd *exec.Cmd) {
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: credential, Cloneflags: namespaces}
		}},
		{always + who + "; WEAKER THAN ASKED: the network is open and other processes of the user can be reached (no namespaces here)", func(cmd *exec.Cmd) {
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: credential}
		}},
		{always + "; WEAKER THAN ASKED: runs as root with an open network, and reaches every process", func(*exec.Cmd) {}},
	}
}

func nobody() *syscall.Credential {
	account, err := user.Lookup("nobody")
	if err != nil {
		return nil
	}
	uid, uidErr := strconv.ParseUint(account.Uid, 10, 32)
	gid, gidErr := strconv.ParseUint(account.Gid, 10, 32)
	if uidErr != nil || gidErr != nil {
		return nil
	}
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
}

// interpreters lists where to look for Python: as root the one on PATH may live
// in a folder that only root may enter.
func interpreters(asked string) []string {
	if asked != "" {
		return []string{asked}
	}
	found := []string{}
	if path, err := exec.LookPath("python3"); err == nil && !strings.Contains(path, "shims") {
		found = append(found, path)
	}
	return append(found, "/usr/bin/python3", "/usr/local/bin/python3", "python3")
}
