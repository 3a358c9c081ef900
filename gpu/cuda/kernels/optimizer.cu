// optimizer.cu is the norm of gradients and the step of AdamW (arXiv 1711.05101, algorithm 2).
//
//	kernel                    grid         block  arguments
//	square_sum_f32|bf16|f16   ⌈n/16384⌉    256    sums (⌈n/16384⌉) f64, x (n), n i64          sums[i] = Σ x² of piece i
//	sum_f64                   1            256    sums (n) f64, n                             sums[0] = Σ sums, in a fixed order
//	adamw_f32                 elements(n)  256    p, g, m, v (n), n i64, gradscale, beta1, 1−beta1, beta2, 1−beta2, keep, rate, 1/bias2, eps
//	adamw_bf16                elements(n)  256    p, g (n) f32, m, v (n) bf16, n i64, the same scalars, seed i64
//
//	m = β1·m + (1−β1)·g;  v = β2·v + (1−β2)·g²;  p = keep·p − rate·m/(sqrt(v/bias2) + eps)
//
// with g times gradscale, keep = 1 − lr·decay, rate = lr/bias1. Moments in bf16 are rounded up or down by
// chance, in proportion: to the nearest, a β2 near 1 would never let v sink. The chance is a function of seed
// and index.
#include "dev.h"

// block_sum64 reaches thread 0.
DEVICE double block_sum64(double x) {
	__shared__ double parts[256];
	parts[threadIdx.x] = x;
	for (int n = (int)blockDim.x / 2; n > 0; n /= 2) {
		__syncthreads();
		if ((int)threadIdx.x < n) parts[threadIdx.x] += parts[threadIdx.x + n];
	}
	return threadIdx.x == 0 ? parts[0] : 0;
}

template <class T> DEVICE void square_sum(double* sums, const T* x, int64_t n) {
	const int piece = 1 << 14;
	int64_t from = (int64_t)blockIdx.x * piece;
	int count = n - from < piece ? (int)(n - from) : piece;
	double sum = 0;
	for (int i = (int)threadIdx.x; i < count; i += (int)blockDim.x) {
		double v = to_float(x[from + i]);
		sum += v * v;
	}
	sum = block_sum64(sum);
	if (threadIdx.x == 0) sums[blockIdx.x] = sum;
}
KERNEL(256, square_sum_f32, double* sums, const float* x, int64_t n) { square_sum(sums, x, n); }
KERNEL(256, square_sum_bf16, double* sums, const bf16* x, int64_t n) { square_sum(sums, x, n); }
KERNEL(256, square_sum_f16, double* sums, const f16* x, int64_t n) { square_sum(sums, x, n); }

KERNEL(256, sum_f64, double* sums, int n) {
	double sum = 0;
	for (int i = (int)threadIdx.x; i < n; i += (int)blockDim.x) sum += sums[i];
	sum = block_sum64(sum);
	if (threadIdx.x == 0) sums[0] = sum;
}

struct Step {
	float gradscale, beta1, rest1, beta2, rest2, keep, rate, unbias2, eps;
};

// step gives the new parameter and changes the moments.
DEVICE float step(float p, float g, float& m, float& v, Step s) {
	g *= s.gradscale;
	m = fma32(s.beta1, m, s.rest1 * g);
	v = fma32(s.beta2, v, s.rest2 * g * g);
	return fma32(s.keep, p, -(s.rate * m / (sqrt32(v * s.unbias2) + s.eps)));
}

KERNEL(256, adamw_f32, float* p, const float* g, float* m, float* v, int64_t n, float gradscale, float beta1, float rest1, float beta2,
       float rest2, float keep, float rate, float unbias2, float eps) {
	Step s = {gradscale, beta1, rest1, beta2, rest2, keep, rate, unbias2, eps};
	int64_t stride = (int64_t)gridDim.x * blockDim.x;
	for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += stride) {
		float first = m[i], second = v[i];
		p[i] = step(p[i], g[i], first, second, s);
		m[i] = first;
		v[i] = second;
	}
}

// mix is the finaliser of SplitMix64 (Steele, Lea, Flood 2014), as gpu/generate has it.
DEVICE uint64_t mix(uint64_t x) {
	x += 0x9e3779b97f4a7c15;
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
	x = (x ^ x >> 27) * 0x94d049bb133111eb;
	return x ^ x >> 31;
}

// round_by_chance rounds to one of the two bf16 around x: up with the share of the way that x has gone.
DEVICE bf16 round_by_chance(float x, uint32_t chance) {
	uint32_t bits = as_bits(x);
	if ((bits & 0x7f800000) == 0x7f800000) return to_bf16(x);
	return bf16{(uint16_t)((bits + (chance & 0xffff)) >> 16)};
}

KERNEL(256, adamw_bf16, float* p, const float* g, bf16* m, bf16* v, int64_t n, float gradscale, float beta1, float rest1, float beta2,
       float rest2, float keep, float rate, float unbias2, float eps, int64_t seed) {
	Step s = {gradscale, beta1, rest1, beta2, rest2, keep, rate, unbias2, eps};
	int64_t stride = (int64_t)gridDim.x * blockDim.x;
	for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += stride) {
		float first = to_float(m[i]), second = to_float(v[i]);
		uint64_t chance = mix(mix((uint64_t)seed) + (uint64_t)i);
		p[i] = step(p[i], g[i], first, second, s);
		m[i] = round_by_chance(first, (uint32_t)chance);
		v[i] = round_by_chance(second, (uint32_t)(chance >> 16));
	}
}
