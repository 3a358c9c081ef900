// elementwise.cu is what is done to each element, or to each row of a matrix as it is. A suffix is
// the type that is read (x), and the one that is written (y) where it is another.
//
//	kernel           grid         block  arguments
//	convert_X_Y      elements(n)  256    y (n), x (n), n i64                    y = x, to nearest even; X_Y: bf16_f32, f16_f32, f32_bf16, f16_bf16
//	fill_T           elements(n)  256    y (n), n i64, x f32                    y = x; T: f32, bf16
//	add_f32          elements(n)  256    y (n), a (n), b (n), n i64             y = a + b; y may be a or b
//	add_scaled_f32   elements(n)  256    y (n), x (n), n i64, s f32             y += s·x; also f32_bf16
//	gather_f32       M            256    y (M,C), x (R,C), rows (M) i32, M, C   y[i] = x[rows[i]]; also bf16, bf16_f32, f16_f32
//	scatter_T        R            256    y (S,C), x (R,C), rows (R) i32, R, C   y[rows[i]] = x[i]; T: f32, bf16
//
// elements(n) is any number of blocks: threads stride over what is left.
#include "dev.h"

// each stores f(i) to y[i].
template <class T, class F> DEVICE void each(T* y, int64_t n, F f) {
	for_elements(n, f, [=](int64_t i, float x) { store(y + i, x); });
}

template <class To, class From> DEVICE void convert(To* y, const From* x, int64_t n) {
	each(y, n, [=](int64_t i) { return to_float(x[i]); });
}
KERNEL(256, convert_bf16_f32, float* y, const bf16* x, int64_t n) { convert(y, x, n); }
KERNEL(256, convert_f16_f32, float* y, const f16* x, int64_t n) { convert(y, x, n); }
KERNEL(256, convert_f32_bf16, bf16* y, const float* x, int64_t n) { convert(y, x, n); }
KERNEL(256, convert_f16_bf16, bf16* y, const f16* x, int64_t n) { convert(y, x, n); }

KERNEL(256, fill_f32, float* y, int64_t n, float x) { each(y, n, [=](int64_t) { return x; }); }
KERNEL(256, fill_bf16, bf16* y, int64_t n, float x) { each(y, n, [=](int64_t) { return x; }); }

KERNEL(256, add_f32, float* y, const float* a, const float* b, int64_t n) {
	each(y, n, [=](int64_t i) { return a[i] + b[i]; });
}

template <class T> DEVICE void add_scaled(T* y, const float* x, int64_t n, float s) {
	each(y, n, [=](int64_t i) { return fma32(s, x[i], to_float(y[i])); });
}
KERNEL(256, add_scaled_f32, float* y, const float* x, int64_t n, float s) { add_scaled(y, x, n, s); }
KERNEL(256, add_scaled_f32_bf16, bf16* y, const float* x, int64_t n, float s) { add_scaled(y, x, n, s); }

// row copies the C elements of a row, a block's width apart.
template <class To, class From> DEVICE void row(To* y, const From* x, int c) {
	int i = (int)threadIdx.x, step = (int)blockDim.x;
	for (; i + 3 * step < c; i += 4 * step) {
		float v[4];
#pragma unroll
		for (int k = 0; k < 4; k++) v[k] = to_float(x[i + k * step]);
#pragma unroll
		for (int k = 0; k < 4; k++) store(y + i + k * step, v[k]);
	}
	for (; i < c; i += step) store(y + i, to_float(x[i]));
}

template <class To, class From> DEVICE void gather(To* y, const From* x, const int* rows, int m, int c) {
	for (int64_t i = blockIdx.x; i < m; i += gridDim.x) row(y + i * c, x + (int64_t)rows[i] * c, c);
}
KERNEL(256, gather_f32, float* y, const float* x, const int* rows, int m, int c) { gather(y, x, rows, m, c); }
KERNEL(256, gather_bf16, bf16* y, const bf16* x, const int* rows, int m, int c) { gather(y, x, rows, m, c); }
KERNEL(256, gather_bf16_f32, float* y, const bf16* x, const int* rows, int m, int c) { gather(y, x, rows, m, c); }
KERNEL(256, gather_f16_f32, float* y, const f16* x, const int* rows, int m, int c) { gather(y, x, rows, m, c); }

template <class T> DEVICE void scatter(T* y, const T* x, const int* rows, int r, int c) {
	for (int64_t i = blockIdx.x; i < r; i += gridDim.x) row(y + (int64_t)rows[i] * c, x + i * c, c);
}
KERNEL(256, scatter_f32, float* y, const float* x, const int* rows, int r, int c) { scatter(y, x, rows, r, c); }
KERNEL(256, scatter_bf16, bf16* y, const bf16* x, const int* rows, int r, int c) { scatter(y, x, rows, r, c); }
