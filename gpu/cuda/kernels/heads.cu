// heads.cu is what queries and keys go through between their projection and attention: RMSNorm of each head, where a
// model has it, the turn by its position, and, in generation, the way of keys and values into the KV arena. It has
// the bits of norm.cu, rope.cu and kv.cu one after the other, whose roundings it makes too.
//
//	kernel   grid        block       arguments
//	heads_T  R·(H+G[+G]) rowBlock(D)  qr (R,H,D), rstd_q (R,H), q (R,H,D), w_q (D), kr (R,G,D), rstd_k (R,G), k (R,G,D), w_k (D), table (positions,D), positions (R) i32,
//	                                 keys, values (S,G,D), v (R,G,D), slots (R) i32 or all four 0, H, G, D, eps
//
// T, the type of heads and of the arena, is f32 or bf16. D is at most 256. Without norms rstd_q, w_q, rstd_k and w_k are
// 0; q may be qr, k may be kr. Without slots there are no blocks for values.
#include "kv.h"

// Turned is a head on its way: x and w give y and rstd; without a norm w is null, and x is turned as it is.
template <class T> struct Turned {
	T* y;
	float* rstd;
	const T* x;
	const float* w;
};

// normalise leaves a head's norm where all of the block can read it.
template <class T> DEVICE void normalise(const Turned<T>& head, int d, float eps, T* normed, float* scratch) {
	float sum = 0;
	for (int i = (int)threadIdx.x; i < d; i += (int)blockDim.x) {
		float x = to_float(head.x[i]);
		sum = fma32(x, x, sum);
	}
	float s = inverse_rms(block_sum(sum, scratch), d, eps);
	if (threadIdx.x == 0) *head.rstd = s;
	for (int i = (int)threadIdx.x; i < d; i += (int)blockDim.x) store(normed + i, to_float(head.x[i]) * s * head.w[i]);
	__syncthreads();
}

// turn_head makes y of a head; to is its key's place in the arena, or null.
template <class T> DEVICE void turn_head(const Turned<T>& head, const float* turn, T* to, int d, float eps, T* normed, float* scratch) {
	const T* from = head.x;
	if (head.w) {
		normalise(head, d, eps, normed, scratch);
		from = normed;
	}
	int half = d / 2;
	for (int i = (int)threadIdx.x; i < half; i += (int)blockDim.x) {
		Pair pair = turned(to_float(from[i]), to_float(from[i + half]), turn[i], turn[i + half]);
		store(head.y + i, pair.first);
		store(head.y + i + half, pair.second);
		if (!to) continue;
		store(to + i, pair.first);
		store(to + i + half, pair.second);
	}
}

template <class T> DEVICE void heads(const Turned<T>& q, const Turned<T>& k, const float* table, const int* positions, T* keys, T* values, const T* v, const int* slots, int h, int g, int d, float eps, T* normed, float* scratch) {
	int each = slots ? h + g + g : h + g, row = (int)blockIdx.x / each, head = (int)blockIdx.x % each;
	const float* turn = table + (int64_t)positions[row] * d;
	if (head < h) {
		int64_t at = (int64_t)row * h + head;
		turn_head(Turned<T>{q.y + at * d, q.rstd + at, q.x + at * d, q.w}, turn, (T*)nullptr, d, eps, normed, scratch);
	} else if (head < h + g) {
		int64_t at = (int64_t)row * g + head - h;
		T* to = slots ? keys + place_in_arena(slots[row], head - h, g, d) : nullptr;
		turn_head(Turned<T>{k.y + at * d, k.rstd + at, k.x + at * d, k.w}, turn, to, d, eps, normed, scratch);
	} else {
		const T* from = v + ((int64_t)row * g + head - h - g) * d;
		T* to = values + place_in_arena(slots[row], head - h - g, g, d);
		for (int i = (int)threadIdx.x; i < d; i += (int)blockDim.x) to[i] = from[i];
	}
}

#define HEADS(suffix, T) \
	KERNEL(256, heads_##suffix, T* qr, float* rstd_q, const T* q, const float* w_q, T* kr, float* rstd_k, const T* k, const float* w_k, const float* table, const int* positions, T* keys, T* values, const T* v, const int* slots, int h, int g, int d, float eps) { \
		__shared__ T normed[256]; \
		__shared__ float scratch[33]; \
		heads(Turned<T>{qr, rstd_q, q, w_q}, Turned<T>{kr, rstd_k, k, w_k}, table, positions, keys, values, v, slots, h, g, d, eps, normed, scratch); \
	}
HEADS(f32, float)
HEADS(bf16, bf16)
