package cuda

import (
	"bytes"
	"cmp"
	"hash/maphash"
	"slices"
	"sync/atomic"
	"unsafe"
)

// mostDecoding is the rows of a decode batch at most.
const mostDecoding = 512

// Padded is the size of the graph that serves so many rows: 1, 2, 4, or a multiple of 8; of 16 above 256.
// More are no decode batch, and cost more than a graph saves.
func (d *Device) Padded(rows int) int {
	switch {
	case rows <= 2 || rows > mostDecoding:
		return rows
	case rows <= 4:
		return 4
	case rows <= 256:
		return ceil(rows, 8) * 8
	}
	return ceil(rows, 16) * 16
}

// Bounds of graphs.
const (
	shortList = 16   // commands that are not worth a graph
	longList  = 4096 // commands of a list at most
	mostKept  = 64   // graphs that are kept: the padded batch sizes of a generator and a trainer's shapes
)

// graphs replays lists of commands that come again, as CUDA graphs: decode steps that are padded to the
// same number of rows are the same commands on the same addresses, from the copy of their
// indices to their logits, until one has twice as many keys (Device.splits). A list is launched plainly the first time, captured
// the second, and one launch from then on.
type graphs struct {
	seed    maphash.Seed
	seen    map[uint64]bool
	kept    map[uint64]*graph
	last    *graph // that ran: often the next one, too
	clock   uint64
	names   map[uint64]string // of kernels, for errors
	replays int
	off     bool
	refused atomic.Pointer[error] // why, when it was the driver's doing
}

// graph is a captured list.
type graph struct {
	list []command
	exec uintptr
	used uint64
}

func (g *graphs) nameOf(fn uint64) string { return g.names[fn] }

// run gives a list to the stream, as a graph when it was seen before. A driver that makes no graph of it makes
// none from then on: lists run without, too. A lost card is another matter.
func (g *graphs) run(t *thread, list []command) error {
	if g.off || len(list) < shortList {
		return t.enqueue(list)
	}
	g.clock++
	found, err := g.find(t, list)
	if found != nil && err == nil {
		found.used, g.last = g.clock, found
		if err = t.driver.call("launch a graph", t.driver.graphLaunch, found.exec, t.stream); err == nil {
			return nil
		}
	}
	if isLost(err) {
		return err
	}
	if err != nil {
		g.off = true
		g.refused.Store(&err)
	}
	return t.enqueue(list)
}

// find gives the graph of a list, made now when the list was seen once before; nil when it was not.
func (g *graphs) find(t *thread, list []command) (*graph, error) {
	if g.last.is(list) {
		g.replays++
		return g.last, nil
	}
	key := maphash.Bytes(g.seed, bytesOf(list))
	if known := g.kept[key]; known.is(list) {
		g.replays++
		return known, nil
	}
	if !g.seen[key] {
		if len(g.seen) >= 16*mostKept {
			clear(g.seen)
		}
		g.seen[key] = true
		return nil, nil //nolint:nilnil // no graph is no failure
	}
	captured, err := g.capture(t, list)
	if err != nil {
		return nil, err
	}
	return captured, g.keep(t, key, captured)
}

// is says whether g was captured of this list; nil of none.
func (g *graph) is(list []command) bool {
	return g != nil && bytes.Equal(bytesOf(g.list), bytesOf(list))
}

// capture records a list. The mode is THREAD_LOCAL (1): other threads' calls are theirs.
func (g *graphs) capture(t *thread, list []command) (*graph, error) {
	d := t.driver
	if err := d.call("begin a capture", d.captureBegin, t.stream, 1); err != nil {
		return nil, err
	}
	failed := t.enqueue(list)
	var recorded uintptr
	ended := d.call("end a capture", d.captureEnd, t.stream, uintptr(unsafe.Pointer(&recorded)))
	if err := cmp.Or(failed, ended); err != nil {
		if recorded != 0 {
			_ = d.call("free a graph", d.graphDestroy, recorded)
		}
		return nil, err
	}
	kept := &graph{list: slices.Clone(list)}
	err := d.call("make a graph", d.graphInstantiate, uintptr(unsafe.Pointer(&kept.exec)), recorded, 0)
	return kept, cmp.Or(err, d.call("free a graph", d.graphDestroy, recorded))
}

// keep remembers a graph, in place of the one that was not used for longest.
func (g *graphs) keep(t *thread, key uint64, captured *graph) error {
	if old := g.kept[key]; old != nil || len(g.kept) >= mostKept {
		oldest := key
		if old == nil {
			for k, x := range g.kept {
				if oldest == key || x.used < g.kept[oldest].used {
					oldest = k
				}
			}
		}
		if err := g.forget(t, oldest); err != nil {
			return err
		}
	}
	g.kept[key] = captured
	return nil
}

// forget frees a graph; the driver keeps what is still running.
func (g *graphs) forget(t *thread, key uint64) error {
	old := g.kept[key]
	delete(g.kept, key)
	if g.last == old {
		g.last = nil
	}
	return t.driver.call("free a graph", t.driver.execDestroy, old.exec)
}
