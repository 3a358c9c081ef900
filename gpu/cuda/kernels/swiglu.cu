// swiglu.cu is the MLP's gate: h = gate·sigmoid(gate)·up.
//
//	kernel               grid         block  arguments
//	swiglu_f32           elements(n)  256    h (n), gate (n), up (n), n i64
//	swiglu_backward_f32  elements(n)  256    dgate (n), dup (n), dh (n), gate (n), up (n), n i64; dgate may be gate, dup may be up
#include "dev.h"

KERNEL(256, swiglu_f32, float* h, const float* gate, const float* up, int64_t n) {
	int64_t stride = (int64_t)gridDim.x * blockDim.x;
	for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += stride) {
		float g = gate[i];
		h[i] = g * sigmoid32(g) * up[i];
	}
}

KERNEL(256, swiglu_backward_f32, float* dgate, float* dup, const float* dh, const float* gate, const float* up, int64_t n) {
	int64_t stride = (int64_t)gridDim.x * blockDim.x;
	for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += stride) {
		float g = gate[i], u = up[i], y = dh[i], s = sigmoid32(g);
		// g·s first: it is 0 where g is far below 0, and 1−s is 0 where g is far above
		dgate[i] = y * u * fma32(g * s, 1.f - s, s);
		dup[i] = y * g * s;
	}
}
