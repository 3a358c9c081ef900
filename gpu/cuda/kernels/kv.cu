// Keys and values on their way into the KV arena (kv.h).
//
//	name         grid               block
//	store_kv_T   ceil(rows·g·d/256) 256   keys, values (S,G,D) [slots (R)] = new_k, new_v (R,G,D)
//
// T is the type of all four: f32, bf16. No dynamic shared memory. Arguments, in order:
//
//	keys, values, new_k, new_v, slots, rows, g, d
#include "kv.h"

template <class T>
DEVICE void store_kv(T* keys, T* values, const T* new_k, const T* new_v, const int* slots, int rows, int g, int d) {
	int64_t i = (int64_t)blockIdx.x * 256 + threadIdx.x;
	if (i >= (int64_t)rows * g * d) return;
	int c = (int)(i % d), head = (int)(i / d % g), slot = slots[i / d / g];
	int64_t to = place_in_arena(slot, head, g, d) + c;
	keys[to] = new_k[i];
	values[to] = new_v[i];
}

KERNEL(256, store_kv_f32, float* keys, float* values, const float* new_k, const float* new_v, const int* slots, int rows, int g, int d) {
	store_kv(keys, values, new_k, new_v, slots, rows, g, d);
}
KERNEL(256, store_kv_bf16, bf16* keys, bf16* values, const bf16* new_k, const bf16* new_v, const int* slots, int rows, int g, int d) {
	store_kv(keys, values, new_k, new_v, slots, rows, g, d);
}
