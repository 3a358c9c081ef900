// faults.cu is a kernel without a fault, and kernels with one each, which the emulator must find.
#include "dev.h"

// reverse: y (n) = x (n) backwards, within a block of n threads.
KERNEL(256, reverse, float* y, const float* x) {
	__shared__ float tile[256];
	int i = (int)threadIdx.x, n = (int)blockDim.x;
	tile[i] = x[i];
	__syncthreads();
	y[i] = tile[n - 1 - i];
}

KERNEL(256, missing_barrier, float* y, const float* x) {
	__shared__ float tile[256];
	int i = (int)threadIdx.x, n = (int)blockDim.x;
	tile[i] = x[i];
	y[i] = tile[n - 1 - i];
}

// Within a warp, too, lanes need not run in step.
KERNEL(32, missing_warp_barrier, float* y, const float* x) {
	__shared__ float tile[32];
	int i = (int)threadIdx.x;
	tile[i] = x[i];
	(void)__shfl_xor_sync(all_lanes, x[i], 1); // moves a value, orders no memory
	y[i] = tile[31 - i];
}

// The tile is written again while other warps may still read it.
KERNEL(256, missing_second_barrier, float* y, const float* x) {
	__shared__ float tile[256];
	int i = (int)threadIdx.x, n = (int)blockDim.x;
	float sum = 0;
	for (int turn = 0; turn < 2; turn++) {
		tile[i] = x[i] + (float)turn;
		__syncthreads();
		sum += tile[n - 1 - i];
	}
	y[i] = sum;
}

KERNEL(256, barrier_after_exit, float* y, const float* x) {
	if (threadIdx.x == 7) return;
	__syncthreads();
	y[threadIdx.x] = x[threadIdx.x];
}

KERNEL(256, divergent_barrier, float* y, const float* x) {
	if (threadIdx.x < 32) __syncthreads();
	else
		__syncthreads();
	y[threadIdx.x] = x[threadIdx.x];
}

KERNEL(256, shuffle_without_lanes, float* y, const float* x) {
	float v = x[threadIdx.x];
	if (threadIdx.x % 32 < 16) v = __shfl_xor_sync(all_lanes, v, 1);
	y[threadIdx.x] = v;
}

KERNEL(256, reads_poison, float* y, const float* x) {
	__shared__ float tile[257];
	tile[threadIdx.x] = x[threadIdx.x];
	__syncthreads();
	y[threadIdx.x] = tile[threadIdx.x + 1];
}

KERNEL(256, reads_uninitialised, float* y, const float* x) {
	float v[4];
	if (x[threadIdx.x] > 0) v[threadIdx.x % 4] = 0;
	y[threadIdx.x] = v[0] + v[1] + v[2] + v[3];
}

KERNEL(256, out_of_bounds, float* y, const float* x) { y[threadIdx.x + 1] = x[threadIdx.x]; }

KERNEL(256, blocks_race, float* y, const float* x) { y[threadIdx.x] = x[threadIdx.x]; }

KERNEL(256, misaligned, float* y, const float* x) {
	if (threadIdx.x % 4) return;
	*(float4*)(y + threadIdx.x) = *(const float4*)(x + (threadIdx.x ? 0 : 1));
}

KERNEL(256, unfinished_copy, float* y, const float* x) {
	DYNAMIC_SHARED(bytes);
	float* tile = (float*)bytes;
	int i = (int)threadIdx.x;
	if (i % 4 == 0) copy_async16(tile + i, x + i);
	copy_commit();
	__syncthreads(); // does not wait for copies
	y[i] = tile[i];
}

KERNEL(256, finished_copy, float* y, const float* x) {
	DYNAMIC_SHARED(bytes);
	float* tile = (float*)bytes;
	int i = (int)threadIdx.x, n = (int)blockDim.x;
	if (i % 4 == 0) copy_async16(tile + i, x + i);
	copy_commit();
	copy_wait<0>();
	__syncthreads();
	y[i] = tile[n - 1 - i];
}

// product: y (16,8) = A (16,16) · B (16,8) of one warp, A[i][j] = x[i] and B[i][j] = x[j],
// when the fragments are right; swapped exchanges two registers of A.
DEVICE void multiply(float* y, const float* x, bool swapped) {
	int g = (int)threadIdx.x / 4, t = (int)threadIdx.x % 4;
	uint32_t low = pack_bf16(x[g], x[g]), high = pack_bf16(x[g + 8], x[g + 8]), b = pack_bf16(x[g], x[g]);
	uint32_t rows[4] = {low, swapped ? low : high, swapped ? high : low, high}, columns[2] = {b, b};
	float c[4] = {};
	mma_bf16(c, rows, columns);
	y[g * 8 + 2 * t] = c[0];
	y[g * 8 + 2 * t + 1] = c[1];
	y[(g + 8) * 8 + 2 * t] = c[2];
	y[(g + 8) * 8 + 2 * t + 1] = c[3];
}
KERNEL(32, product, float* y, const float* x) { multiply(y, x, false); }
KERNEL(32, swapped_fragment, float* y, const float* x) { multiply(y, x, true); }
