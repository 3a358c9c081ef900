package host

import "golang.org/x/sys/unix"

// Memory is the bytes of memory that this machine has; 0: not known.
func Memory() int64 {
	var info unix.Sysinfo_t
	if err := unix.Sysinfo(&info); err != nil {
		return 0
	}
	return int64(info.Totalram) * int64(info.Unit) //nolint:gosec // far below 2^63
}
