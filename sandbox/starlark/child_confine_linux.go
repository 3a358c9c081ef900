//go:build amd64 || arm64

package starlark

import (
	"errors"
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// confine takes from this process, and from all its threads, what a domain has no
// use for: sockets, files by name, other programs, other processes. A domain's
// language has none of it either; this is for a fault of ours that a domain finds.
// Open descriptors go on: the child speaks over them. It cannot be undone.
func confine() error {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("confine: %w", err)
	}
	program := denial(deniedCalls())
	filter := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&filter)))
	if errno != 0 {
		return fmt.Errorf("confine: %w", errno)
	}
	return nil
}

// denial is a program for the kernel's filter: EPERM for the given calls and for
// those of another architecture, everything else passes.
func denial(calls []uint32) []unix.SockFilter {
	const (
		number       = 0 // offsets in struct seccomp_data
		architecture = 4
		deny         = unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)
		load         = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS
		equal        = unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K
		atLeast      = unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K
		answer       = unix.BPF_RET | unix.BPF_K
		x32          = 0x40000000 // calls of amd64's other numbering
	)
	p := []unix.SockFilter{
		{Code: load, K: architecture},
		{Code: equal, K: auditArch, Jt: 1},
		{Code: answer, K: deny},
		{Code: load, K: number},
		{Code: atLeast, K: x32, Jf: 1},
		{Code: answer, K: deny},
	}
	for _, call := range calls {
		p = append(p, unix.SockFilter{Code: equal, K: call, Jf: 1}, unix.SockFilter{Code: answer, K: deny})
	}
	return append(p, unix.SockFilter{Code: answer, K: unix.SECCOMP_RET_ALLOW})
}

// unconfined reports an error of confine that means only that the kernel has no
// such filter.
func unconfined(err error) bool {
	return errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EINVAL) || errors.Is(err, unix.EPERM)
}

// everywhere are the calls that both architectures have.
func everywhere() []uint32 {
	return []uint32{
		unix.SYS_SOCKET, unix.SYS_SOCKETPAIR, unix.SYS_CONNECT, unix.SYS_BIND, unix.SYS_LISTEN, unix.SYS_ACCEPT, unix.SYS_ACCEPT4, unix.SYS_SENDTO, unix.SYS_SENDMSG,
		unix.SYS_OPENAT, unix.SYS_OPENAT2, unix.SYS_OPEN_BY_HANDLE_AT, unix.SYS_TRUNCATE, unix.SYS_UNLINKAT, unix.SYS_RENAMEAT2, unix.SYS_MKDIRAT, unix.SYS_MKNODAT,
		unix.SYS_LINKAT, unix.SYS_SYMLINKAT, unix.SYS_FCHMODAT, unix.SYS_FCHOWNAT, unix.SYS_MOUNT, unix.SYS_CHROOT, unix.SYS_PIVOT_ROOT, unix.SYS_SETNS, unix.SYS_UNSHARE,
		unix.SYS_EXECVE, unix.SYS_EXECVEAT, unix.SYS_PTRACE, unix.SYS_PROCESS_VM_READV, unix.SYS_PROCESS_VM_WRITEV, unix.SYS_KILL, unix.SYS_PIDFD_OPEN,
		unix.SYS_BPF, unix.SYS_PERF_EVENT_OPEN, unix.SYS_IO_URING_SETUP, unix.SYS_MEMFD_CREATE, unix.SYS_KEYCTL, unix.SYS_ADD_KEY, unix.SYS_REQUEST_KEY, unix.SYS_USERFAULTFD,
	}
}
