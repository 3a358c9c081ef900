package starlark

import "golang.org/x/sys/unix"

const auditArch = unix.AUDIT_ARCH_AARCH64

// deniedCalls are the calls of confine.
func deniedCalls() []uint32 { return append(everywhere(), unix.SYS_RENAMEAT) }
