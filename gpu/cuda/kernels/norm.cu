// norm.cu is RMSNorm, of the model's width and of the heads of queries and keys, and its gradient.
//
//	kernel                   grid           block    arguments
//	rms_norm_T               R              rowBlock y (R,C), rstd (R), x (R,C), w (C), R, C, eps         rstd = 1/sqrt(mean(x²)+eps), y = x·rstd·w; y may be x
//	add_rms_norm_f32         R              rowBlock y, rstd, x, a (R,C), b (R,C), w, R, C, eps             x = a + b, then as above; x may be a or b
//	rms_norm_backward_T      R              rowBlock dx (R,C), dy (R,C), x (R,C), w (C), rstd (R), R, C    dx += rstd·(dn − n·mean(dn·n)), n = x·rstd, dn = dy·w
//	rms_norm_backward_w_T    (⌈C/32⌉, P)    256      sums (P,C), dy (R,C), x (R,C), rstd (R), R, C         sums[p] = Σ dy·n over the rows p·⌈R/P⌉..
//	add_rows_f32             ⌈C/256⌉        256      y (C), x (P,C), P, C                                  y += Σ_p x[p], in order
//
// T is f32, or bf16 for x, y and their gradients; _f32_bf16, which both norms have, reads x in f32 and writes y
// in bf16. All else is f32.
//
// rowBlock is min(256, C rounded up to 32) threads, by C alone: so is the order of a row's sum.
#include "dev.h"

// rms_norm normalises a row whose element i value(i) gives.
template <class Y, class Value> DEVICE void rms_norm(Y* y, float* rstd, const float* w, int64_t row, int c, float eps, float* scratch, const Value& value) {
	float sum = 0;
	for (int i = (int)threadIdx.x; i < c; i += (int)blockDim.x) {
		float v = value(i);
		sum = fma32(v, v, sum);
	}
	float s = inverse_rms(block_sum(sum, scratch), c, eps);
	if (threadIdx.x == 0) rstd[row] = s;
	for (int i = (int)threadIdx.x; i < c; i += (int)blockDim.x) store(y + row * c + i, value(i) * s * w[i]);
}
#define RMS_NORM(suffix, Y, X) \
	KERNEL(256, rms_norm_##suffix, Y* y, float* rstd, const X* x, const float* w, int r, int c, float eps) { \
		__shared__ float scratch[33]; \
		for (int64_t row = blockIdx.x; row < r; row += gridDim.x) \
			rms_norm(y, rstd, w, row, c, eps, scratch, [=](int i) { return to_float(x[row * c + i]); }); \
	}
RMS_NORM(f32, float, float)
RMS_NORM(f32_bf16, bf16, float)
RMS_NORM(bf16, bf16, bf16)

template <class Y> DEVICE void add_rms_norm(Y* y, float* rstd, float* x, const float* a, const float* b, const float* w, int r, int c, float eps, float* scratch) {
	for (int64_t row = blockIdx.x; row < r; row += gridDim.x) {
		for (int i = (int)threadIdx.x; i < c; i += (int)blockDim.x) x[row * c + i] = a[row * c + i] + b[row * c + i]; // its own, below
		rms_norm(y, rstd, w, row, c, eps, scratch, [=](int i) { return x[row * c + i]; });
	}
}
KERNEL(256, add_rms_norm_f32, float* y, float* rstd, float* x, const float* a, const float* b, const float* w, int r, int c, float eps) {
	__shared__ float scratch[33];
	add_rms_norm(y, rstd, x, a, b, w, r, c, eps, scratch);
}
KERNEL(256, add_rms_norm_f32_bf16, bf16* y, float* rstd, float* x, const float* a, const float* b, const float* w, int r, int c, float eps) {
	__shared__ float scratch[33];
	add_rms_norm(y, rstd, x, a, b, w, r, c, eps, scratch);
}

template <class T> DEVICE void rms_norm_backward(T* dx, const T* dy, const T* x, const float* w, const float* rstd, int r, int c, float* scratch) {
	for (int64_t row = blockIdx.x; row < r; row += gridDim.x) {
		const T *grad = dy + row * c, *from = x + row * c;
		float s = rstd[row], sum = 0;
		for (int i = (int)threadIdx.x; i < c; i += (int)blockDim.x) sum = fma32(to_float(grad[i]) * w[i], to_float(from[i]), sum);
		float mean = block_sum(sum, scratch) / (float)c * s * s;
		T* to = dx + row * c;
		for (int i = (int)threadIdx.x; i < c; i += (int)blockDim.x)
			store(to + i, to_float(to[i]) + s * fma32(-to_float(from[i]), mean, to_float(grad[i]) * w[i]));
	}
}

// Warp k of eight adds the rows k, k+8, .. of the block's share; the eight sums are added in order.
template <class T> DEVICE void rms_norm_backward_w(float* sums, const T* dy, const T* x, const float* rstd, int r, int c, float (*parts)[32]) {
	int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32, column = (int)blockIdx.x * 32 + lane;
	int share = (r + (int)gridDim.y - 1) / (int)gridDim.y;
	int first = share * (int)blockIdx.y, end = min(first + share, r);
	float sum = 0;
	if (column < c)
		for (int row = first + warp; row < end; row += 8) {
			int64_t at = (int64_t)row * c + column;
			sum = fma32(to_float(dy[at]) * rstd[row], to_float(x[at]), sum);
		}
	parts[warp][lane] = sum;
	__syncthreads();
	if (warp != 0 || column >= c) return;
	for (int k = 1; k < 8; k++) sum += parts[k][lane];
	sums[(int64_t)blockIdx.y * c + column] = sum;
}

#define RMS_NORM_BACKWARD(suffix, T) \
	KERNEL(256, rms_norm_backward_##suffix, T* dx, const T* dy, const T* x, const float* w, const float* rstd, int r, int c) { \
		__shared__ float scratch[33]; \
		rms_norm_backward(dx, dy, x, w, rstd, r, c, scratch); \
	} \
	KERNEL(256, rms_norm_backward_w_##suffix, float* sums, const T* dy, const T* x, const float* rstd, int r, int c) { \
		__shared__ float parts[8][32]; \
		rms_norm_backward_w(sums, dy, x, rstd, r, c, parts); \
	}
RMS_NORM_BACKWARD(f32, float)
RMS_NORM_BACKWARD(bf16, bf16)

KERNEL(256, add_rows_f32, float* y, const float* x, int p, int c) {
	int column = (int)(blockIdx.x * blockDim.x + threadIdx.x);
	if (column >= c) return;
	float sum = 0;
	for (int row = 0; row < p; row++) sum += x[(int64_t)row * c + column];
	y[column] += sum;
}
