// Products of bfloat16 matrices on tensor cores, summed in float32.
//
// All three products of a layer are one: c (cols,m) = Σ_s a[m][s]·b[col][s], where a matrix lies along the sum
// (its s are contiguous) or along its edge:
//
//	y (rows,n)  = x·wᵀ     m = n, cols = rows, s = k      a = w along the sum,   b = x along the sum
//	dx (rows,k) = dy·w     m = k, cols = rows, s = n      a = w along its edge,  b = dy along the sum
//	dw (n,k)   += dyᵀ·x    m = k, cols = n,    s = rows   a = x along its edge,  b = dy along its edge
//
// An element of y is the same whatever the tile and the number of rows: tensor cores add 16
// products at a time, in order, within a segment of 256 of the sum, and the segments' sums are added in
// order. So a row alone has the bits of the row in a batch, and a few rows can have their segments
// summed side by side. The gradients are one chain.
//
//	name                       grid (x, y)                        block
//	matmul_mma_T               ceil(n/128), ceil(rows/128)        256
//	matmul_mma_small_T         ceil(n/32), ceil(rows/64)          128   when that fills the card better
//	matmul_mma_few8, 16, 32_T  Σ ceil(n/16), ceil(rows/8, 16, 32) 128   for few rows, which up to three weights multiply
//	matmul_mma_back_x_T        ceil(k/128), ceil(rows/128)        256
//	matmul_mma_back_x_small_T  ceil(k/32), ceil(rows/64)          128
//	matmul_mma_back_w          ceil(k/128), ceil(n/128)           256
//	matmul_mma_back_w_small    ceil(k/32), ceil(n/64)             128
//
// T is the type of the result: f32, bf16. No dynamic shared memory. Arguments, in order:
//
//	matmul_mma…          y (rows,n), x (rows,k), w (n,k), rows, n, k
//	matmul_mma_few…      y0 (rows,n0), y1, y2, w0 (n0,k), w1, w2, x (rows,k), rows, n0, n1, n2, k; n 0 where there is no weight
//	matmul_mma_back_x…   dx (rows,k), dy (rows,n), w (n,k), rows, n, k, add
//	matmul_mma_back_w…   dw (n,k), dy (rows,n), x (rows,k), rows, n, k
#include "dev.h"

static const int depth = 32;         // of the sum, in shared memory at a time
static const int segment_steps = 8;  // of depth, in a segment

enum Along { along_sum, along_edge };

// Operand is a matrix of edges × sums.
struct Operand {
	const bf16* from;
	int edges, sums;
};

// A tile of E edges × depth lies in shared memory as in global memory, in rows of 16-byte pieces. Pieces
// change places within a row so that the 8 rows of a matrix that a warp reads lie in 8 different
// groups of banks.
template <int E, Along along> DEVICE int piece_at(int row, int piece) {
	const int pieces = along == along_sum ? depth / 8 : E / 8;
	return (row * pieces + (piece ^ (pieces >= 8 ? row & 7 : row >> 1 & 3))) * 8;
}

// load_tile starts to bring the tile at (edge0, sum0), with `threads` threads of which this is number `thread`.
template <int E, Along along, int threads> DEVICE void load_tile(bf16* to, const Operand& m, int edge0, int sum0, int thread) {
	const int pieces = along == along_sum ? depth / 8 : E / 8;
	for (int at = thread; at < E * depth / 8; at += threads) {
		int row = at / pieces, piece = at % pieces;
		int edge = edge0 + (along == along_sum ? row : 8 * piece), sum = sum0 + (along == along_sum ? 8 * piece : row);
		int left = along == along_sum ? m.sums - sum : m.edges - edge;
		if (edge >= m.edges || sum >= m.sums) left = 0;
		int64_t place = along == along_sum ? (int64_t)edge * m.sums + sum : (int64_t)sum * m.edges + edge;
		copy8(to + piece_at<E, along>(row, piece), m.from + (left > 0 ? place : 0), left);
	}
}

// load_a gives the fragment of A (16,16) at (edge, sum) of a tile, load_b those of two B (16,8), side by
// side (see mma_bf16).
template <int E, Along along> DEVICE void load_a(uint32_t r[4], const bf16* tile, int edge, int sum) {
	int lane = (int)threadIdx.x % 32, low = lane % 8, middle = lane / 8 % 2, high = lane / 16;
	if (along == along_sum) load_matrix4(r, tile + piece_at<E, along>(edge + 8 * middle + low, sum / 8 + high));
	else load_matrix4_transposed(r, tile + piece_at<E, along>(sum + 8 * high + low, edge / 8 + middle));
}
template <int E, Along along> DEVICE void load_b(uint32_t r[4], const bf16* tile, int edge, int sum) {
	int lane = (int)threadIdx.x % 32, low = lane % 8, middle = lane / 8 % 2, high = lane / 16;
	if (along == along_sum) load_matrix4(r, tile + piece_at<E, along>(edge + 8 * high + low, sum / 8 + middle));
	else load_matrix4_transposed(r, tile + piece_at<E, along>(sum + 8 * middle + low, edge / 8 + high));
}

// Shape of a block's work: I×J warps, each with P×Q products of (16,16)·(16,8), and how many tiles are in
// shared memory, of which all but one are on their way.
template <int I, int J, int P, int Q, int S> struct Shape {
	static const int warps_m = I, each_m = P, each_cols = Q, stages = S;
	static const int m = 16 * I * P, cols = 8 * J * Q, threads = 32 * I * J;
	struct Tiles {
		alignas(16) bf16 a[S][m * depth], b[S][cols * depth];
	};
};
typedef Shape<2, 4, 4, 4, 3> Large; // 128 × 128
typedef Shape<2, 2, 1, 4, 4> Small; // 32 × 64

// product computes a block's tile of c. In segments: the sum restarts every segment_steps steps.
template <class Sh, Along of_a, Along of_b, bool segments, class C>
DEVICE void product(typename Sh::Tiles& t, C* c, const Operand& a, const Operand& b, bool add) {
	const int P = Sh::each_m, Q = Sh::each_cols, S = Sh::stages;
	int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32, m0 = (int)blockIdx.x * Sh::m, col0 = (int)blockIdx.y * Sh::cols;
	int warp_m = warp % Sh::warps_m * 16 * P, warp_col = warp / Sh::warps_m * 8 * Q;
	int steps = (a.sums + depth - 1) / depth;
	float sum[P][Q][4] = {}, total[P][Q][4] = {};
	for (int s = 0; s < S - 1; s++) {
		if (s < steps) {
			load_tile<Sh::m, of_a, Sh::threads>(t.a[s], a, m0, s * depth, (int)threadIdx.x);
			load_tile<Sh::cols, of_b, Sh::threads>(t.b[s], b, col0, s * depth, (int)threadIdx.x);
		}
		copy_commit();
	}
	for (int step = 0; step < steps; step++) {
		copy_wait<S - 2>();
		__syncthreads(); // this step's tiles have come, and nobody reads those of the last
		int next = step + S - 1;
		if (next < steps) {
			load_tile<Sh::m, of_a, Sh::threads>(t.a[next % S], a, m0, next * depth, (int)threadIdx.x);
			load_tile<Sh::cols, of_b, Sh::threads>(t.b[next % S], b, col0, next * depth, (int)threadIdx.x);
		}
		copy_commit();
		#pragma unroll
		for (int s = 0; s < depth; s += 16) {
			uint32_t x[P][4], y[Q / 2][4];
			#pragma unroll
			for (int p = 0; p < P; p++) load_a<Sh::m, of_a>(x[p], t.a[step % S], warp_m + 16 * p, s);
			#pragma unroll
			for (int q = 0; q < Q / 2; q++) load_b<Sh::cols, of_b>(y[q], t.b[step % S], warp_col + 16 * q, s);
			#pragma unroll
			for (int p = 0; p < P; p++)
				#pragma unroll
				for (int q = 0; q < Q; q++) mma_bf16(sum[p][q], x[p], y[q / 2] + q % 2 * 2);
		}
		if (segments && (step % segment_steps == segment_steps - 1 || step == steps - 1)) {
			#pragma unroll
			for (int p = 0; p < P; p++)
				#pragma unroll
				for (int q = 0; q < Q; q++)
					#pragma unroll
					for (int i = 0; i < 4; i++) total[p][q][i] += sum[p][q][i], sum[p][q][i] = 0;
		}
	}
	#pragma unroll
	for (int p = 0; p < P; p++) {
		#pragma unroll
		for (int q = 0; q < Q; q++) {
			#pragma unroll
			for (int i = 0; i < 4; i++) { // 8 lanes write 8 neighbours
				int m = m0 + warp_m + 16 * p + lane / 4 + i / 2 * 8, col = col0 + warp_col + 8 * q + lane % 4 * 2 + i % 2;
				if (m >= a.edges || col >= b.edges) continue;
				C* to = c + (int64_t)col * a.edges + m;
				float x = segments ? total[p][q][i] : sum[p][q][i];
				store(to, add ? to_float(*to) + x : x);
			}
		}
	}
}

// FewTiles is for 8T rows: each of 4 warps brings its own tiles of S steps and leaves its segment's sums.
template <int T, int S> struct FewTiles {
	alignas(16) bf16 a[4][S][16 * depth], b[4][S][8 * T * depth];
	float sums[4][8 * T][16];
};

// few_rows computes 16 elements of each of 8T rows, from m0 on: the warps take segments side by side, four at a
// time, which are then added in order.
template <int T, int S, class C> DEVICE void few_rows(FewTiles<T, S>& t, C* c, const Operand& a, const Operand& b, int m0) {
	int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32, col0 = (int)blockIdx.y * 8 * T;
	const int segment = depth * segment_steps;
	int rounds = (a.sums + 4 * segment - 1) / (4 * segment), steps = rounds * segment_steps;
	float total[T] = {}, sum[T][4] = {};
	// A step of a warp begins at this place of the sum.
	auto place = [&](int step) { return (step / segment_steps * 4 + warp) * segment + step % segment_steps * depth; };
	auto load = [&](int step) {
		if (step < steps && place(step) < a.sums) {
			load_tile<16, along_sum, 32>(t.a[warp][step % S], a, m0, place(step), lane);
			load_tile<8 * T, along_sum, 32>(t.b[warp][step % S], b, col0, place(step), lane);
		}
		copy_commit();
	};
	for (int step = 0; step < S - 1; step++) load(step);
	for (int step = 0; step < steps; step++) {
		copy_wait<S - 2>();
		__syncwarp(); // this step's tiles have come, and no lane reads those of the last
		load(step + S - 1);
		if (place(step) < a.sums) {
			#pragma unroll
			for (int s = 0; s < depth; s += 16) {
				uint32_t x[4], y[4];
				load_a<16, along_sum>(x, t.a[warp][step % S], 0, s);
				if (T == 1) { // one B alone, of which the lower lanes give the rows
					load_matrix4(y, t.b[warp][step % S] + piece_at<8, along_sum>(lane % 8, s / 8 + lane / 8 % 2));
					mma_bf16(sum[0], x, y);
				}
				#pragma unroll
				for (int q = 0; q < T / 2; q++) {
					load_b<8 * T, along_sum>(y, t.b[warp][step % S], 16 * q, s);
					mma_bf16(sum[2 * q], x, y);
					mma_bf16(sum[2 * q + 1], x, y + 2);
				}
			}
		}
		if (step % segment_steps < segment_steps - 1) continue;
		#pragma unroll
		for (int q = 0; q < T; q++)
			#pragma unroll
			for (int i = 0; i < 4; i++) t.sums[warp][8 * q + lane % 4 * 2 + i % 2][lane / 4 + i / 2 * 8] = sum[q][i], sum[q][i] = 0;
		__syncthreads();
		#pragma unroll
		for (int w = 0; w < 4 && (step / segment_steps * 4 + w) * segment < a.sums; w++)
			#pragma unroll
			for (int i = 0; i < T; i++) total[i] += t.sums[w][threadIdx.x / 16 + 8 * i][threadIdx.x % 16];
		__syncthreads();
	}
	#pragma unroll
	for (int i = 0; i < T; i++) {
		int m = m0 + (int)threadIdx.x % 16, col = col0 + (int)threadIdx.x / 16 + 8 * i;
		if (m < a.edges && col < b.edges) store(c + (int64_t)col * a.edges + m, total[i]);
	}
}

#define MATMUL_MMA(suffix, Sh, C) \
	KERNEL(Sh::threads, matmul_mma##suffix, C* y, const bf16* x, const bf16* w, int rows, int n, int k) { \
		__shared__ Sh::Tiles tiles; \
		product<Sh, along_sum, along_sum, true>(tiles, y, Operand{w, n, k}, Operand{x, rows, k}, false); \
	} \
	KERNEL(Sh::threads, matmul_mma_back_x##suffix, C* dx, const bf16* dy, const bf16* w, int rows, int n, int k, int add) { \
		__shared__ Sh::Tiles tiles; \
		product<Sh, along_edge, along_sum, false>(tiles, dx, Operand{w, k, n}, Operand{dy, rows, n}, add != 0); \
	}

#define MATMUL_MMA_BACK_W(suffix, Sh) \
	KERNEL(Sh::threads, matmul_mma_back_w##suffix, float* dw, const bf16* dy, const bf16* x, int rows, int n, int k) { \
		__shared__ Sh::Tiles tiles; \
		product<Sh, along_edge, along_edge, false>(tiles, dw, Operand{x, k, rows}, Operand{dy, n, rows}, true); \
	}

MATMUL_MMA(_f32, Large, float)
MATMUL_MMA(_bf16, Large, bf16)
MATMUL_MMA(_small_f32, Small, float)
MATMUL_MMA(_small_bf16, Small, bf16)
MATMUL_MMA_BACK_W(, Large)
MATMUL_MMA_BACK_W(_small, Small)

// few_of_three is few_rows for the weight that this block has a part of.
template <int T, int S, class C> DEVICE void few_of_three(FewTiles<T, S>& t, C* y0, C* y1, C* y2, const bf16* w0, const bf16* w1, const bf16* w2, const bf16* x, int rows, int n0, int n1, int n2, int k) {
	int block = (int)blockIdx.x, blocks0 = (n0 + 15) / 16, blocks1 = (n1 + 15) / 16;
	if (block >= blocks0) {
		block -= blocks0, y0 = y1, w0 = w1, n0 = n1;
		if (block >= blocks1) block -= blocks1, y0 = y2, w0 = w2, n0 = n2;
	}
	few_rows(t, y0, Operand{w0, n0, k}, Operand{x, rows, k}, block * 16);
}

#define MATMUL_FEW(T, S, name, C) \
	KERNEL(128, matmul_mma_few##name, C* y0, C* y1, C* y2, const bf16* w0, const bf16* w1, const bf16* w2, const bf16* x, int rows, int n0, int n1, int n2, int k) { \
		__shared__ FewTiles<T, S> tiles; \
		few_of_three(tiles, y0, y1, y2, w0, w1, w2, x, rows, n0, n1, n2, k); \
	}

MATMUL_FEW(1, 6, 8_f32, float)
MATMUL_FEW(1, 6, 8_bf16, bf16)
MATMUL_FEW(2, 5, 16_f32, float)
MATMUL_FEW(2, 5, 16_bf16, bf16)
MATMUL_FEW(4, 3, 32_f32, float)
MATMUL_FEW(4, 3, 32_bf16, bf16)
