// swiglu.cu is the MLP's gate: h = gate·sigmoid(gate)·up.
//
//	kernel             grid         block  arguments
//	swiglu_T           elements(n)  256    h (n), gate (n), up (n), n i64
//	swiglu_backward_T  elements(n)  256    dgate (n), dup (n), dh (n), gate (n), up (n), n i64; dgate may be gate, dup may be up
//
// T, the type of all, is f32 or bf16.
#include "dev.h"

template <class T> DEVICE void swiglu(T* h, const T* gate, const T* up, int64_t n) {
	int64_t stride = (int64_t)gridDim.x * blockDim.x;
	for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += stride) {
		float g = to_float(gate[i]);
		store(h + i, g * sigmoid32(g) * to_float(up[i]));
	}
}
KERNEL(256, swiglu_f32, float* h, const float* gate, const float* up, int64_t n) { swiglu(h, gate, up, n); }
KERNEL(256, swiglu_bf16, bf16* h, const bf16* gate, const bf16* up, int64_t n) { swiglu(h, gate, up, n); }

template <class T> DEVICE void swiglu_backward(T* dgate, T* dup, const T* dh, const T* gate, const T* up, int64_t n) {
	int64_t stride = (int64_t)gridDim.x * blockDim.x;
	for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += stride) {
		float g = to_float(gate[i]), u = to_float(up[i]), y = to_float(dh[i]), s = sigmoid32(g);
		// g·s first: it is 0 where g is far below 0, and 1−s is 0 where g is far above
		store(dgate + i, y * u * fma32(g * s, 1.f - s, s));
		store(dup + i, y * g * s);
	}
}
KERNEL(256, swiglu_backward_f32, float* dgate, float* dup, const float* dh, const float* gate, const float* up, int64_t n) {
	swiglu_backward(dgate, dup, dh, gate, up, n);
}
KERNEL(256, swiglu_backward_bf16, bf16* dgate, bf16* dup, const bf16* dh, const bf16* gate, const bf16* up, int64_t n) {
	swiglu_backward(dgate, dup, dh, gate, up, n);
}
