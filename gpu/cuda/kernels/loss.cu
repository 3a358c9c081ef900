// loss.cu reads logits (R,V) once and leaves what a loss needs, and turns them into their gradient.
//
//	kernel                  grid            block  arguments
//	log_probs_f32           R               1024   lse (R), logprob (R), entropy (R), logits (R,V), scale (R), targets (R) i32 or 0, R, V
//	log_probs_backward_f32  R               1024   logits (R,V) in place, scale (R), lse (R), targets (R), entropy (R), dlogprob (R), dentropy (R) or 0, R, V
//
// With s = scale, top = max s·z, e_v = exp(s·z_v − top) and S = Σ e_v:
//
//	lse = top + log S;  logprob = round(s·z_target) − lse;  entropy = log S − Σ e_v·(s·z_v − top)/S
//
// Each thread keeps (top, S, moment) of the columns it has seen, and lowers them when a greater one comes;
// those of a block are joined in a fixed order.
#include "dev.h"

// Lowest is below each logit but -Inf, and its differences are no NaN.
static const float lowest = -3.4028234663852886e38f;

struct Sums {
	float top, sum, moment; // moment = Σ e·(s·z − top)
};

// lower expresses x by another, greater top.
DEVICE Sums lower(Sums x, float top) {
	float by = x.top - top, factor = exp32(by);
	// where the factor is 0, nothing is left of the moment: 0·by might be NaN
	return {top, x.sum * factor, factor > 0.f ? factor * fma32(x.sum, by, x.moment) : 0.f * x.sum};
}

DEVICE Sums join(Sums a, Sums b) {
	float top = max32(a.top, b.top);
	a = lower(a, top);
	b = lower(b, top);
	return {top, a.sum + b.sum, a.moment + b.moment};
}

DEVICE void add(Sums& x, const float z[4], int n) {
	float top = x.top;
	for (int k = 0; k < n; k++) top = max32(top, z[k]);
	if (top > x.top) x = lower(x, top);
	for (int k = 0; k < n; k++) {
		float below = z[k] - x.top, e = exp32(below);
		x.sum += e;
		if (e != 0.f) x.moment = fma32(e, below, x.moment);
	}
}

DEVICE Sums join_warp(Sums x) {
	for (int by = 16; by > 0; by >>= 1) {
		Sums other = {__shfl_xor_sync(all_lanes, x.top, by), __shfl_xor_sync(all_lanes, x.sum, by), __shfl_xor_sync(all_lanes, x.moment, by)};
		x = threadIdx.x & by ? join(other, x) : join(x, other); // both lanes add in the same order
	}
	return x;
}

KERNEL(1024, log_probs_f32, float* lse, float* logprob, float* entropy, const float* logits, const float* scale, const int* targets, int r, int v) {
	__shared__ Sums parts[32];
	int64_t row = blockIdx.x;
	if (row >= r) return;
	const float* z = logits + row * v;
	float s = scale[row], four[4];
	Sums x = {lowest, 0.f, 0.f};
	int i = (int)threadIdx.x, step = (int)blockDim.x;
	for (; i + 3 * step < v; i += 4 * step) {
#pragma unroll
		for (int k = 0; k < 4; k++) four[k] = s * z[i + k * step];
		add(x, four, 4);
	}
	for (; i < v; i += step) {
		four[0] = s * z[i];
		add(x, four, 1);
	}
	x = join_warp(x);
	if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = x;
	__syncthreads();
	if (threadIdx.x != 0) return;
	for (int w = 1; w < (int)blockDim.x / 32; w++) x = join(x, parts[w]);
	double log_sum = log64((double)x.sum);
	float l = (float)((double)x.top + log_sum);
	lse[row] = l;
	if (!targets) return;
	logprob[row] = s * z[targets[row]] - l;
	entropy[row] = (float)(log_sum - (double)x.moment / (double)x.sum);
}

// dlogits = s·(dlogprob·(1[target] − p) − dentropy·p·(log p + entropy))
KERNEL(1024, log_probs_backward_f32, float* logits, const float* scale, const float* lse, const int* targets, const float* entropy,
       const float* dlogprob, const float* dentropy, int r, int v) {
	for (int64_t row = blockIdx.x; row < r; row += gridDim.x) {
		float *z = logits + row * v, s = scale[row], l = lse[row], own = s * dlogprob[row];
		float constant = -own, slope = 0;
		if (dentropy) {
			slope = -s * dentropy[row];
			constant = fma32(slope, entropy[row], constant);
		}
		int target = targets[row];
		for (int i = (int)threadIdx.x; i < v; i += (int)blockDim.x) {
			float logp = s * z[i] - l, p = exp32(logp);
			float grad = p == 0.f ? 0.f : p * fma32(slope, logp, constant);
			z[i] = i == target ? grad + own : grad;
		}
	}
}
