package starlark

import (
	"errors"
	"fmt"
	"math/bits"

	"go.starlark.net/starlark"

	"understudy/sandbox/state"
)

const (
	slotBytes   = 16      // of an element in a list
	dictBytes   = 512     // of an empty dict
	maxBits     = 4096    // of an integer
	maxKey      = 10_000  // values in a tuple that is hashed; a long text counts for several
	maxRange    = 1 << 20 // elements of a range
	maxCompares = 1 << 26 // bytes of two values that are put in order
	maxVisits   = 1 << 24 // values visited by one search for an equal one
	textToil    = 128     // bytes of a text that are hashed or compared in a sixteenth of a step
	textPart    = 1 << 10 // bytes of a text that count as one part of a key
)

var (
	errBigInt  = fmt.Errorf("an integer of more than %d bits", maxBits)
	errKeySize = fmt.Errorf("a key of more than %d parts", maxKey)
	errNested  = fmt.Errorf("a value of more than %d levels", state.MaxDepth)
	errMemory  = errors.New("memory limit")
	errSteps   = errors.New("too many steps")
)

// spend charges n bytes to the call.
func (r *run) spend(n int64) error {
	if n < 0 || r.bytes+n > r.domain.limits.Bytes {
		return fmt.Errorf("%w of %d bytes", errMemory, r.domain.limits.Bytes)
	}
	r.bytes += n
	return nil
}

// spendSlots charges n elements of an element size in bytes, without overflow.
func (r *run) spendSlots(n, each int) error {
	high, low := bits.Mul64(uint64(max(n, 0)), uint64(each))
	if high != 0 || low > 1<<62 {
		return r.spend(-1)
	}
	return r.spend(int64(low))
}

// charge spends what v takes when it is copied or printed, shared parts as often
// as they occur.
func charge(thread *starlark.Thread, v starlark.Value) error {
	r := runOf(thread)
	n, err := weigh(v, r.domain.limits.Bytes-r.bytes)
	if err != nil {
		return err
	}
	return r.spend(n)
}

// weigh is the size of v as a tree, in bytes. It stops when more than most: time
// is bounded by most however often parts are shared.
func weigh(v starlark.Value, most int64) (int64, error) {
	w := scale{left: most}
	err := w.add(v, 0)
	return most - w.left, err
}

type scale struct{ left int64 }

func (w *scale) add(v starlark.Value, depth int) error {
	if depth > state.MaxDepth {
		return errNested
	}
	w.left -= slotBytes
	switch v := v.(type) {
	case starlark.String:
		w.left -= int64(len(v) + 5*controls(string(v)))
	case starlark.Int:
		if _, small := v.Int64(); !small {
			w.left -= int64(v.BigInt().BitLen()) / 3
		}
	case starlark.Tuple:
		for _, e := range v {
			if err := w.add(e, depth+1); err != nil {
				return err
			}
		}
	case *starlark.List:
		for i := range v.Len() {
			if err := w.add(v.Index(i), depth+1); err != nil {
				return err
			}
		}
	case starlark.IterableMapping:
		w.left -= dictBytes
		for _, item := range v.Items() {
			if err := errors.Join(w.add(item[0], depth+1), w.add(item[1], depth+1)); err != nil {
				return err
			}
		}
	case starlark.Iterable:
		i := v.Iterate()
		defer i.Done()
		for e := starlark.Value(nil); i.Next(&e); {
			if err := w.add(e, depth+1); err != nil {
				return err
			}
		}
	}
	if w.left < 0 {
		return errMemory
	}
	return nil
}

// controls counts the bytes that are six long when a text is printed.
func controls(s string) (n int) {
	for i := range len(s) {
		if s[i] < ' ' || s[i] == 0x7f {
			n++
		}
	}
	return n
}

// count is the number of v's elements, 0 of what has none. What does not know its
// length is counted.
func count(v starlark.Value) int {
	if n := starlark.Len(v); n >= 0 {
		return n
	}
	it, ok := v.(starlark.Iterable)
	if !ok {
		return 0
	}
	i := it.Iterate()
	defer i.Done()
	n := 0
	for e := starlark.Value(nil); i.Next(&e); {
		n++
	}
	return n
}

// hashable refuses a tuple whose hash would take long.
func hashable(v starlark.Value) error {
	if t, ok := v.(starlark.Tuple); ok {
		if parts := maxKey; !countParts(t, &parts) {
			return errKeySize
		}
	}
	return nil
}

func countParts(t starlark.Tuple, left *int) bool {
	for _, e := range t {
		if *left--; *left < 0 {
			return false
		}
		switch e := e.(type) {
		case starlark.Tuple:
			if !countParts(e, left) {
				return false
			}
		case starlark.String:
			*left -= len(e) / textPart
		}
	}
	return true
}

// bounded refuses integers that have grown too large.
func bounded(v starlark.Value, err error) (starlark.Value, error) {
	if i, ok := v.(starlark.Int); ok && err == nil {
		if _, small := i.Int64(); !small && i.BigInt().BitLen() > maxBits {
			return nil, errBigInt
		}
	}
	return v, err
}

// generateBytes is what generating a state may allocate beyond a call's limit.
const generateBytes = 1 << 30
