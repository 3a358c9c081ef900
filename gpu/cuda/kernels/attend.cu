// Causal attention in float32, of packed sequences and of rows over the KV arena.
//
// A query (a row and a head) walks its keys in chunks of 16 from position 0, with an online
// softmax over the chunks of a split of 128 keys; the splits' sums are merged in their order.
// A query's arithmetic is its own, in this one order, whoever shares the keys with it and
// whether one block walks all splits or each split has its own. So a row has the same bits in a
// prefill, a decode and a training step, and rows that share pages read them once (cascade).
//
//	name             grid (x, y, z)                block
//	attend_dW        ceil(T·H/G/16), G             128   packed sequences; unasked rows are left alone
//	attend_rows_dW   ceil(R·H/G/16), G             128   over the arena, for many rows of a sequence
//	attend_plan      splits                        256   which rows share the pages of a split
//	attend_split_dW  splits, G, R                  128   over the arena, a split a block; after attend_plan
//	attend_merge_T   ceil(R·H/4)                   128   the splits of attend_split or flash_split together
//
// dW is the width of a head rounded up to 32, 64 or 128; T, the type of attend_merge's out, f32 or bf16; splits = ceil(P/8), P pages a row of tables.
// No dynamic shared memory. Arguments, in order:
//
//	attend_dW        out (T,H,D), lse (T,H), q (T,H,D), k (T,G,D), v (T,G,D), starts (T), asked (T) or 0, rows, h, g, d, scale
//	attend_rows_dW   out (R,H,D), q (R,H,D), k (S,G,D), v (S,G,D), tables (B,P), sequences (R), positions (R), rows, h, g, d, p, scale
//	attend_plan      plan (3,splits,R), tables, sequences, positions, rows, p, queries a row (H/G)
//	attend_split_dW  sums (R,H,splits,D), tops (R,H,splits,2), q, k, v, tables, sequences, positions, plan, rows, h, g, d, p, scale
//	attend_merge_T   out (R,H,D), sums, tops, positions, rows, h, d, splits
//
// With few rows attend_split keeps a GPU busy; attend_rows needs no memory for sums.
#include "attend.h"

// QueryTile is the queries of a block (4 a warp) and two chunks of keys, of which one arrives
// while the other is used.
template <int W> struct QueryTile {
	alignas(16) float q[tile_queries][32 * W + 4];
	alignas(16) float k[2][chunk][32 * W + 4];
	alignas(16) float v[2][chunk][32 * W];
	alignas(16) float p[tile_queries][chunk];
};

// load_queries fills the tile with the tile_queries queries from the first on; those that are not asked are 0.
template <int W> DEVICE void load_queries(QueryTile<W>& t, const float* q, const int* query_row, const int* query_head, int heads, int d) {
	for (int at = (int)threadIdx.x; at < tile_queries * 8 * W; at += 128) {
		int i = at / (8 * W), c = at % (8 * W) * 4;
		float4 x = {0, 0, 0, 0};
		if (query_row[i] >= 0 && c < d) x = load4(q + ((int64_t)query_row[i] * heads + query_head[i]) * d + c, d - c);
		*(float4*)&t.q[i][c] = x;
	}
}

// Sums is what a warp has summed for its 4 queries in a split: the greatest score (in units of
// log 2) and the weights of queries 2i+lane/16, and of all four the weighted values c = lane+32w.
template <int W> struct Sums {
	float top[2], weight[2], value[4][W];
};

template <int W> DEVICE void clear(Sums<W>& s) {
	for (int i = 0; i < 2; i++) s.top[i] = minus_infinity, s.weight[i] = 0;
	for (int i = 0; i < 4; i++)
		for (int w = 0; w < W; w++) s.value[i][w] = 0;
}

// KeyCounts is how many keys the warp's 4 queries attend to in all, 0 for none; own is of those
// whose scores this lane computes.
struct KeyCounts {
	int of[4], own[2];
};

// of_query gives every lane what the two halves of the warp hold for query i.
DEVICE float of_query(const float x[2], int i) { return __shfl_sync(all_lanes, x[i / 2], i % 2 * 16); }

// attend_chunk adds the chunk that begins at key first.
template <int W> DEVICE void attend_chunk(QueryTile<W>& t, int stage, Sums<W>& s, const KeyCounts& keys, int first, int d, float scale) {
	int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32, key = lane % 16, upper = lane / 16;
	float shrink[2];
	for (int i = 0; i < 2; i++) {
		int query = 4 * warp + 2 * i + upper, n = keys.own[i] - first;
		float dot = 0;
		for (int c = 0; c < d; c += 4) {
			float4 a = *(const float4*)&t.q[query][c], b = *(const float4*)&t.k[stage][key][c];
			dot = fma32(a.w, b.w, fma32(a.z, b.z, fma32(a.y, b.y, fma32(a.x, b.x, dot))));
		}
		float score = key < n ? dot * scale : minus_infinity, top = score;
		for (int by = 8; by > 0; by >>= 1) top = max32(top, __shfl_xor_sync(all_lanes, top, by));
		top = max32(top, s.top[i]);
		float p = key < n ? exp2_approx(score - top) : 0.f, sum = p;
		for (int by = 8; by > 0; by >>= 1) sum += __shfl_xor_sync(all_lanes, sum, by);
		shrink[i] = n > 0 ? exp2_approx(s.top[i] - top) : 1.f;
		s.top[i] = top;
		s.weight[i] = fma32(s.weight[i], shrink[i], sum);
		t.p[query][key] = p;
	}
	__syncwarp();
	for (int i = 0; i < 4; i++) {
		float by = of_query(shrink, i);
		for (int w = 0; w < W; w++) s.value[i][w] *= by;
	}
	for (int j = 0; j < chunk; j++) {
		float v[W];
		for (int w = 0; w < W; w++) v[w] = t.v[stage][j][lane + 32 * w];
		for (int i = 0; i < 4; i++) {
			if (first + j >= keys.of[i]) continue; // a key that a query may not see does not touch it, not even as NaN
			float p = t.p[4 * warp + i][j];
			for (int w = 0; w < W; w++) s.value[i][w] = fma32(p, v[w], s.value[i][w]);
		}
	}
}

// start_chunk begins to read the chunk at key first, of which keys before end are there.
template <int W, class Keys> DEVICE void start_chunk(QueryTile<W>& t, int stage, const Keys& from, int first, int end, int d) {
	if (first < end) {
		int64_t at = from.at(first);
		for (int i = (int)threadIdx.x; i < chunk * 8 * W; i += 128) {
			int key = i / (8 * W), c = i % (8 * W) * 4, left = first + key < end ? d - c : 0;
			int64_t place = left > 0 ? at + (int64_t)key * from.stride + c : 0;
			copy4(&t.k[stage][key][c], from.k + place, left);
			copy4(&t.v[stage][key][c], from.v + place, left);
		}
	}
	copy_commit();
}

// attend_keys adds the keys first..end-1, first at the beginning of a chunk. All threads of the block come.
template <int W, class Keys> DEVICE void attend_keys(QueryTile<W>& t, Sums<W>& s, const Keys& from, const KeyCounts& keys, int first, int end, int d, float scale) {
	int most = keys.of[0];
	for (int i = 1; i < 4; i++) most = keys.of[i] > most ? keys.of[i] : most;
	start_chunk(t, 0, from, first, end, d);
	for (int stage = 0; first < end; first += chunk, stage ^= 1) {
		start_chunk(t, stage ^ 1, from, first + chunk, end, d);
		copy_wait<1>();
		__syncthreads();
		if (first < most) attend_chunk(t, stage, s, keys, first, d, scale);
		__syncthreads();
	}
}

// merge_split adds what a split has summed of query i; all lanes hold the total.
template <int W> DEVICE void merge_split(Total<W>& total, const Sums<W>& s, int i) {
	merge(total, of_query(s.top, i), of_query(s.weight, i), s.value[i]);
}

// attend_all lets the queries of the tile that belong to one sequence attend to all their keys and writes
// them out. Rows and heads are those of the whole tile; keys of this warp's four.
template <int W, class Keys>
DEVICE void attend_all(QueryTile<W>& t, const Keys& from, const KeyCounts& keys, int longest, const int* query_row, const int* query_head, float* out, float* lse, int heads, int d, float scale) {
	int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
	Total<W> total[4];
	for (int i = 0; i < 4; i++) clear(total[i]);
	for (int first = 0; first < longest; first += split) {
		Sums<W> s;
		clear(s);
		attend_keys(t, s, from, keys, first, longest < first + split ? longest : first + split, d, scale);
		for (int i = 0; i < 4; i++)
			if (keys.of[i] > first) merge_split(total[i], s, i);
	}
	for (int i = 0; i < 4; i++) {
		if (keys.of[i] == 0) continue;
		int64_t query = (int64_t)query_row[4 * warp + i] * heads + query_head[4 * warp + i];
		write_total(total[i], out + query * d, lse ? lse + query : nullptr, lane, d);
	}
}

// count_keys is for the tile's queries from..to-1; the others attend to nothing.
template <class Rows> DEVICE KeyCounts count_keys(const Rows& of, const int* query_row, int from, int to) {
	int first = (int)threadIdx.x / 32 * 4, upper = (int)threadIdx.x % 32 / 16;
	KeyCounts keys;
	for (int i = 0; i < 4; i++) keys.of[i] = first + i >= from && first + i < to ? keys_of(of, query_row[first + i], 0) : 0;
	for (int i = 0; i < 2; i++) {
		int at = first + 2 * i + upper;
		keys.own[i] = at >= from && at < to ? keys_of(of, query_row[at], 0) : 0;
	}
	return keys;
}

// attend_tile is attend_dW and attend_rows_dW. A tile may hold queries of several sequences, one after the other.
template <int W, class Rows>
DEVICE void attend_tile(QueryTile<W>& t, int* query_row, int* query_head, const Rows& of, float* out, float* lse, const float* q, int rows, int h, int g, int d, float scale) {
	int each = h / g, group = (int)blockIdx.y, begin = (int)(gridDim.x - 1 - blockIdx.x) * tile_queries; // the last of a sequence cost most
	int last = begin + tile_queries < rows * each ? begin + tile_queries : rows * each;
	if ((int)threadIdx.x < tile_queries) {
		int at = begin + (int)threadIdx.x, row = at / each;
		query_row[threadIdx.x] = at < last && of.asked(row) ? row : -1;
		query_head[threadIdx.x] = group * each + at % each;
	}
	__syncthreads();
	load_queries(t, q, query_row, query_head, h, d);
	for (int from = begin; from < last;) {
		int sequence = of.sequence(from / each), to = from, longest = 0;
		for (; to < last && of.sequence(to / each) == sequence; to++) longest = keys_of(of, query_row[to - begin], longest);
		KeyCounts keys = count_keys(of, query_row, from - begin, to - begin);
		attend_all(t, of.from(sequence, group, g, d), keys, longest, query_row, query_head, out, lse, h, d, scale);
		from = to;
	}
}

// attend_item lets the rows that share a split's pages attend to it.
template <int W>
DEVICE void attend_item(QueryTile<W>& t, int* query_row, int* query_head, float* sums, float* tops, const float* q, const ArenaRows<float>& of, const int* plan, int rows, int h, int g, int d, float scale) {
	int number = (int)blockIdx.x, splits = (int)gridDim.x, group = (int)blockIdx.y, leader = (int)blockIdx.z, each = h / g;
	PlanOfSplit shared = plan_of_split((int*)plan, number, splits, rows);
	if (!shared.begins[leader]) return;
	int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32, members = items_rows(each);
	for (int base = 0; base < each; base += tile_queries) { // more than once only when a row has more heads than a tile has queries
		__syncthreads();
		if (threadIdx.x == 0) {
			int row = leader, head = base;
			for (int i = 0; i < tile_queries; i++) {
				query_row[i] = row, query_head[i] = group * each + head;
				if (row >= 0 && ++head == each) head = 0, row = --members > 0 ? shared.next[row] : -1;
			}
		}
		__syncthreads();
		load_queries(t, q, query_row, query_head, h, d);
		int longest = 0;
		for (int i = 0; i < tile_queries; i++) longest = keys_of(of, query_row[i], longest);
		KeyCounts keys = count_keys(of, query_row, 0, tile_queries);
		int first = number * split;
		Sums<W> s;
		clear(s);
		attend_keys(t, s, of.from(of.sequence(leader), group, g, d), keys, first, longest < first + split ? longest : first + split, d, scale);
		for (int i = 0; i < 4; i++) {
			if (keys.of[i] == 0) continue;
			int64_t place = ((int64_t)query_row[4 * warp + i] * h + query_head[4 * warp + i]) * splits + number;
			float top = of_query(s.top, i), weight = of_query(s.weight, i);
			if (lane == 0) tops[2 * place] = top, tops[2 * place + 1] = weight;
			for (int w = 0; w < W; w++)
				if (lane + 32 * w < d) sums[place * d + lane + 32 * w] = s.value[i][w];
		}
	}
}

// same_pages says whether rows a and b can read the keys of a split together: they are of one sequence, or
// both go on beyond the split and all of its pages are the same.
DEVICE bool same_pages(const ArenaRows<float>& of, int a, int b, int number) {
	if (of.sequences[a] == of.sequences[b]) return true;
	int end = (number + 1) * split;
	if (of.keys(a) < end || of.keys(b) < end) return false;
	const int *x = of.tables + (int64_t)of.sequences[a] * of.p, *y = of.tables + (int64_t)of.sequences[b] * of.p;
	for (int page = number * split / chunk; page < end / chunk; page++)
		if (x[page] != y[page]) return false;
	return true;
}

KERNEL(256, attend_plan, int* plan, const int* tables, const int* sequences, const int* positions, int rows, int p, int queries) {
	ArenaRows<float> of = {nullptr, nullptr, tables, sequences, positions, p};
	int number = (int)blockIdx.x, most = items_rows(queries);
	PlanOfSplit to = plan_of_split(plan, number, (int)gridDim.x, rows);
	for (int r = (int)threadIdx.x; r < rows; r += 256) {
		int first = -1;
		if (of.keys(r) > number * split)
			for (first = 0; of.keys(first) <= number * split || !same_pages(of, first, r, number); first++) {}
		to.first[r] = first;
	}
	__syncthreads();
	for (int r = (int)threadIdx.x; r < rows; r += 256) {
		int before = 0, next = -1;
		for (int other = 0; other < r; other++) before += to.first[other] == to.first[r];
		for (int other = r + 1; other < rows && next < 0; other++)
			if (to.first[other] == to.first[r]) next = other;
		to.next[r] = next;
		to.begins[r] = to.first[r] >= 0 && before % most == 0;
	}
}

template <class T> DEVICE void attend_merge(T* out, const float* sums, const float* tops, const int* positions, int rows, int h, int d, int splits) {
	int query = (int)(blockIdx.x * 4 + threadIdx.x / 32), lane = (int)threadIdx.x % 32;
	if (query >= rows * h) return;
	Total<4> total;
	clear(total);
	for (int number = 0; number * split <= positions[query / h]; number++) {
		int64_t place = (int64_t)query * splits + number;
		float value[4];
		for (int w = 0; w < 4; w++) value[w] = lane + 32 * w < d ? sums[place * d + lane + 32 * w] : 0.f;
		merge(total, tops[2 * place], tops[2 * place + 1], value);
	}
	write_total(total, out + (int64_t)query * d, nullptr, lane, d);
}
KERNEL(128, attend_merge_f32, float* out, const float* sums, const float* tops, const int* positions, int rows, int h, int d, int splits) {
	attend_merge(out, sums, tops, positions, rows, h, d, splits);
}
KERNEL(128, attend_merge_bf16, bf16* out, const float* sums, const float* tops, const int* positions, int rows, int h, int d, int splits) {
	attend_merge(out, sums, tops, positions, rows, h, d, splits);
}

#define ATTEND(width, W) \
	KERNEL(128, attend_d##width, float* out, float* lse, const float* q, const float* k, const float* v, const int* starts, const int* asked, int rows, int h, int g, int d, float scale) { \
		__shared__ QueryTile<W> tile; \
		__shared__ int query_row[tile_queries], query_head[tile_queries]; \
		attend_tile(tile, query_row, query_head, PackedRows<float>{k, v, starts, asked}, out, lse, q, rows, h, g, d, scale * log2e); \
	} \
	KERNEL(128, attend_rows_d##width, float* out, const float* q, const float* k, const float* v, const int* tables, const int* sequences, const int* positions, int rows, int h, int g, int d, int p, float scale) { \
		__shared__ QueryTile<W> tile; \
		__shared__ int query_row[tile_queries], query_head[tile_queries]; \
		attend_tile(tile, query_row, query_head, ArenaRows<float>{k, v, tables, sequences, positions, p}, out, nullptr, q, rows, h, g, d, scale * log2e); \
	} \
	KERNEL(128, attend_split_d##width, float* sums, float* tops, const float* q, const float* k, const float* v, const int* tables, const int* sequences, const int* positions, const int* plan, int rows, int h, int g, int d, int p, float scale) { \
		__shared__ QueryTile<W> tile; \
		__shared__ int query_row[tile_queries], query_head[tile_queries]; \
		attend_item(tile, query_row, query_head, sums, tops, q, ArenaRows<float>{k, v, tables, sequences, positions, p}, plan, rows, h, g, d, scale * log2e); \
	}

ATTEND(32, 1)
ATTEND(64, 2)
ATTEND(128, 4)
