// rope.cu turns queries and keys by their position.
//
//	kernel  grid  block  arguments
//	rope_T  R     256    x (R,heads,D) in place, table (positions,D), positions (R) i32, R, heads, D, inverse
//
// A pair (x[d], x[d+D/2]) of a head is turned by the angle whose cosine is table[p][d] and whose sine is
// table[p][d+D/2]; inverse turns back, which is the gradient. T, the type
// of x, is f32 or bf16.
#include "dev.h"

template <class T> DEVICE void rope(T* x, const float* table, const int* positions, int r, int heads, int d, int inverse) {
	int half = d / 2, pairs = heads * half;
	for (int64_t row = blockIdx.x; row < r; row += gridDim.x) {
		const float* turn = table + (int64_t)positions[row] * d;
		T* values = x + row * heads * d;
		for (int i = (int)threadIdx.x; i < pairs; i += (int)blockDim.x) {
			int at = i / half * d + i % half;
			float cosine = turn[i % half], sine = inverse ? -turn[i % half + half] : turn[i % half + half];
			Pair pair = turned(to_float(values[at]), to_float(values[at + half]), cosine, sine);
			store(values + at, pair.first);
			store(values + at + half, pair.second);
		}
	}
}

KERNEL(256, rope_f32, float* x, const float* table, const int* positions, int r, int heads, int d, int inverse) {
	rope(x, table, positions, r, heads, d, inverse);
}
KERNEL(256, rope_bf16, bf16* x, const float* table, const int* positions, int r, int heads, int d, int inverse) {
	rope(x, table, positions, r, heads, d, inverse);
}
