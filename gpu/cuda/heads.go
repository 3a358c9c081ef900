package cuda

import "understudy/gpu"

const (
	widestJoined = 256 // head that heads_T takes
	// mostTurned is the rows up to which heads without norms are one: a decode batch. Blocks of a head each have little to
	// do for it; where rows are many enough to fill a card, a block of rope_T for each has more, and its launches do not
	// count (so one reckons; no card has shown it yet).
	mostTurned = mostDecoding
)

// headMemory is what rms_norm_T, of heads, and rope_T read and write: y and rstd of x and w. Without a norm x is y, which
// is turned in place, and rstd and w are nothing.
type headMemory struct{ y, rstd, x, w span }

// joinedHeads is what the last heads_T that was made of others reads and writes, but for the arena's part.
type joinedHeads struct {
	q, k             headMemory
	table, positions span
}

func (j joinedHeads) written() []span { return []span{j.q.y, j.q.rstd, j.k.y, j.k.rstd} }
func (j joinedHeads) read() []span {
	return []span{j.q.x, j.q.w, j.k.x, j.k.w, j.table, j.positions}
}

// apart says that neither queries nor keys write what the others, or what turns both, are made of.
func (j joinedHeads) apart() bool {
	return !clash([]span{j.q.y, j.q.rstd}, j.k.y, j.k.rstd, j.k.x, j.k.w, j.table, j.positions) &&
		!clash([]span{j.k.y, j.k.rstd}, j.q.x, j.q.w, j.table, j.positions)
}

// joinHeads makes one command of the turn of queries, which is the last, this one of keys, and the norms of both where
// they come before (gpu.forward): a decode step of few rows is made of launches, and one of many reads and writes what it
// normalises once.
//
// heads_f32, _bf16 (qr, rstd_q, q, w_q, kr, rstd_k, k, w_k, table, positions, keys, values, v, slots or four 0, h, g, d, eps)
// has the bits of rms_norm_T (y, rstd, x, w, r, c, eps) and rope_T (x, table, positions, r, heads, d, inverse); without
// norms all four of these are 0, and q is qr, k is kr.
func (d *Device) joinHeads(kr, table, positions gpu.Buffer, width int) bool {
	turn, rows := d.last("rope"+suffix(kr.Type), 0), positions.Len
	if turn == nil || width > widestJoined || width%2 != 0 {
		return false
	}
	h, g := int(turn.args[4]), kr.Len/rows/width //nolint:gosec // heads
	if [6]uint64(turn.args[1:7]) != [6]uint64{ptr(table), ptr(positions), i32(rows), i32(h), i32(width), flag(false)} {
		return false
	}
	qr := span{turn.args[0], int64(rows * h * width * kr.Type.Size())}
	heads := joinedHeads{headMemory{y: qr, x: qr}, headMemory{y: reach(kr), x: reach(kr)}, reach(table), reach(positions)}
	taken, eps := 1, uint64(0)
	if normed, of, ok := d.withNorms(heads, kr.Type, width); ok {
		heads, taken, eps = normed, 3, of
	} else if rows > mostTurned || !heads.apart() {
		return false
	}
	d.heads, d.list = heads, d.list[:len(d.list)-taken]
	q, k := heads.q, heads.k
	d.launch("heads"+suffix(kr.Type), line(rows*(h+g)), rowBlock(width),
		q.y.at, q.rstd.at, q.x.at, q.w.at, k.y.at, k.rstd.at, k.x.at, k.w.at, ptr(table), ptr(positions),
		0, 0, 0, 0, i32(h), i32(g), i32(width), eps)
	return true
}

// withNorms is turned heads with the norms of queries and of keys and their eps, when those are the commands before the
// turn of queries and can be one with it.
func (d *Device) withNorms(turned joinedHeads, kind gpu.DType, width int) (j joinedHeads, eps uint64, ok bool) {
	q, k := d.last("rms_norm"+suffix(kind), 2), d.last("rms_norm"+suffix(kind), 1)
	if q == nil || k == nil || q.args[5] != i32(width) || k.args[5] != i32(width) || q.args[6] != k.args[6] {
		return j, 0, false
	}
	j = joinedHeads{normReach(q, kind), normReach(k, kind), turned.table, turned.positions}
	return j, q.args[6], j.q.y == turned.q.y && j.k.y == turned.k.y && j.apart()
}

// normReach is the memory of rms_norm_T (y, rstd, x, w, r, c, eps), whose x and y are of one type.
func normReach(c *command, kind gpu.DType) headMemory {
	rows, width := int64(c.args[4]), int64(c.args[5]) //nolint:gosec // not negative
	all := rows * width * int64(kind.Size())
	return headMemory{span{c.args[0], all}, span{c.args[1], 4 * rows}, span{c.args[2], all}, span{c.args[3], 4 * width}}
}

// joinStore has the last command, when it makes these keys, write them and their values into the arena.
func (d *Device) joinStore(s gpu.KVRows) bool {
	heads := d.last("heads"+suffix(s.NewK.Type), 0)
	if heads == nil || heads.args[4] != ptr(s.NewK) || heads.args[13] != 0 || s.K.Type != s.NewK.Type ||
		[3]uint64(heads.args[14:17]) != [3]uint64{i32(s.H), i32(s.G), i32(s.D)} || heads.grid != line(s.Slots.Len*(s.H+s.G)) {
		return false
	}
	arena, written := []span{reach(s.K), reach(s.V)}, d.heads.written()
	if clash(arena[:1], arena[1]) || clash(arena, written...) || clash(arena, d.heads.read()...) || clash(written, reach(s.NewV), reach(s.Slots)) {
		return false
	}
	heads.args[10], heads.args[11], heads.args[12], heads.args[13] = ptr(s.K), ptr(s.V), ptr(s.NewV), ptr(s.Slots)
	heads.grid = line(s.Slots.Len * (s.H + 2*s.G))
	return true
}
