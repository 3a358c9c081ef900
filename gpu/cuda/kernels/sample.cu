// Draws the tokens of rows of logits (R,V), as gpu/sample does, bit for bit: the same additions and
// multiplications for a weight, and sums of weights as whole numbers, which have no order.
//
//	kernel         grid  block                      arguments
//	sample_tokens  R     32·ceil(V/32), at most 1024  out (R) Drawn, draws (R) Draw, logits (R,V), scale (R), lse (R), V
//
// A row's threads walk it several times: for its greatest logit; for the sum of its weights at temperature
// 1, unless the scale is 1; where tokens are cut off, 12 times for the greatest K and 13 for a share P, and once more; and
// to find the token at whose weight the running sum passes the random number. Weights are made anew each time.
#include "dev.h"

// Draw and Drawn are draw and drawn of ../sample.go.
struct Draw {
	uint64_t random, top_p;
	int top_k;
	float min_p;
	int tempered, unused;
};
struct Drawn {
	uint64_t ones, kept;
	int id, finite;
	float logit, lse, most, weight;
};

static const int unit_bits = 41;     // sample.Unit
static const int no_end = 0x7fffffff;

// sample_exp is sample.Exp.
DEVICE float sample_exp(float x) {
	if (x < -87.f) return 0.f;
	int n = (int)(x * 1.44269504088896340736f - 0.5f);
	float f = x - (float)n * 0.693145751953125f - (float)n * 1.42860682030941723212e-6f;
	float p = f * (1.f / 720) + 1.f / 120;
	p = f * p + 1.f / 24;
	p = f * p + 1.f / 6;
	p = f * p + 0.5f;
	p = f * p + 1.f;
	p = f * p + 1.f;
	return p * as_float((uint32_t)(127 + n) << 23);
}

DEVICE uint64_t whole(float weight) { return (uint64_t)(int64_t)(weight * (float)(1ll << unit_bits)); }

// share is part 2⁻⁶⁴ of a sum, rounded down.
DEVICE uint64_t share(uint64_t part, uint64_t sum) {
	uint64_t low = 0xffffffff, a = part & low, b = part >> 32, c = sum & low, d = sum >> 32;
	uint64_t middle = b * c + (a * c >> 32), other = a * d + (middle & low);
	return b * d + (middle >> 32) + (other >> 32);
}

DEVICE uint64_t pair(uint32_t high, uint32_t low) { return (uint64_t)high << 32 | low; }
DEVICE uint64_t xor64(uint64_t x, int by) {
	uint32_t high = (uint32_t)__shfl_xor_sync(all_lanes, (int)(x >> 32), by), low = (uint32_t)__shfl_xor_sync(all_lanes, (int)(uint32_t)x, by);
	return pair(high, low);
}
DEVICE uint64_t up64(uint64_t x, int by) {
	uint32_t high = (uint32_t)__shfl_up_sync(all_lanes, (int)(x >> 32), by), low = (uint32_t)__shfl_up_sync(all_lanes, (int)(uint32_t)x, by);
	return pair(high, low);
}
DEVICE uint64_t lane64(uint64_t x, int lane) {
	uint32_t high = (uint32_t)__shfl_sync(all_lanes, (int)(x >> 32), lane), low = (uint32_t)__shfl_sync(all_lanes, (int)(uint32_t)x, lane);
	return pair(high, low);
}

DEVICE uint64_t warp_sum64(uint64_t x) {
	for (int by = 16; by > 0; by >>= 1) x += xor64(x, by);
	return x;
}

// Scratch is a block's shared memory.
struct Scratch {
	uint64_t sums[32], borders[32][8];
	int counts[32];
	float logits[32];
};

// block_sum64 reaches all threads; the scratch may be used again at once.
DEVICE uint64_t block_sum64(uint64_t x, Scratch& s) {
	int warps = (int)blockDim.x / 32;
	x = warp_sum64(x);
	if (threadIdx.x % 32 == 0) s.sums[threadIdx.x / 32] = x;
	__syncthreads();
	x = 0;
	for (int w = 0; w < warps; w++) x += s.sums[w];
	__syncthreads();
	return x;
}

// Best is the greatest logit, of equal ones that of the lowest id.
struct Best {
	float logit;
	int id;
};

DEVICE Best better(Best a, Best b) { return b.logit > a.logit || (b.logit == a.logit && b.id < a.id) ? b : a; }

DEVICE Best block_best(Best x, Scratch& s) {
	for (int by = 16; by > 0; by >>= 1) x = better(x, Best{__shfl_xor_sync(all_lanes, x.logit, by), __shfl_xor_sync(all_lanes, x.id, by)});
	if (threadIdx.x % 32 == 0) s.logits[threadIdx.x / 32] = x.logit, s.counts[threadIdx.x / 32] = x.id;
	__syncthreads();
	x = Best{s.logits[0], s.counts[0]};
	for (int w = 1; w < (int)blockDim.x / 32; w++) x = better(x, Best{s.logits[w], s.counts[w]});
	__syncthreads();
	return x;
}

// Weights are those of a row: exp(scale·logit − less).
struct Weights {
	const float* logits;
	float scale, less;
	int v;
	__device__ float at(int i) const { return sample_exp(scale * logits[i] - less); }
};

// Kept says which weights are left: those whose bits are above these, and the first few with just these.
// The bits of positive floats are ordered as they are.
struct Kept {
	uint32_t bits;
	int equals;
};

DEVICE uint64_t measure(float weight, bool count) { return count ? 1 : whole(weight); }

// sum_above is of what weights above a border measure; equals is how many lie at it.
DEVICE uint64_t sum_above(const Weights& w, uint32_t border, bool count, int* equals, Scratch& s) {
	uint64_t above = 0, same = 0;
	for (int i = (int)threadIdx.x; i < w.v; i += (int)blockDim.x) {
		float x = w.at(i);
		if (as_bits(x) > border) above += measure(x, count);
		same += as_bits(x) == border;
	}
	*equals = (int)block_sum64(same, s);
	return block_sum64(above, s);
}

// sum_kept is of what is left.
DEVICE uint64_t sum_kept(const Weights& w, Kept kept, bool count, Scratch& s) {
	int equals;
	uint64_t above = sum_above(w, kept.bits, count, &equals, s);
	return above + (uint64_t)min(kept.equals, equals) * measure(as_float(kept.bits), count);
}

// block_sums is block_sum64 of 8 numbers at once: each exchange halves the numbers that a lane goes on with.
DEVICE void block_sums(uint64_t x[8], Scratch& s) {
	int lane = (int)threadIdx.x % 32;
#pragma unroll
	for (int half = 4; half > 0; half /= 2)
#pragma unroll
		for (int j = 0; j < half; j++) {
			bool upper = lane & 4 * half;
			uint64_t give = upper ? x[j] : x[j + half], keep = upper ? x[j + half] : x[j];
			x[j] = keep + xor64(give, 4 * half);
		}
	x[0] += xor64(x[0], 2);
	x[0] += xor64(x[0], 1);
	if (lane % 4 == 0) s.borders[threadIdx.x / 32][lane / 4] = x[0]; // the lane's upper bits are the number's
	__syncthreads();
#pragma unroll
	for (int j = 0; j < 8; j++) x[j] = 0;
	for (int w = 0; w < (int)blockDim.x / 32; w++)
#pragma unroll
		for (int j = 0; j < 8; j++) x[j] += s.borders[w][j];
	__syncthreads();
}

// cut keeps the greatest of what is kept, as many as measure need together, at least one. It finds the bits
// of the last, three at a time: the highest border at or above which there is enough.
DEVICE Kept cut(const Weights& w, Kept kept, uint64_t need, bool count, Scratch& s) {
	if (need == 0) need = 1;
	if (need >= sum_kept(w, kept, count, s)) return kept;
	uint32_t bits = 0;
	for (int shift = 27; shift >= 0; shift -= 3) {
		uint64_t sums[8]; // at or above each border
#pragma unroll
		for (int j = 0; j < 8; j++) sums[j] = 0;
		for (int i = (int)threadIdx.x; i < w.v; i += (int)blockDim.x) {
			float x = w.at(i);
			uint64_t of = measure(x, count);
#pragma unroll
			for (int j = 1; j < 8; j++)
				if (as_bits(x) >= bits + ((uint32_t)j << shift)) sums[j] += of;
		}
		block_sums(sums, s);
		int most = 0;
#pragma unroll
		for (int j = 1; j < 8; j++) // below what is kept there is enough: need is less than all of it
			if (sums[j] >= need || bits + ((uint32_t)j << shift) <= kept.bits) most = j;
		bits += (uint32_t)most << shift;
	}
	int equals;
	uint64_t above = sum_above(w, bits, count, &equals, s), each = measure(as_float(bits), count);
	return Kept{bits, (int)((need - above + each - 1) / each)};
}

// find gives the weight at which the sum of those that are kept, by id, passes left, to the warp that has it
// in its part of the row; other warps, and all where there is none, get −1.
DEVICE int find(const Weights& w, Kept kept, uint64_t left, bool* none, Scratch& s) {
	int warps = (int)blockDim.x / 32, warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
	int part = (w.v + 32 * warps - 1) / (32 * warps) * 32, from = warp * part, to = min(w.v, from + part);
	uint64_t above = 0, same = 0;
	for (int i = from + lane; i < to; i += 32) {
		float x = w.at(i);
		if (as_bits(x) > kept.bits) above += whole(x);
		same += as_bits(x) == kept.bits;
	}
	above = warp_sum64(above);
	same = warp_sum64(same);
	if (lane == 0) s.sums[warp] = above, s.counts[warp] = (int)same;
	__syncthreads();
	uint64_t each = whole(as_float(kept.bits)), before = 0, mine = 0;
	int equals = 0, my_equals = 0, owner = -1; // equals that come before
	for (int o = 0; o < warps; o++) {
		uint64_t own = s.sums[o] + (uint64_t)max(0, min(kept.equals - equals, s.counts[o])) * each;
		if (owner < 0 && left < before + own) owner = o, mine = before, my_equals = equals;
		before += own;
		equals += s.counts[o];
	}
	*none = owner < 0;
	if (owner != warp) return -1;
	for (int first = from; first < to; first += 32) {
		int i = first + lane;
		float x = i < to ? w.at(i) : 0.f;
		bool here = i < to && as_bits(x) == kept.bits;
		uint32_t alike = __ballot_sync(all_lanes, here);
		int place = my_equals + lanes_in(alike & ((1u << lane) - 1));
		uint64_t sum = (i < to && as_bits(x) > kept.bits) || (here && place < kept.equals) ? whole(x) : 0;
		for (int by = 1; by < 32; by *= 2) {
			uint64_t below = up64(sum, by);
			if (lane >= by) sum += below;
		}
		uint32_t past = __ballot_sync(all_lanes, left < mine + sum);
		if (past) return first + first_lane(past);
		mine += lane64(sum, 31);
		my_equals += lanes_in(alike);
	}
	return -1; // never: the sums are the same as before
}

KERNEL(1024, sample_tokens, Drawn* out, const Draw* draws, const float* logits, const float* scale, const float* lse, int v) {
	__shared__ Scratch scratch;
	int row = (int)blockIdx.x;
	Draw d = draws[row];
	Drawn to = {0, 0, 0, 0, 0.f, lse[row], 0.f, 0.f};
	Weights w = {logits + (int64_t)row * v, scale[row], 0.f, v};

	Best best = {minus_infinity, no_end};
	uint64_t faulty = to.lse - to.lse != 0.f;
	for (int i = (int)threadIdx.x; i < v; i += (int)blockDim.x) {
		float z = w.logits[i];
		faulty += z - z != 0.f;
		best = better(best, Best{z, i});
	}
	if (block_sum64(faulty, scratch)) {
		if (threadIdx.x == 0) out[row] = to;
		return;
	}
	best = block_best(best, scratch);
	to.finite = 1;
	if (w.scale != 1.f) {
		to.most = best.logit;
		for (int i = (int)threadIdx.x; i < v; i += (int)blockDim.x) to.ones += whole(sample_exp(w.logits[i] - to.most));
		to.ones = block_sum64(to.ones, scratch);
	}

	bool none = true;
	int id = -1;
	if (d.tempered && d.top_k != 1) {
		Kept kept = {0, no_end};
		uint64_t left = d.random >> (64 - unit_bits);
		w.less = to.lse;
		if (d.top_k > 0 || d.top_p > 0 || d.min_p > 0.f) {
			w.less = w.scale * best.logit;
			kept.bits = max((int)as_bits(max32(d.min_p, 0.f)), 1); // a weight of 0 is none
			if (d.top_k > 0) kept = cut(w, kept, (uint64_t)d.top_k, true, scratch);
			if (d.top_p > 0) kept = cut(w, kept, share(d.top_p, sum_kept(w, kept, false, scratch)), false, scratch);
			to.kept = sum_kept(w, kept, false, scratch);
			left = share(d.random, to.kept);
		}
		id = find(w, kept, left, &none, scratch);
	}
	if (none && threadIdx.x == 0) id = best.id;
	if (id >= 0 && threadIdx.x % 32 == 0) {
		to.id = id;
		to.logit = w.logits[id];
		if (to.kept > 0) to.weight = w.at(id);
		out[row] = to;
	}
}
