// Causal attention on tensor cores: queries, keys, values and outputs in bfloat16, sums and softmax in
// float32. The order is that of attend.cu (chunks of 16 keys, splits of 128), so that here, too, a row
// has the same bits alone, in a batch, in a prefill and in training; a chunk is one step of the tensor core, and
// sums shrink only when a chunk has a new greatest score, which is no change of bits.
//
//	name            grid (x, y, z)             block
//	flash_dW        ceil(T·H/G/64), G          128   packed sequences; unasked rows are left alone
//	flash_rows_dW   ceil(R·H/G/64), G          128   over the arena, for many rows of a sequence
//	flash_split_dW  splits, G, R               32    over the arena, a split a block; after attend_plan, before attend_merge
//
// dW is the width of a head rounded up to 32, 64 or 128. q, k, v and out are bf16, all else f32. No
// dynamic shared memory. Arguments are those of attend_dW, attend_rows_dW and attend_split_dW (attend.cu).
#include "flash.h"

// FlashTile is two stages of keys and values, of which one arrives while the other is used, and
// the tile's queries.
template <int D, int warps> struct FlashTile {
	Padded<D> k[2][stage_rows], v[2][stage_rows];
	int row[16 * warps], head[16 * warps];
};

// FlashSums is what a lane has summed of its two queries, g and g+8 of the warp's 16 with g = lane/4: the
// greatest score (in units of log 2), the weights, and the weighted values at 8c+2t and 8c+2t+1 with t = lane%4.
template <int D> struct FlashSums {
	float top[2], weight[2], value[D / 8][4];
};

template <int D> DEVICE void clear(FlashSums<D>& s) {
	s.top[0] = s.top[1] = minus_infinity, s.weight[0] = s.weight[1] = 0;
#pragma unroll
	for (int c = 0; c < D / 8; c++)
		for (int i = 0; i < 4; i++) s.value[c][i] = 0;
}

// among4 are sums and maxima over the four lanes of a query.
DEVICE float sum_among4(float x) {
	x += __shfl_xor_sync(all_lanes, x, 1);
	return x + __shfl_xor_sync(all_lanes, x, 2);
}
DEVICE float max_among4(float x) {
	x = max32(x, __shfl_xor_sync(all_lanes, x, 1));
	return max32(x, __shfl_xor_sync(all_lanes, x, 2));
}

// flash_chunk adds a chunk of keys, of which this lane's queries see the first n.
template <int D> DEVICE void flash_chunk(FlashSums<D>& s, const Rows16<D>& q, const Padded<D>* k, const Padded<D>* v, int n0, int n1, float scale) {
	float x[2][4], shrink[2];
	multiply16(x, q, k);
	int t = (int)threadIdx.x % 4 * 2;
#pragma unroll
	for (int i = 0; i < 2; i++) { // the query
		int n = i == 0 ? n0 : n1;
		float top = minus_infinity;
#pragma unroll
		for (int j = 0; j < 4; j++) {
			float& score = x[j / 2][2 * i + j % 2];
			score = 8 * (j / 2) + t + j % 2 < n ? score * scale : minus_infinity;
			top = max32(top, score);
		}
		top = max32(max_among4(top), s.top[i]);
#pragma unroll
		for (int j = 0; j < 4; j++) {
			float& score = x[j / 2][2 * i + j % 2];
			score = 8 * (j / 2) + t + j % 2 < n ? exp2_approx(score - top) : 0.f;
		}
		float sum = sum_among4((x[0][2 * i] + x[0][2 * i + 1]) + (x[1][2 * i] + x[1][2 * i + 1]));
		shrink[i] = n > 0 ? exp2_approx(s.top[i] - top) : 1.f;
		s.top[i] = top;
		s.weight[i] = fma32(s.weight[i], shrink[i], sum);
	}
	if (__ballot_sync(all_lanes, shrink[0] != 1.f || shrink[1] != 1.f)) {
#pragma unroll
		for (int c = 0; c < D / 8; c++)
			for (int i = 0; i < 4; i++) s.value[c][i] *= shrink[i / 2];
	}
	bool whole = __ballot_sync(all_lanes, n0 < chunk || n1 < chunk) == 0;
	add_seen<D>(s.value, x, v, whole, [=](int i, int j) { return j < (i == 0 ? n0 : n1); });
}

// merge_split is merge (attend.h) for this lane's query i.
template <int D> DEVICE void merge_split(FlashSums<D>& total, const FlashSums<D>& s, int i) {
	float most = max32(total.top[i], s.top[i]), a = exp2_approx(total.top[i] - most), b = exp2_approx(s.top[i] - most);
	total.top[i] = most;
	total.weight[i] = fma32(total.weight[i], a, s.weight[i] * b);
#pragma unroll
	for (int c = 0; c < D / 8; c++)
		for (int j = 2 * i; j < 2 * i + 2; j++) total.value[c][j] = fma32(total.value[c][j], a, s.value[c][j] * b);
}

template <int D, int warps, class Keys> DEVICE void start_stage(FlashTile<D, warps>& t, int stage, const Keys& from, int first, int end, int d) {
	if (first < end)
		copy_rows<D, 32 * warps>(t.k[stage], t.v[stage], from.k, from.v, d, [&](int row) { return first + row < end ? from.at(first + row) : (int64_t)-1; });
	copy_commit();
}

// flash_keys walks keys first..end-1, first at the beginning of a split. It leaves the last split in
// sums, or, when there is a total, has it and all before merged there. Keys: how many of the
// queries' own there are in all; most: of the warp's.
template <int D, int warps, class Keys>
DEVICE void flash_keys(FlashTile<D, warps>& t, FlashSums<D>& s, FlashSums<D>* total, const Rows16<D>& q, const Keys& from, int keys0, int keys1, int most, int first, int end, int d, float scale) {
	start_stage(t, 0, from, first, end, d);
	for (int at = first, stage = 0; at < end; at += stage_rows, stage ^= 1) {
		start_stage(t, stage ^ 1, from, at + stage_rows, end, d);
		copy_wait<1>();
		__syncthreads();
		if (at % split == 0) clear(s);
		for (int c = 0; c < stage_rows; c += chunk)
			if (at + c < most) flash_chunk(s, q, t.k[stage] + c, t.v[stage] + c, keys0 - at - c, keys1 - at - c, scale);
		if (total && (at % split == split - stage_rows || at + stage_rows >= end)) {
			if (keys0 > at / split * split) merge_split(*total, s, 0);
			if (keys1 > at / split * split) merge_split(*total, s, 1);
		}
		__syncthreads();
	}
}

// FlashQueries is this lane's two queries (numbers in the tile), and how many keys they see.
struct FlashQueries {
	int number[2], keys[2], most; // most: of the warp's 16
};

// count_keys is for the tile's queries from..to-1; the others see nothing.
template <int D, int warps, class Rows> DEVICE FlashQueries count_keys(const FlashTile<D, warps>& t, const Rows& of, int from, int to) {
	FlashQueries x;
	int first = (int)threadIdx.x / 32 * 16, g = (int)threadIdx.x % 32 / 4;
#pragma unroll
	for (int i = 0; i < 2; i++) {
		int number = first + g + 8 * i;
		x.number[i] = number;
		x.keys[i] = number >= from && number < to ? keys_of(of, t.row[number], 0) : 0;
	}
	x.most = x.keys[0] > x.keys[1] ? x.keys[0] : x.keys[1];
#pragma unroll
	for (int by = 16; by >= 4; by >>= 1) {
		int other = __shfl_xor_sync(all_lanes, x.most, by);
		x.most = other > x.most ? other : x.most;
	}
	return x;
}

template <int D, int warps> DEVICE void load_queries(Rows16<D>& q, const FlashTile<D, warps>& t, const bf16* from, int heads, int d) {
	int first = (int)threadIdx.x / 32 * 16 + (int)threadIdx.x % 32 / 4;
	const bf16* rows[2];
#pragma unroll
	for (int i = 0; i < 2; i++) rows[i] = t.row[first + 8 * i] < 0 ? nullptr : from + ((int64_t)t.row[first + 8 * i] * heads + t.head[first + 8 * i]) * d;
	load_rows16(q, rows[0], rows[1], d);
}

// flash_tile is flash_dW and flash_rows_dW. A tile may hold queries of several sequences, one after the other.
template <int D, class Rows> DEVICE void flash_tile(FlashTile<D, 4>& t, const Rows& of, bf16* out, float* lse, const bf16* q, int rows, int h, int g, int d, float scale) {
	const int queries = 64;
	int each = h / g, group = (int)blockIdx.y, begin = (int)(gridDim.x - 1 - blockIdx.x) * queries; // the last of a sequence cost most
	int last = begin + queries < rows * each ? begin + queries : rows * each;
	if ((int)threadIdx.x < queries) {
		int at = begin + (int)threadIdx.x, row = at / each;
		t.row[threadIdx.x] = at < last && of.asked(row) ? row : -1;
		t.head[threadIdx.x] = group * each + at % each;
	}
	__syncthreads();
	Rows16<D> query;
	load_queries(query, t, q, h, d);
	for (int from = begin; from < last;) {
		int sequence = of.sequence(from / each), to = from, longest = 0;
		for (; to < last && of.sequence(to / each) == sequence; to++) longest = keys_of(of, t.row[to - begin], longest);
		FlashQueries x = count_keys(t, of, from - begin, to - begin);
		FlashSums<D> sums, total;
		clear(total);
		flash_keys(t, sums, &total, query, of.from(sequence, group, g, d), x.keys[0], x.keys[1], x.most, 0, longest, d, scale);
#pragma unroll
		for (int i = 0; i < 2; i++) {
			if (x.keys[i] == 0) continue;
			int64_t place = (int64_t)t.row[x.number[i]] * h + t.head[x.number[i]];
			int column = (int)threadIdx.x % 4 * 2;
#pragma unroll
			for (int c = 0; c < D / 8; c++)
				for (int j = 0; j < 2; j++)
					if (8 * c + column + j < d) store(out + place * d + 8 * c + column + j, total.value[c][2 * i + j] / total.weight[i]);
			if (lse && column == 0) lse[place] = (float)(total.top[i] * 0.69314718055994530942 + log64(total.weight[i]));
		}
		from = to;
	}
}

// flash_item lets the rows that share a split's pages attend to it (see attend_plan).
template <int D> DEVICE void flash_item(FlashTile<D, 1>& t, float* sums, float* tops, const bf16* q, const ArenaRows<bf16>& of, const int* plan, int rows, int h, int g, int d, float scale) {
	int number = (int)blockIdx.x, splits = (int)gridDim.x, group = (int)blockIdx.y, leader = (int)blockIdx.z, each = h / g;
	PlanOfSplit shared = plan_of_split((int*)plan, number, splits, rows);
	if (!shared.begins[leader]) return;
	int members = items_rows(each);
	for (int base = 0; base < each; base += tile_queries) { // more than once only when a row has more heads than a tile has queries
		__syncthreads();
		if (threadIdx.x == 0) {
			int row = leader, head = base;
			for (int i = 0; i < tile_queries; i++) {
				t.row[i] = row, t.head[i] = group * each + head;
				if (row >= 0 && ++head == each) head = 0, row = --members > 0 ? shared.next[row] : -1;
			}
		}
		__syncthreads();
		Rows16<D> query;
		load_queries(query, t, q, h, d);
		FlashQueries x = count_keys(t, of, 0, tile_queries);
		int first = number * split, end = x.most < first + split ? x.most : first + split;
		FlashSums<D> s;
		flash_keys(t, s, (FlashSums<D>*)nullptr, query, of.from(of.sequence(leader), group, g, d), x.keys[0], x.keys[1], x.most, first, end, d, scale);
#pragma unroll
		for (int i = 0; i < 2; i++) {
			if (x.keys[i] == 0) continue;
			int64_t place = ((int64_t)t.row[x.number[i]] * h + t.head[x.number[i]]) * splits + number;
			int column = (int)threadIdx.x % 4 * 2;
			if (column == 0) tops[2 * place] = s.top[i], tops[2 * place + 1] = s.weight[i];
#pragma unroll
			for (int c = 0; c < D / 8; c++)
				for (int j = 0; j < 2; j++)
					if (8 * c + column + j < d) sums[place * d + 8 * c + column + j] = s.value[c][2 * i + j];
		}
	}
}

#define FLASH(width) \
	KERNEL(128, flash_d##width, bf16* out, float* lse, const bf16* q, const bf16* k, const bf16* v, const int* starts, const int* asked, int rows, int h, int g, int d, float scale) { \
		__shared__ FlashTile<width, 4> tile; \
		flash_tile(tile, PackedRows<bf16>{k, v, starts, asked}, out, lse, q, rows, h, g, d, scale * log2e); \
	} \
	KERNEL(128, flash_rows_d##width, bf16* out, const bf16* q, const bf16* k, const bf16* v, const int* tables, const int* sequences, const int* positions, int rows, int h, int g, int d, int p, float scale) { \
		__shared__ FlashTile<width, 4> tile; \
		flash_tile(tile, ArenaRows<bf16>{k, v, tables, sequences, positions, p}, out, nullptr, q, rows, h, g, d, scale * log2e); \
	} \
	KERNEL(32, flash_split_d##width, float* sums, float* tops, const bf16* q, const bf16* k, const bf16* v, const int* tables, const int* sequences, const int* positions, const int* plan, int rows, int h, int g, int d, int p, float scale) { \
		__shared__ FlashTile<width, 1> tile; \
		flash_item(tile, sums, tops, q, ArenaRows<bf16>{k, v, tables, sequences, positions, p}, plan, rows, h, g, d, scale * log2e); \
	}

FLASH(32)
FLASH(64)
FLASH(128)
