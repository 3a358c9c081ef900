package cuda

import (
	"fmt"
	"math"
	"math/bits"
	"slices"

	"understudy/gpu"
)

// Sizes that launches and the kernels of attention (kernels/attend.h) agree on.
const (
	attendThreads = 128 // a block: four warps
	tileQueries   = 16  // queries of a block, a query being a row and a head
	flashQueries  = 64  // those of a block on tensor cores
	splitKeys     = 128 // keys after which a query's sums are merged
	widestHead    = 128

	queriesEach   = 256           // of a multiprocessor: more need no more blocks from splitting their keys
	mostSplitSums = 256 << 20 / 4 // floats of scratch for the sums of splits
)

// headKernel is the kernel of a family for heads of width d, or a refusal.
func (d *Device) headKernel(family string, width int) string {
	for _, w := range []int{32, 64, widestHead} {
		if width <= w {
			return fmt.Sprintf("%s_d%d", family, w)
		}
	}
	d.refuse(fmt.Errorf("cuda device: heads of width %d: its attention takes up to %d", width, widestHead))
	return ""
}

// family is the kernels of attention and the queries of a block: those of float32, or those of tensor cores.
func (d *Device) family() (prefix string, tile int) {
	if d.Products == gpu.BF16 {
		return "flash", flashQueries
	}
	return "attend", tileQueries
}

// Attend is causal attention within packed sequences, a block a tile of queries of a key head.
func (d *Device) Attend(a gpu.Attention) {
	prefix, tile := d.family()
	t, name := a.Starts.Len, d.headKernel(prefix, a.D)
	if t == 0 || name == "" || !d.activations("Attend", a.Out, a.Q, a.K, a.V) {
		return
	}
	d.launch(name, plane(ceil(t*a.H/a.G, tile), a.G), block(attendThreads), ptr(a.Out), ptr(a.LSE), ptr(a.Q), ptr(a.K), ptr(a.V),
		ptr(a.Starts), ptr(a.Asked), i32(t), i32(a.H), i32(a.G), i32(a.D), f32(a.Scale))
}

// KVType is BF16 where what attention reads is rounded to it.
func (o Options) KVType() gpu.DType {
	return o.Products
}

// StoreKV writes keys and values of rows into their slots, a thread an element, unless the kernel that
// makes the keys can (heads.go).
func (d *Device) StoreKV(s gpu.KVRows) {
	if r := s.Slots.Len; r > 0 && d.only("StoreKV into the arena", []gpu.Buffer{s.K, s.V}, d.KVType()) && d.activations("StoreKV", s.NewK, s.NewV) && !d.joinStore(s) {
		d.launch("store_kv"+suffix(d.KVType()), line(ceil(r*s.G*s.D, threads)), block(threads),
			ptr(s.K), ptr(s.V), ptr(s.NewK), ptr(s.NewV), ptr(s.Slots), i32(r), i32(s.G), i32(s.D))
	}
}

// AttendPaged is causal attention over the arena. Few rows split their keys over many blocks, and
// rows that share the pages of a split read them once; many rows are blocks enough.
func (d *Device) AttendPaged(a gpu.PagedAttention) {
	rows := a.Positions.Len
	if rows == 0 || !d.only("AttendPaged of the arena", []gpu.Buffer{a.K, a.V}, d.KVType()) || !d.activations("AttendPaged", a.Out, a.Q) {
		return
	}
	splits := d.splits(a)
	if rows*a.H > queriesEach*d.processors || rows*a.H*splits*a.D > mostSplitSums {
		prefix, tile := d.family()
		if name := d.headKernel(prefix+"_rows", a.D); name != "" {
			d.launch(name, plane(ceil(rows*a.H/a.G, tile), a.G), block(attendThreads), ptr(a.Out), ptr(a.Q), ptr(a.K), ptr(a.V),
				ptr(a.Tables), ptr(a.Sequences), ptr(a.Positions), i32(rows), i32(a.H), i32(a.G), i32(a.D), i32(a.P), f32(a.Scale))
		}
		return
	}
	if err := d.attendSplits(a, splits); err != nil {
		d.refuse(err)
	}
}

func (d *Device) attendSplits(a gpu.PagedAttention, splits int) error {
	prefix, _ := d.family()
	rows, name, size := a.Positions.Len, d.headKernel(prefix+"_split", a.D), attendThreads
	if d.Products == gpu.BF16 {
		size = 32
	}
	if name == "" {
		return nil
	}
	shared, err := d.sharedPages(a, splits)
	if err != nil {
		return err
	}
	queries := rows * a.H * splits
	scratch, err := d.growingScratch(scratchSplits, queries*(a.D+2), splitSums(a.D))
	if err != nil {
		return err
	}
	tops, sums := scratch.Slice(0, 2*queries), scratch.Slice(2*queries, queries*(a.D+2))
	d.launch(name, space(splits, a.G, rows), block(size), ptr(sums), ptr(tops), ptr(a.Q), ptr(a.K), ptr(a.V),
		ptr(a.Tables), ptr(a.Sequences), ptr(a.Positions), ptr(shared), i32(rows), i32(a.H), i32(a.G), i32(a.D), i32(a.P), f32(a.Scale))
	d.launch("attend_merge"+suffix(a.Out.Type), line(ceil(rows*a.H, attendThreads/32)), block(attendThreads), ptr(a.Out), ptr(sums), ptr(tops),
		ptr(a.Positions), i32(rows), i32(a.H), i32(a.D), i32(splits))
	return nil
}

// splitSums is the most floats of scratch that splits of heads of width d take.
func splitSums(d int) int { return mostSplitSums / d * (d + 2) }

// pagePlan says for which rows scratchPlan holds who shares pages with whom.
type pagePlan struct {
	tables, sequences, positions uint64
	rows, splits                 int
}

// sharedPages finds the rows that share pages, once for all layers of a step.
func (d *Device) sharedPages(a gpu.PagedAttention, splits int) (gpu.Buffer, error) {
	rows := a.Positions.Len
	plan, err := d.growingScratch(scratchPlan, 3*splits*rows, math.MaxInt)
	if err != nil {
		return plan, err
	}
	key := pagePlan{ptr(a.Tables), ptr(a.Sequences), ptr(a.Positions), rows, splits}
	if d.planned != key {
		d.launch("attend_plan", line(splits), block(threads), ptr(plan), ptr(a.Tables), ptr(a.Sequences), ptr(a.Positions),
			i32(rows), i32(a.P), i32(a.H/a.G))
		d.planned = key
	}
	return plan, nil
}

// splits is how many the longest row has, if that is known from the positions' upload, else how many
// there is room for. It is rounded up to a power of two, so that few sizes occur, each of which is a graph of
// its own: blocks of splits that no row has end at once.
func (d *Device) splits(a gpu.PagedAttention) int {
	keys := a.P * gpu.PageSize
	for _, x := range d.uploaded {
		if from := ptr(a.Positions); x.from == from && x.to >= from+bytesIn(a.Positions) {
			keys = min(keys, int(x.most)+1)
		}
	}
	return min(powerOfTwo(ceil(keys, splitKeys)), ceil(a.P*gpu.PageSize, splitKeys))
}

// powerOfTwo is the least that is at least n.
func powerOfTwo(n int) int { return 1 << bits.Len(uint(max(n, 1)-1)) } //nolint:gosec // not negative

// indices is what is known of a range of memory: the greatest of the indices in it.
type indices struct {
	from, to uint64
	most     int32
}

// indicesChanged notes that indices are written; src is nil when it is not known which.
func (d *Device) indicesChanged(dst gpu.Buffer, src []int32) {
	if dst.Type != gpu.I32 || dst.Len == 0 {
		return
	}
	x := indices{from: ptr(dst), to: ptr(dst) + bytesIn(dst)}
	d.planned = pagePlan{}
	d.uploaded = slices.DeleteFunc(d.uploaded, func(old indices) bool { return old.from < x.to && x.from < old.to })
	if len(src) > 0 {
		x.most = slices.Max(src)
		d.uploaded = append(d.uploaded, x)
	}
}

// AttendBackward is the gradient of Attend: Σ out·dout of each query, then dq, a block a tile of queries, and
// dk and dv, a block a tile of keys.
func (d *Device) AttendBackward(a gpu.AttentionGrad) {
	prefix, tile := d.family()
	t, ofQueries, ofKeys := a.Starts.Len, d.headKernel(prefix+"_backward_q", a.D), d.headKernel(prefix+"_backward_kv", a.D)
	if t == 0 || ofQueries == "" || !d.activations("AttendBackward", a.Out, a.Q, a.K, a.V, a.DOut, a.DQ, a.DK, a.DV) {
		return
	}
	sums, err := d.scratchOf(scratchDelta, t*a.H)
	if err != nil {
		d.refuse(err)
		return
	}
	d.launch("attend_backward_sum"+suffix(a.Out.Type), line(ceil(t*a.H, attendThreads/32)), block(attendThreads),
		ptr(sums), ptr(a.Out), ptr(a.DOut), ptr(a.Asked), i32(t), i32(a.H), i32(a.D))
	inputs := []uint64{
		ptr(a.Q), ptr(a.K), ptr(a.V), ptr(a.LSE), ptr(sums), ptr(a.DOut), ptr(a.Starts), ptr(a.Asked),
		i32(t), i32(a.H), i32(a.G), i32(a.D), f32(a.Scale),
	}
	d.launch(ofQueries, plane(ceil(t*a.H/a.G, tile), a.G), block(attendThreads), append([]uint64{ptr(a.DQ)}, inputs...)...)
	d.launch(ofKeys, plane(ceil(t, tile), a.G), block(attendThreads), append([]uint64{ptr(a.DK), ptr(a.DV)}, inputs...)...)
}
