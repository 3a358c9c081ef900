// Products of float32 rows with matrices of any float type, in float32: the products of Exact mode
// when activations are float32.
//
// Every element is one chain of fused multiply-adds over k = 0, 1, 2, ..., whatever the tile and
// the number of rows, so a row alone has the bits of the row in a batch.
//
//	name                     grid (x, y)                        block
//	matmul_T                 ceil(n/64), ceil(rows/64)          256   y (rows,n) = x (rows,k)·wᵀ, w (n,k)
//	matmul_few_T             ceil(n/16), ceil(rows/16)          256   the same bits; for up to some 64 rows
//	matmul_back_x_T          ceil(k/64), ceil(rows/64)          256   dx (rows,k) = dy (rows,n)·w, or +=
//	matmul_back_w_f32        ceil(k/64), ceil(n/64)             256   dw (n,k) += dy (rows,n)ᵀ·x (rows,k)
//
// T is the type of w: f32, bf16, f16. No dynamic shared memory. Arguments, in order:
//
//	matmul_T, matmul_few_T   y, x, w, rows, n, k
//	matmul_back_x_T          dx, dy, w, rows, n, k, add
//	matmul_back_w_f32        dw, dy, x, rows, n, k
#include "dev.h"

static const int tile_depth = 32;

// ProductTile is the operands of a block: I rows of A and J columns of B, tile_depth of the sum at
// a time, padded by one so that neither way of filling it meets a bank twice.
template <int I, int J> struct ProductTile {
	float a[tile_depth][I + 1], b[tile_depth][J + 1];
};

// along says which index of an operand is contiguous in memory.
enum Along { along_sum, along_edge };

// fetch reads this thread's share of an operand's next E edges × tile_depth; beyond the matrix it is 0.
template <int E, Along along, class T>
DEVICE void fetch(float* part, const T* from, int edges, int sums, int edge0, int sum0) {
	for (int q = 0; q < E * tile_depth / 256; q++) {
		int at = (int)threadIdx.x + 256 * q;
		int edge = edge0 + (along == along_sum ? at / tile_depth : at % E), sum = sum0 + (along == along_sum ? at % tile_depth : at / E);
		bool in = edge < edges && sum < sums;
		int64_t place = along == along_sum ? (int64_t)edge * sums + sum : (int64_t)sum * edges + edge;
		part[q] = in ? to_float(from[place]) : 0.f;
	}
}

template <int E, Along along> DEVICE void put(float (*to)[E + 1], const float* part) {
	for (int q = 0; q < E * tile_depth / 256; q++) {
		int at = (int)threadIdx.x + 256 * q;
		if (along == along_sum) to[at % tile_depth][at / tile_depth] = part[q];
		else to[at / E][at % E] = part[q];
	}
}

// product computes the block's 16P×16Q elements of c (m,n) = a·b, summed over k, or adds them. A
// thread has those 16 apart, so that a warp writes whole sectors.
template <int P, int Q, Along of_a, Along of_b, class T>
DEVICE void product(ProductTile<16 * P, 16 * Q>& tile, float* c, const float* a, const T* b, int m, int n, int k, bool add) {
	const int I = 16 * P, J = 16 * Q;
	int i0 = (int)blockIdx.y * I, j0 = (int)blockIdx.x * J, ty = (int)threadIdx.x / 16, tx = (int)threadIdx.x % 16;
	float sums[P][Q] = {}, next_a[I * tile_depth / 256], next_b[J * tile_depth / 256];
	fetch<I, of_a>(next_a, a, m, k, i0, 0);
	fetch<J, of_b>(next_b, b, n, k, j0, 0);
	for (int k0 = 0; k0 < k; k0 += tile_depth) {
		put<I, of_a>(tile.a, next_a);
		put<J, of_b>(tile.b, next_b);
		__syncthreads();
		if (k0 + tile_depth < k) { // on their way while the tile is multiplied
			fetch<I, of_a>(next_a, a, m, k, i0, k0 + tile_depth);
			fetch<J, of_b>(next_b, b, n, k, j0, k0 + tile_depth);
		}
		for (int s = 0; s < tile_depth; s++) {
			float x[P], y[Q];
			for (int p = 0; p < P; p++) x[p] = tile.a[s][ty + 16 * p];
			for (int q = 0; q < Q; q++) y[q] = tile.b[s][tx + 16 * q];
			for (int p = 0; p < P; p++)
				for (int q = 0; q < Q; q++) sums[p][q] = fma32(x[p], y[q], sums[p][q]);
		}
		__syncthreads();
	}
	for (int p = 0; p < P; p++) {
		for (int q = 0; q < Q; q++) {
			int i = i0 + ty + 16 * p, j = j0 + tx + 16 * q;
			if (i >= m || j >= n) continue;
			float* to = c + (int64_t)i * n + j;
			*to = add ? *to + sums[p][q] : sums[p][q];
		}
	}
}

#define MATMUL(suffix, T) \
	KERNEL(256, matmul_##suffix, float* y, const float* x, const T* w, int rows, int n, int k) { \
		__shared__ ProductTile<64, 64> tile; \
		product<4, 4, along_sum, along_sum>(tile, y, x, w, rows, n, k, false); \
	} \
	KERNEL(256, matmul_few_##suffix, float* y, const float* x, const T* w, int rows, int n, int k) { \
		__shared__ ProductTile<16, 16> tile; \
		product<1, 1, along_sum, along_sum>(tile, y, x, w, rows, n, k, false); \
	} \
	KERNEL(256, matmul_back_x_##suffix, float* dx, const float* dy, const T* w, int rows, int n, int k, int add) { \
		__shared__ ProductTile<64, 64> tile; \
		product<4, 4, along_sum, along_edge>(tile, dx, dy, w, rows, k, n, add != 0); \
	}

MATMUL(f32, float)
MATMUL(bf16, bf16)
MATMUL(f16, f16)

KERNEL(256, matmul_back_w_f32, float* dw, const float* dy, const float* x, int rows, int n, int k) {
	__shared__ ProductTile<64, 64> tile;
	product<4, 4, along_edge, along_edge>(tile, dw, dy, x, n, k, rows, true);
}
