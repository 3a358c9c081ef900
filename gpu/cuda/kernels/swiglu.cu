// swiglu.cu is the MLP's gate: h = gate·sigmoid(gate)·up.
//
//	kernel             grid         block  arguments
//	swiglu_T           elements(n)  256    h (n), gate (n), up (n), n i64
//	swiglu_backward_T  elements(n)  256    dgate (n), dup (n), dh (n), gate (n), up (n), n i64; dgate may be gate, dup may be up
//
// T, the type of all, is f32 or bf16.
#include "dev.h"

template <class T> DEVICE void swiglu(T* h, const T* gate, const T* up, int64_t n) {
	for_elements(n, [=](int64_t i) { return float2{to_float(gate[i]), to_float(up[i])}; },
		[=](int64_t i, float2 x) { store(h + i, x.x * sigmoid32(x.x) * x.y); });
}
KERNEL(256, swiglu_f32, float* h, const float* gate, const float* up, int64_t n) { swiglu(h, gate, up, n); }
KERNEL(256, swiglu_bf16, bf16* h, const bf16* gate, const bf16* up, int64_t n) { swiglu(h, gate, up, n); }

struct Gated {
	float gate, up, dh;
};

template <class T> DEVICE void swiglu_backward(T* dgate, T* dup, const T* dh, const T* gate, const T* up, int64_t n) {
	for_elements(n, [=](int64_t i) { return Gated{to_float(gate[i]), to_float(up[i]), to_float(dh[i])}; },
		[=](int64_t i, Gated x) {
			float s = sigmoid32(x.gate);
			// gate·s first: it is 0 where the gate is far below 0, and 1−s is 0 where it is far above
			store(dgate + i, x.dh * x.up * fma32(x.gate * s, 1.f - s, s));
			store(dup + i, x.dh * x.gate * s);
		});
}
KERNEL(256, swiglu_backward_f32, float* dgate, float* dup, const float* dh, const float* gate, const float* up, int64_t n) {
	swiglu_backward(dgate, dup, dh, gate, up, n);
}
KERNEL(256, swiglu_backward_bf16, bf16* dgate, bf16* dup, const bf16* dh, const bf16* gate, const bf16* up, int64_t n) {
	swiglu_backward(dgate, dup, dh, gate, up, n);
}
