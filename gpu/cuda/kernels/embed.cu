// embed.cu is the gradient of rows that were read from a table, without atomics: each table row that was
// read is summed by one block, in the order of the reads.
//
//	kernel            grid  block  arguments
//	embed_backward_T  R     256    dtable (V,C), dy (R,C), tokens (R) i32, R, C    dtable[tokens[i]] += dy[i], in the order of i
//
// T, the type of dtable and dy, is f32, or bf16 for keys and values that several sequences share: sums are f32, and
// rounded once.
//
// Block i ends when an earlier row has its token, and else walks the later ones: R²/256 reads in all, of
// indices that stay in the cache, beside R·C of dy.
#include "dev.h"

// The columns that a thread keeps in registers: 256·8 at a time.
static const int kept = 8;

// next is the first row from i on, below end, that has this token, or end. All threads get it.
DEVICE int next(const int* tokens, int token, int i, int end, int* scratch) {
	for (; i < end; i += (int)blockDim.x) {
		int at = i + (int)threadIdx.x;
		uint32_t hits = __ballot_sync(all_lanes, at < end && tokens[at] == token);
		__syncthreads(); // all have read the last answer
		if (threadIdx.x % 32 == 0) scratch[threadIdx.x / 32] = hits ? at + first_lane(hits) : end;
		__syncthreads();
		int first = end;
		for (int w = 0; w < (int)blockDim.x / 32; w++) first = min(first, scratch[w]);
		if (first < end) return first;
	}
	return end;
}

template <class T> DEVICE void embed_backward(T* dtable, const T* dy, const int* tokens, int r, int c, int* scratch) {
	int i = (int)blockIdx.x, token = tokens[i];
	if (next(tokens, token, 0, i, scratch) < i) return;
	T* to = dtable + (int64_t)token * c;
	for (int from = 0; from < c; from += kept * (int)blockDim.x) {
		float sum[kept];
#pragma unroll
		for (int k = 0; k < kept; k++) {
			int column = from + k * (int)blockDim.x + (int)threadIdx.x;
			sum[k] = column < c ? to_float(to[column]) : 0.f;
		}
		for (int j = i; j < r; j = next(tokens, token, j + 1, r, scratch)) {
#pragma unroll
			for (int k = 0; k < kept; k++) {
				int column = from + k * (int)blockDim.x + (int)threadIdx.x;
				if (column < c) sum[k] += to_float(dy[(int64_t)j * c + column]);
			}
		}
#pragma unroll
		for (int k = 0; k < kept; k++) {
			int column = from + k * (int)blockDim.x + (int)threadIdx.x;
			if (column < c) store(to + column, sum[k]);
		}
	}
}

KERNEL(256, embed_backward_f32, float* dtable, const float* dy, const int* tokens, int r, int c) {
	__shared__ int scratch[8];
	embed_backward(dtable, dy, tokens, r, c, scratch);
}
KERNEL(256, embed_backward_bf16, bf16* dtable, const bf16* dy, const int* tokens, int r, int c) {
	__shared__ int scratch[8];
	embed_backward(dtable, dy, tokens, r, c, scratch);
}
