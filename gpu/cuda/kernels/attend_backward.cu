// The gradient of attention in packed sequences, in float32. Scores are computed again; with p the
// probabilities of a query and dp = dout·v of each key,
//
//	dv += p·dout;  ds = p·(dp − Σ p·dp)·scale;  dq = Σ ds·k;  dk += ds·q
//
// and Σ p·dp = Σ out·dout, which is computed first. Nothing is added by two blocks: one kernel walks a
// query's keys, the other a key's queries, both in order.
//
//	name                       grid (x, y)            block
//	attend_backward_sum_T      ceil(T·H/4)            128   sums (T,H) = Σ_d out·dout; T, the type of both: f32, bf16
//	attend_backward_q_dW       ceil(T·H/G/16), G      128   dq (T,H,D) = ; a block 16 queries
//	attend_backward_kv_dW      ceil(T/16), G          128   dk, dv (T,G,D) = ; a block 16 keys
//
// dW is the width of a head rounded up to 32, 64 or 128. No dynamic shared memory. Arguments, in order:
//
//	attend_backward_sum_T  sums, out, dout, asked (T) or 0, rows, h, d
//	attend_backward_q_dW   dq, q, k, v, lse (T,H), sums, dout, starts (T), asked, rows, h, g, d, scale
//	attend_backward_kv_dW  dk, dv, q, k, v, lse, sums, dout, starts, asked, rows, h, g, d, scale
//
// Rows that are not asked are neither read nor written in q, out, lse, dout and dq.
#include "attend.h"

// GradTile is what a block holds, of queries q and dout, of keys k and v, and what a lane computed of
// each pair for the others: p and ds, as (own,other).
template <int W> struct GradTile {
	alignas(16) float q[chunk][32 * W + 4], dout[chunk][32 * W + 4], k[chunk][32 * W + 4], v[chunk][32 * W + 4];
	float p[chunk][chunk + 1], ds[chunk][chunk + 1];
	float lse[chunk], sum[chunk]; // of the queries
	int row[chunk], head[chunk];  // of the queries; row −1: none
};

// GradInputs are the arguments that both kernels read.
struct GradInputs {
	const float *q, *k, *v, *lse, *sums, *dout;
	const int *starts, *asked;
	int rows, h, g, d;
	float scale;
};

// load_rows fills 16 rows of a pair of matrices, of d elements at offsets first(i), or 0 where that is < 0.
template <int W, class First>
DEVICE void load_rows(float (*to_a)[32 * W + 4], float (*to_b)[32 * W + 4], const float* a, const float* b, int d, const First& first) {
	for (int at = (int)threadIdx.x; at < chunk * 8 * W; at += 128) {
		int i = at / (8 * W), c = at % (8 * W) * 4;
		int64_t from = first(i);
		int left = from < 0 ? 0 : d - c;
		int64_t place = left > 0 ? from + c : 0;
		copy4(&to_a[i][c], a + place, left);
		copy4(&to_b[i][c], b + place, left);
	}
	copy_commit();
}

// load_grad_queries loads the queries begin.. of a group, counted row by row: those of the sequence that
// begins at row start, or −1 of all. It begins and ends with a barrier.
template <int W> DEVICE void load_grad_queries(GradTile<W>& t, const GradInputs& in, int begin, int start, int group) {
	int each = in.h / in.g, i = (int)threadIdx.x;
	__syncthreads();
	if (i < chunk) {
		int row = (begin + i) / each, head = group * each + (begin + i) % each;
		bool there = row < in.rows && (start < 0 || in.starts[row] == start) && (!in.asked || in.asked[row]);
		t.row[i] = there ? row : -1;
		t.head[i] = head;
		t.lse[i] = there ? in.lse[(int64_t)row * in.h + head] * log2e : 0.f;
		t.sum[i] = there ? in.sums[(int64_t)row * in.h + head] : 0.f;
	}
	__syncthreads();
	load_rows<W>(t.q, t.dout, in.q, in.dout, in.d, [&](int i) { return t.row[i] < 0 ? (int64_t)-1 : ((int64_t)t.row[i] * in.h + t.head[i]) * in.d; });
	copy_wait<0>();
	__syncthreads();
}

// load_keys loads the keys of rows begin..end-1.
template <int W> DEVICE void load_keys(GradTile<W>& t, const GradInputs& in, int begin, int end, int group) {
	load_rows<W>(t.k, t.v, in.k, in.v, in.d, [&](int i) { return begin + i < end ? ((int64_t)(begin + i) * in.g + group) * in.d : (int64_t)-1; });
	copy_wait<0>();
	__syncthreads();
}

struct Weights {
	float p, ds;
};

// pair computes what a query and a key of the tile have with each other.
template <int W> DEVICE Weights pair(const GradTile<W>& t, const GradInputs& in, int query, int key) {
	float dot = 0, dp = 0;
	for (int c = 0; c < in.d; c += 4) {
		float4 q = *(const float4*)&t.q[query][c], k = *(const float4*)&t.k[key][c];
		float4 g = *(const float4*)&t.dout[query][c], v = *(const float4*)&t.v[key][c];
		dot = fma32(q.w, k.w, fma32(q.z, k.z, fma32(q.y, k.y, fma32(q.x, k.x, dot))));
		dp = fma32(g.w, v.w, fma32(g.z, v.z, fma32(g.y, v.y, fma32(g.x, v.x, dp))));
	}
	float p = exp2_approx(fma32(dot, in.scale * log2e, -t.lse[query]));
	return Weights{p, p * (dp - t.sum[query]) * in.scale};
}

template <int W> DEVICE void backward_q(GradTile<W>& t, const GradInputs& in, float* dq) {
	int each = in.h / in.g, group = (int)blockIdx.y, begin = (int)(gridDim.x - 1 - blockIdx.x) * chunk; // the last of a sequence cost most
	int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32, own = lane % 16, upper = lane / 16;
	load_grad_queries(t, in, begin, -1, group);
	float sums[4][W] = {};
	int first = begin / each, last = (begin + chunk - 1) / each;
	if (last >= in.rows) last = in.rows - 1;
	// The keys of the first row's sequence, then of those that begin within the tile.
	for (int start = in.starts[first]; start <= last;) {
		int end = start < first ? first : start; // the last row of the tile in this sequence
		while (end < last && in.starts[end + 1] == start) end++;
		int most = 0, keys[4]; // that one of the tile's queries, and that the warp's see
		for (int i = 0; i < chunk; i++)
			if (t.row[i] >= start && t.row[i] <= end) most = t.row[i] + 1;
		for (int i = 0; i < 4; i++) keys[i] = t.row[4 * warp + i] >= start && t.row[4 * warp + i] <= end ? t.row[4 * warp + i] + 1 : 0;
		for (int k0 = start; k0 < most; k0 += chunk) {
			load_keys(t, in, k0, most, group);
			for (int i = 0; i < 2; i++) {
				int query = 4 * warp + 2 * i + upper, row = t.row[query];
				bool sees = row >= k0 + own && row <= end;
				Weights x = sees ? pair(t, in, query, own) : Weights{0, 0};
				t.ds[query][own] = x.ds;
			}
			__syncwarp();
			for (int j = 0; j < chunk; j++) {
				for (int i = 0; i < 4; i++) {
					if (k0 + j >= keys[i]) continue;
					float ds = t.ds[4 * warp + i][j];
					for (int w = 0; w < W; w++) sums[i][w] = fma32(ds, t.k[j][lane + 32 * w], sums[i][w]);
				}
			}
			__syncthreads();
		}
		start = end + 1;
	}
	for (int i = 0; i < 4; i++) {
		int row = t.row[4 * warp + i];
		if (row < 0) continue;
		for (int w = 0; w < W; w++)
			if (lane + 32 * w < in.d) dq[((int64_t)row * in.h + t.head[4 * warp + i]) * in.d + lane + 32 * w] = sums[i][w];
	}
}

template <int W> DEVICE void backward_kv(GradTile<W>& t, const GradInputs& in, float* dk, float* dv) {
	int each = in.h / in.g, group = (int)blockIdx.y, begin = (int)blockIdx.x * chunk;
	int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32, own = lane % 16, upper = lane / 16;
	int end = begin + chunk < in.rows ? begin + chunk : in.rows;
	load_keys(t, in, begin, end, group);
	float sums_k[4][W] = {}, sums_v[4][W] = {};
	for (int from = begin; from < end;) {
		int start = in.starts[from], to = from; // keys from..to-1 are of one sequence
		while (to < end && in.starts[to] == start) to++;
		for (int at = from * each; at / each < in.rows && in.starts[at / each] == start; at += chunk) {
			load_grad_queries(t, in, at, start, group);
			for (int i = 0; i < 2; i++) {
				int key = 4 * warp + 2 * i + upper, row = t.row[own];
				bool sees = begin + key >= from && begin + key < to && row >= begin + key;
				Weights x = sees ? pair(t, in, own, key) : Weights{0, 0};
				t.p[key][own] = x.p;
				t.ds[key][own] = x.ds;
			}
			__syncwarp();
			for (int j = 0; j < chunk; j++) {
				for (int i = 0; i < 4; i++) {
					int key = 4 * warp + i;
					if (t.row[j] < begin + key || begin + key >= to || begin + key < from) continue;
					float p = t.p[key][j], ds = t.ds[key][j];
					for (int w = 0; w < W; w++) {
						sums_v[i][w] = fma32(p, t.dout[j][lane + 32 * w], sums_v[i][w]);
						sums_k[i][w] = fma32(ds, t.q[j][lane + 32 * w], sums_k[i][w]);
					}
				}
			}
		}
		from = to;
	}
	for (int i = 0; i < 4; i++) {
		int row = begin + 4 * warp + i;
		if (row >= end) continue;
		for (int w = 0; w < W; w++) {
			int64_t place = ((int64_t)row * in.g + group) * in.d + lane + 32 * w;
			if (lane + 32 * w < in.d) dk[place] = sums_k[i][w], dv[place] = sums_v[i][w];
		}
	}
}

template <class T> DEVICE void backward_sum(float* sums, const T* out, const T* dout, const int* asked, int rows, int h, int d) {
	int query = (int)(blockIdx.x * 4 + threadIdx.x / 32), lane = (int)threadIdx.x % 32;
	if (query >= rows * h || (asked && !asked[query / h])) return;
	float sum = 0;
	for (int c = lane; c < d; c += 32) sum = fma32(to_float(out[(int64_t)query * d + c]), to_float(dout[(int64_t)query * d + c]), sum);
	sum = warp_sum(sum);
	if (lane == 0) sums[query] = sum;
}
KERNEL(128, attend_backward_sum_f32, float* sums, const float* out, const float* dout, const int* asked, int rows, int h, int d) {
	backward_sum(sums, out, dout, asked, rows, h, d);
}
KERNEL(128, attend_backward_sum_bf16, float* sums, const bf16* out, const bf16* dout, const int* asked, int rows, int h, int d) {
	backward_sum(sums, out, dout, asked, rows, h, d);
}

#define ATTEND_BACKWARD(width, W) \
	KERNEL(128, attend_backward_q_d##width, float* dq, const float* q, const float* k, const float* v, const float* lse, const float* sums, const float* dout, const int* starts, const int* asked, int rows, int h, int g, int d, float scale) { \
		__shared__ GradTile<W> tile; \
		backward_q(tile, GradInputs{q, k, v, lse, sums, dout, starts, asked, rows, h, g, d, scale}, dq); \
	} \
	KERNEL(128, attend_backward_kv_d##width, float* dk, float* dv, const float* q, const float* k, const float* v, const float* lse, const float* sums, const float* dout, const int* starts, const int* asked, int rows, int h, int g, int d, float scale) { \
		__shared__ GradTile<W> tile; \
		backward_kv(tile, GradInputs{q, k, v, lse, sums, dout, starts, asked, rows, h, g, d, scale}, dk, dv); \
	}

ATTEND_BACKWARD(32, 1)
ATTEND_BACKWARD(64, 2)
ATTEND_BACKWARD(128, 4)
