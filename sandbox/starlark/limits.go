package starlark

import (
	"cmp"
	"time"
)

// Limits bound what one call may use. Zero values mean the defaults. Steps bound the work;
// the clock is for what hangs, as it also goes on while the machine does something else.
type Limits struct {
	Steps     uint64        // Starlark steps of one call; default 2,000,000
	Wall      time.Duration // of one call; default 20 s, before an audit itself gives a call up
	Bytes     int64         // charged allocations of one call; default 64 MiB
	Arguments int           // bytes of a call's arguments; default 1 MiB
	Generate  uint64        // steps of generating a state or a task list; default 500,000,000
}

func (l Limits) withDefaults() Limits {
	return Limits{
		Steps:     cmp.Or(l.Steps, 2_000_000),
		Wall:      cmp.Or(l.Wall, 20*time.Second),
		Bytes:     cmp.Or(l.Bytes, 64<<20),
		Arguments: cmp.Or(l.Arguments, 1<<20),
		Generate:  cmp.Or(l.Generate, 500_000_000),
	}
}
