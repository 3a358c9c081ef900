// The KV arena: a page (16 tokens, gpu.PageSize) has its G heads one after the other, of each the keys
// or values as (16,D), so that a head's page is one run of memory.
//
//	name         grid               block
//	store_kv_T   ceil(rows·g·d/256) 256   keys, values (S,G,D) [slots (R)] = new_k, new_v (R,G,D)
//
// T is the type of all four: f32, bf16. No dynamic shared memory. Arguments, in order:
//
//	keys, values, new_k, new_v, slots, rows, g, d
#include "dev.h"

template <class T>
DEVICE void store_kv(T* keys, T* values, const T* new_k, const T* new_v, const int* slots, int rows, int g, int d) {
	int64_t i = (int64_t)blockIdx.x * 256 + threadIdx.x;
	if (i >= (int64_t)rows * g * d) return;
	int c = (int)(i % d), head = (int)(i / d % g), slot = slots[i / d / g];
	int64_t to = (((int64_t)(slot / 16) * g + head) * 16 + slot % 16) * d + c;
	keys[to] = new_k[i];
	values[to] = new_v[i];
}

KERNEL(256, store_kv_f32, float* keys, float* values, const float* new_k, const float* new_v, const int* slots, int rows, int g, int d) {
	store_kv(keys, values, new_k, new_v, slots, rows, g, d);
}
KERNEL(256, store_kv_bf16, bf16* keys, bf16* values, const bf16* new_k, const bf16* new_v, const int* slots, int rows, int g, int d) {
	store_kv(keys, values, new_k, new_v, slots, rows, g, d);
}
