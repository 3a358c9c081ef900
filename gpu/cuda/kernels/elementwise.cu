// elementwise.cu is what is done to each element, or to each row of a matrix as it is. Types
// are suffixes: of the output, then of the input where it may differ.
//
//	kernel                grid             block  arguments
//	copy_f32_bf16|f16     elements(n)      256    y (n), x (n), n i64          y = x, widened
//	copy_bf16_f32         elements(n)      256    y (n), x (n), n i64          y = x, rounded to nearest even
//	add_f32               elements(n)      256    y (n), a (n), b (n), n i64   y = a + b; y may be a or b
//	add_scaled_f32        elements(n)      256    y (n), x (n), n i64, s f32   y += s·x
//	gather_f32|bf16|f16   (M, ⌈C/1024⌉)    256    y (M,C) f32, x (R,C), rows (M) i32, C i32   y[i] = x[rows[i]]
//	scatter_f32           (R, ⌈C/1024⌉)    256    y (S,C), x (R,C), rows (R) i32, C i32       y[rows[i]] = x[i]
//
// elements(n) is ⌈n/1024⌉ blocks: a thread does four elements, a block's width apart, so that a warp
// reads 128 bytes at a time whatever a buffer's alignment. A copy within a type is the driver's.
#include "dev.h"

// each stores f(i) to y[i]. All four of a thread are computed before one is stored: the loads are
// under way together.
template <class T, class F> DEVICE void each(T* y, int64_t n, F f) {
	int64_t i = (int64_t)blockIdx.x * 1024 + threadIdx.x;
	float v[4];
	if (i + 768 < n) {
#pragma unroll
		for (int k = 0; k < 4; k++) v[k] = f(i + 256 * k);
#pragma unroll
		for (int k = 0; k < 4; k++) store(y + i + 256 * k, v[k]);
		return;
	}
	for (; i < n; i += 256) store(y + i, f(i));
}

template <class To, class From> DEVICE void copy(To* y, const From* x, int64_t n) {
	each(y, n, [=](int64_t i) { return to_float(x[i]); });
}
KERNEL(256, copy_f32_bf16, float* y, const bf16* x, int64_t n) { copy(y, x, n); }
KERNEL(256, copy_f32_f16, float* y, const f16* x, int64_t n) { copy(y, x, n); }
KERNEL(256, copy_bf16_f32, bf16* y, const float* x, int64_t n) { copy(y, x, n); }

KERNEL(256, add_f32, float* y, const float* a, const float* b, int64_t n) {
	each(y, n, [=](int64_t i) { return a[i] + b[i]; });
}

KERNEL(256, add_scaled_f32, float* y, const float* x, int64_t n, float s) {
	each(y, n, [=](int64_t i) { return fma32(s, x[i], y[i]); });
}

// column is the first of the columns that a thread of a row's block does, one in 256.
DEVICE int column() { return (int)(blockIdx.y * 1024 + threadIdx.x); }
DEVICE int columns_end(int c) { return min((int)(blockIdx.y + 1) * 1024, c); }

template <class T> DEVICE void gather(float* y, const T* x, const int* rows, int c) {
	const T* from = x + (int64_t)rows[blockIdx.x] * c;
	float* to = y + (int64_t)blockIdx.x * c;
	for (int i = column(); i < columns_end(c); i += 256) to[i] = to_float(from[i]);
}
KERNEL(256, gather_f32, float* y, const float* x, const int* rows, int c) { gather(y, x, rows, c); }
KERNEL(256, gather_bf16, float* y, const bf16* x, const int* rows, int c) { gather(y, x, rows, c); }
KERNEL(256, gather_f16, float* y, const f16* x, const int* rows, int c) { gather(y, x, rows, c); }

KERNEL(256, scatter_f32, float* y, const float* x, const int* rows, int c) {
	const float* from = x + (int64_t)blockIdx.x * c;
	float* to = y + (int64_t)rows[blockIdx.x] * c;
	for (int i = column(); i < columns_end(c); i += 256) to[i] = from[i];
}
