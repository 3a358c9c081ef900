// The gradient of flash.cu, on tensor cores: the formulas of attend_backward.cu with queries, keys, values and the
// gradient of the output, and what weighs them (p and ds), in bfloat16; sums in float32, rounded once. Nothing
// is added by two blocks.
//
//	name                      grid (x, y)              block
//	flash_backward_q_dW       ceil(T·H/G/64), G        128   dq (T,H,D) = ; a block 64 queries
//	flash_backward_kv_dW      ceil(T/64), G            128   dk, dv (T,G,D) = ; a block 64 keys
//
// dW is the width of a head rounded up to 32, 64 or 128. q, k, v, dout and the results are bf16, all else f32. No dynamic shared
// memory. Arguments are those of attend_backward_q_dW and attend_backward_kv_dW; sums are attend_backward_sum's.
#include "flash.h"

static const int block_rows = 64; // of a block: 16 of a warp

// BackwardTile is two stages of the other side (keys and values, or queries and dout), of which one
// arrives while the other is used; and of a stage of queries what each has of its own.
template <int D> struct BackwardTile {
	Padded<D> a[2][stage_rows], b[2][stage_rows];
	int row[2][block_rows], head[2][block_rows]; // row −1: none
	float lse[2][stage_rows], sum[2][stage_rows];
};

// BackwardInputs are the arguments that both kernels read.
struct BackwardInputs {
	const bf16 *q, *k, *v;
	const float *lse, *sums;
	const bf16* dout;
	const int *starts, *asked;
	int rows, h, g, d;
	float scale;
	__device__ bool asks(int row) const { return !asked || asked[row]; }
	__device__ int64_t query(int row, int head) const { return ((int64_t)row * h + head) * d; }
	__device__ int64_t key(int row, int group) const { return ((int64_t)row * g + group) * d; }
};

// store_sums writes 16 rows of sums, of which this lane has the two at low and high (null: none).
template <int D> DEVICE void store_sums(bf16* low, bf16* high, const float sums[D / 8][4], int d) {
	int column = (int)threadIdx.x % 4 * 2;
#pragma unroll
	for (int c = 0; c < D / 8; c++) {
		for (int j = 0; j < 2; j++) {
			if (8 * c + column + j >= d) continue;
			if (low) store(low + 8 * c + column + j, sums[c][j]);
			if (high) store(high + 8 * c + column + j, sums[c][2 + j]);
		}
	}
}

template <int D> DEVICE void backward_q(BackwardTile<D>& t, const BackwardInputs& in, bf16* dq) {
	int each = in.h / in.g, group = (int)blockIdx.y, begin = (int)(gridDim.x - 1 - blockIdx.x) * block_rows; // the last of a sequence cost most
	if ((int)threadIdx.x < block_rows) {
		int row = (begin + (int)threadIdx.x) / each;
		t.row[0][threadIdx.x] = row < in.rows && in.asks(row) ? row : -1;
		t.head[0][threadIdx.x] = group * each + (begin + (int)threadIdx.x) % each;
	}
	__syncthreads();
	int number = (int)threadIdx.x / 32 * 16 + (int)threadIdx.x % 32 / 4, column = (int)threadIdx.x % 4 * 2;
	int row[2], seen[2] = {0, 0};
	float lse[2], mean[2], sums[D / 8][4] = {};
	const bf16 *query[2], *grad[2];
	bf16* to[2];
#pragma unroll
	for (int i = 0; i < 2; i++) {
		row[i] = t.row[0][number + 8 * i];
		int head = t.head[0][number + 8 * i];
		bool there = row[i] >= 0;
		int64_t place = there ? in.query(row[i], head) : 0;
		query[i] = there ? in.q + place : nullptr, grad[i] = there ? in.dout + place : nullptr, to[i] = there ? dq + place : nullptr;
		lse[i] = there ? in.lse[(int64_t)row[i] * in.h + head] * log2e : 0.f, mean[i] = there ? in.sums[(int64_t)row[i] * in.h + head] : 0.f;
	}
	Rows16<D> q, dout;
	load_rows16(q, query[0], query[1], in.d);
	load_rows16(dout, grad[0], grad[1], in.d);
	int first = begin / each, last = (begin + block_rows - 1) / each;
	if (last >= in.rows) last = in.rows - 1;
	// The keys of the first row's sequence, then of those that begin within the tile.
	for (int start = in.starts[first]; start <= last;) {
		int end = start < first ? first : start; // the last row of the tile in this sequence
		while (end < last && in.starts[end + 1] == start) end++;
		int most = 0; // the keys that one of the tile's queries sees, up to
		for (int i = 0; i < block_rows; i++)
			if (t.row[0][i] >= start && t.row[0][i] <= end) most = t.row[0][i] + 1;
#pragma unroll
		for (int i = 0; i < 2; i++) seen[i] = row[i] >= start && row[i] <= end ? row[i] + 1 : 0;
		auto load = [&](int stage, int from) {
			if (from < most)
				copy_rows<D, 128>(t.a[stage], t.b[stage], in.k, in.v, in.d, [&](int i) { return from + i < most ? in.key(from + i, group) : (int64_t)-1; });
			copy_commit();
		};
		load(0, start);
		for (int from = start, stage = 0; from < most; from += stage_rows, stage ^= 1) {
			load(stage ^ 1, from + stage_rows);
			copy_wait<1>();
			__syncthreads();
			for (int c = 0; c < stage_rows; c += chunk) {
				if (!__ballot_sync(all_lanes, seen[0] > from + c || seen[1] > from + c)) continue;
				float p[2][4], dp[2][4];
				multiply16(p, q, t.a[stage] + c);
				multiply16(dp, dout, t.b[stage] + c);
#pragma unroll
				for (int j = 0; j < 8; j++) { // becomes ds
					int i = j % 4 / 2, key = from + c + j / 4 * 8 + column + j % 2;
					float& x = p[j / 4][j % 4];
					x = key < seen[i] ? exp2_approx(fma32(x, in.scale * log2e, -lse[i])) * (dp[j / 4][j % 4] - mean[i]) * in.scale : 0.f;
				}
				int n0 = seen[0] - from - c, n1 = seen[1] - from - c; // of this chunk
				bool whole = __ballot_sync(all_lanes, n0 < chunk || n1 < chunk) == 0;
				add_seen<D>(sums, p, t.a[stage] + c, whole, [=](int i, int j) { return j < (i == 0 ? n0 : n1); });
			}
			__syncthreads();
		}
		start = end + 1;
	}
	store_sums<D>(to[0], to[1], sums, in.d);
}

// load_query_stage starts to bring the queries at.. of a group, counted row by row, of the sequence
// that begins at row start. It has a barrier.
template <int D> DEVICE void load_query_stage(BackwardTile<D>& t, int stage, const BackwardInputs& in, int at, int start, int group) {
	int each = in.h / in.g, i = (int)threadIdx.x;
	if (i < stage_rows) {
		int row = (at + i) / each, head = group * each + (at + i) % each;
		bool there = row < in.rows && in.starts[row] == start && in.asks(row);
		t.row[stage][i] = there ? row : -1;
		t.head[stage][i] = head;
		t.lse[stage][i] = there ? in.lse[(int64_t)row * in.h + head] * log2e : 0.f;
		t.sum[stage][i] = there ? in.sums[(int64_t)row * in.h + head] : 0.f;
	}
	__syncthreads();
	copy_rows<D, 128>(t.a[stage], t.b[stage], in.q, in.dout, in.d, [&](int i) { return t.row[stage][i] < 0 ? (int64_t)-1 : in.query(t.row[stage][i], t.head[stage][i]); });
	copy_commit();
}

template <int D> DEVICE void backward_kv(BackwardTile<D>& t, const BackwardInputs& in, bf16* dk, bf16* dv) {
	int each = in.h / in.g, group = (int)blockIdx.y, begin = (int)blockIdx.x * block_rows;
	int end = begin + block_rows < in.rows ? begin + block_rows : in.rows;
	int first = begin + (int)threadIdx.x / 32 * 16, own = first + (int)threadIdx.x % 32 / 4, column = (int)threadIdx.x % 4 * 2;
	float sums_k[D / 8][4] = {}, sums_v[D / 8][4] = {};
	Rows16<D> k, v;
	load_rows16(k, own < end ? in.k + in.key(own, group) : nullptr, own + 8 < end ? in.k + in.key(own + 8, group) : nullptr, in.d);
	load_rows16(v, own < end ? in.v + in.key(own, group) : nullptr, own + 8 < end ? in.v + in.key(own + 8, group) : nullptr, in.d);
	for (int from = begin; from < end;) {
		int start = in.starts[from], to = from; // keys from..to-1 are of one sequence
		while (to < end && in.starts[to] == start) to++;
		auto more = [&](int at) { return at / each < in.rows && in.starts[at / each] == start; };
		load_query_stage(t, 0, in, from * each, start, group);
		for (int at = from * each, stage = 0; more(at); at += stage_rows, stage ^= 1) {
			if (more(at + stage_rows)) load_query_stage(t, stage ^ 1, in, at + stage_rows, start, group);
			else copy_commit();
			copy_wait<1>();
			__syncthreads();
			for (int c = 0; c < stage_rows; c += chunk) {
				int row = t.row[stage][c + (int)threadIdx.x % chunk];
				bool sees = row >= first && first < to && first + 16 > from;
				if (!__ballot_sync(all_lanes, sees)) continue; // no query sees a key of this warp
				float p[2][4], ds[2][4];
				multiply16(p, k, t.a[stage] + c);
				multiply16(ds, v, t.b[stage] + c);
#pragma unroll
				for (int j = 0; j < 8; j++) {
					int key = own + j % 4 / 2 * 8, query = c + j / 4 * 8 + column + j % 2;
					float &x = p[j / 4][j % 4], &y = ds[j / 4][j % 4];
					bool sees = key >= from && key < to && t.row[stage][query] >= key;
					x = sees ? exp2_approx(fma32(x, in.scale * log2e, -t.lse[stage][query])) : 0.f;
					y = sees ? x * (y - t.sum[stage][query]) * in.scale : 0.f;
				}
				// Keys see all queries of the chunk when they are of one sequence and none comes after a query.
				bool whole = __ballot_sync(all_lanes, row < first + 15 || first < from || first + 16 > to) == 0;
				auto seen = [&](int i, int j) { return own + 8 * i >= from && own + 8 * i < to && t.row[stage][c + j] >= own + 8 * i; };
				add_seen<D>(sums_v, p, t.b[stage] + c, whole, seen);
				add_seen<D>(sums_k, ds, t.a[stage] + c, whole, seen);
			}
			__syncthreads();
		}
		from = to;
	}
	int64_t low = in.key(own, group), high = in.key(own + 8, group);
	store_sums<D>(own < end ? dk + low : nullptr, own + 8 < end ? dk + high : nullptr, sums_k, in.d);
	store_sums<D>(own < end ? dv + low : nullptr, own + 8 < end ? dv + high : nullptr, sums_v, in.d);
}

#define FLASH_BACKWARD(width) \
	KERNEL(128, flash_backward_q_d##width, bf16* dq, const bf16* q, const bf16* k, const bf16* v, const float* lse, const float* sums, const bf16* dout, const int* starts, const int* asked, int rows, int h, int g, int d, float scale) { \
		__shared__ BackwardTile<width> tile; \
		backward_q(tile, BackwardInputs{q, k, v, lse, sums, dout, starts, asked, rows, h, g, d, scale}, dq); \
	} \
	KERNEL(128, flash_backward_kv_d##width, bf16* dk, bf16* dv, const bf16* q, const bf16* k, const bf16* v, const float* lse, const float* sums, const bf16* dout, const int* starts, const int* asked, int rows, int h, int g, int d, float scale) { \
		__shared__ BackwardTile<width> tile; \
		backward_kv(tile, BackwardInputs{q, k, v, lse, sums, dout, starts, asked, rows, h, g, d, scale}, dk, dv); \
	}

FLASH_BACKWARD(32)
FLASH_BACKWARD(64)
FLASH_BACKWARD(128)
