//go:build amd64 || arm64

package starlark

import (
	"errors"
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// confine takes from this process, and from all its threads, what a domain has no
// use for: sockets, files by name, other programs, other processes of its user. A domain's
// language has none of it either; this is for a fault of ours that a domain finds.
// Open descriptors go on: the child speaks over them. It cannot be undone.
func confine() error {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("confine: %w", err)
	}
	program := denial(deniedCalls(), ownAlone(unix.Getpid()))
	filter := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&filter)))
	if errno != 0 {
		return fmt.Errorf("confine: %w", errno)
	}
	return nil
}

// denial is a program for the kernel's filter: EPERM for the given calls, for those that
// rules do not let through, and for those of another architecture; everything else passes.
func denial(calls []uint32, rules []rule) []unix.SockFilter {
	const x32 = 0x40000000 // calls of amd64's other numbering
	p := []unix.SockFilter{
		{Code: bpfLoad, K: seccompArchitecture},
		{Code: bpfEqual, K: auditArch, Jt: 1},
		{Code: bpfAnswer, K: seccompDeny},
		{Code: bpfLoad, K: seccompNumber},
		{Code: bpfAtLeast, K: x32, Jf: 1},
		{Code: bpfAnswer, K: seccompDeny},
	}
	for _, call := range calls {
		p = append(p, unix.SockFilter{Code: bpfEqual, K: call, Jf: 1}, unix.SockFilter{Code: bpfAnswer, K: seccompDeny})
	}
	for _, r := range rules {
		p = append(p, r.program()...)
	}
	return append(p, unix.SockFilter{Code: bpfAnswer, K: seccompAllow})
}

const (
	seccompNumber       = 0 // offsets in struct seccomp_data
	seccompArchitecture = 4
	seccompArguments    = 16 // of eight bytes each, the low ones first on both architectures

	seccompAllow = unix.SECCOMP_RET_ALLOW
	seccompDeny  = unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)
	bpfLoad      = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS
	bpfEqual     = unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K
	bpfAtLeast   = unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K
	bpfAnswer    = unix.BPF_RET | unix.BPF_K
)

// rule is of a call that Go itself makes, on this process: one of its arguments, of 32
// bits, decides. The values are answered with listed, all others with other.
type rule struct {
	call          uint32
	argument      uint32
	values        []uint32
	listed, other uint32
}

// program leaves the number of the call where it found it, for what comes next.
func (r *rule) program() []unix.SockFilter {
	n := uint8(len(r.values))
	p := []unix.SockFilter{{Code: bpfEqual, K: r.call, Jf: n + 3}, {Code: bpfLoad, K: seccompArguments + 8*r.argument}}
	for i, value := range r.values {
		p = append(p, unix.SockFilter{Code: bpfEqual, K: value, Jt: n - uint8(i)})
	}
	return append(p, unix.SockFilter{Code: bpfAnswer, K: r.other}, unix.SockFilter{Code: bpfAnswer, K: r.listed})
}

// ownAlone are the rules of calls that Go's runtime makes on its own process, and that
// reach any other of the same user: a signal to a thread, limits, and who is told by a
// signal that a pipe can be read.
func ownAlone(self int) []rule {
	own := uint32(self)
	return []rule{
		{call: unix.SYS_TGKILL, values: []uint32{own}, listed: seccompAllow, other: seccompDeny},
		{call: unix.SYS_PRLIMIT64, values: []uint32{0, own}, listed: seccompAllow, other: seccompDeny},
		{call: unix.SYS_FCNTL, argument: 1, values: []uint32{unix.F_SETOWN, unix.F_SETOWN_EX, unix.F_SETSIG}, listed: seccompDeny, other: seccompAllow},
	}
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
		unix.SYS_EXECVE, unix.SYS_EXECVEAT, unix.SYS_PTRACE, unix.SYS_PROCESS_VM_READV, unix.SYS_PROCESS_VM_WRITEV,
		// What reaches other processes of the same user, PostgreSQL's among them: signals, priorities, their pages and shared memory.
		unix.SYS_KILL, unix.SYS_TKILL, unix.SYS_RT_SIGQUEUEINFO, unix.SYS_RT_TGSIGQUEUEINFO, unix.SYS_PIDFD_OPEN, unix.SYS_PIDFD_GETFD, unix.SYS_PIDFD_SEND_SIGNAL,
		unix.SYS_SETPRIORITY, unix.SYS_IOPRIO_SET, unix.SYS_SCHED_SETAFFINITY, unix.SYS_SCHED_SETATTR, unix.SYS_SCHED_SETSCHEDULER, unix.SYS_SCHED_SETPARAM,
		unix.SYS_MIGRATE_PAGES, unix.SYS_MOVE_PAGES, unix.SYS_PROCESS_MADVISE, unix.SYS_PROCESS_MRELEASE, unix.SYS_KCMP,
		unix.SYS_SHMGET, unix.SYS_SHMAT, unix.SYS_SHMCTL, unix.SYS_SEMGET, unix.SYS_SEMCTL, unix.SYS_SEMOP, unix.SYS_SEMTIMEDOP,
		unix.SYS_MSGGET, unix.SYS_MSGCTL, unix.SYS_MSGSND, unix.SYS_MSGRCV, unix.SYS_MQ_OPEN, unix.SYS_MQ_UNLINK,
		unix.SYS_BPF, unix.SYS_PERF_EVENT_OPEN, unix.SYS_IO_URING_SETUP, unix.SYS_MEMFD_CREATE, unix.SYS_KEYCTL, unix.SYS_ADD_KEY, unix.SYS_REQUEST_KEY, unix.SYS_USERFAULTFD,
	}
}
