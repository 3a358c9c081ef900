package cuda

import "understudy/gpu"

// widestJoined is the widest head that heads_T takes.
const widestJoined = 256

// joinedHeads is what the last heads_T that was made of others reads and writes, but for the arena's part.
type joinedHeads struct {
	written [4]span
	read    [6]span
}

// joinHeads makes one command of the last three and this turn of keys, when those are the norms of queries and of keys and
// the turn of queries (gpu.forward): a decode step of few rows is made of launches, and one of many reads and
// writes its heads once.
//
// heads_f32, _bf16 (qr, rstd_q, q, w_q, kr, rstd_k, k, w_k, table, positions, keys, values, v, slots or four 0, h, g, d, eps)
// has the bits of rms_norm_T (y, rstd, x, w, r, c, eps) and rope_T (x, table, positions, r, heads, d, inverse).
func (d *Device) joinHeads(kr, table, positions gpu.Buffer, width int) bool {
	kind := suffix(kr.Type)
	q, k, turn := d.last("rms_norm"+kind, 2), d.last("rms_norm"+kind, 1), d.last("rope"+kind, 0)
	if q == nil || k == nil || turn == nil || width > widestJoined || width%2 != 0 {
		return false
	}
	rows := positions.Len
	h, g := int(turn.args[4]), kr.Len/rows/width //nolint:gosec // heads
	turned := [7]uint64{q.args[0], ptr(table), ptr(positions), i32(rows), i32(h), i32(width), flag(false)}
	if [7]uint64(turn.args[:7]) != turned || k.args[0] != ptr(kr) || q.args[4] != i32(rows*h) || k.args[4] != i32(rows*g) ||
		q.args[5] != i32(width) || k.args[5] != i32(width) || q.args[6] != k.args[6] {
		return false
	}
	ofQ, ofK := normReach(q, kr.Type), normReach(k, kr.Type)
	if clash(ofQ[:2], append(ofK[:], reach(table), reach(positions))...) || clash(ofK[:2], ofQ[2], ofQ[3], reach(table), reach(positions)) {
		return false
	}
	d.heads = joinedHeads{[4]span{ofQ[0], ofQ[1], ofK[0], ofK[1]}, [6]span{ofQ[2], ofQ[3], ofK[2], ofK[3], reach(table), reach(positions)}}
	args := []uint64{
		q.args[0], q.args[1], q.args[2], q.args[3], k.args[0], k.args[1], k.args[2], k.args[3], ptr(table), ptr(positions),
		0, 0, 0, 0, i32(h), i32(g), i32(width), q.args[6],
	}
	d.list = d.list[:len(d.list)-3]
	d.launch("heads"+kind, line(rows*(h+g)), rowBlock(width), args...)
	return true
}

// normReach is the memory of y, rstd, x and w of rms_norm_T, whose x and y are of one type.
func normReach(c *command, kind gpu.DType) [4]span {
	rows, width := int64(c.args[4]), int64(c.args[5]) //nolint:gosec // not negative
	all := rows * width * int64(kind.Size())
	return [4]span{{c.args[0], all}, {c.args[1], 4 * rows}, {c.args[2], all}, {c.args[3], 4 * width}}
}

// joinStore has the last command, when it makes these keys, write them and their values into the arena.
func (d *Device) joinStore(s gpu.KVRows) bool {
	heads := d.last("heads"+suffix(s.NewK.Type), 0)
	if heads == nil || heads.args[4] != ptr(s.NewK) || heads.args[13] != 0 || s.K.Type != s.NewK.Type ||
		[3]uint64(heads.args[14:17]) != [3]uint64{i32(s.H), i32(s.G), i32(s.D)} || heads.grid != line(s.Slots.Len*(s.H+s.G)) {
		return false
	}
	arena, of := []span{reach(s.K), reach(s.V)}, d.heads
	if clash(arena, of.written[:]...) || clash(arena, of.read[:]...) || clash(of.written[:], reach(s.NewV), reach(s.Slots)) {
		return false
	}
	heads.args[10], heads.args[11], heads.args[12], heads.args[13] = ptr(s.K), ptr(s.V), ptr(s.NewV), ptr(s.Slots)
	heads.grid = line(s.Slots.Len * (s.H + 2*s.G))
	return true
}
