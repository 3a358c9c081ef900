// attend.h is what the kernels of attention agree on: the order in which a query's keys are summed,
// and where keys lie.
#pragma once
#include "dev.h"

static const int chunk = 16;         // keys of a step of the softmax: a page (gpu.PageSize)
static const int split = 128;        // keys after which a query's sums are merged with those before
static const int tile_queries = 16;  // of a block
static const float log2e = 1.4426950408889634f;

// load4 reads up to 4 elements, left of which exist; the others are 0.
DEVICE float4 load4(const float* from, int left) {
	if (left >= 4 && ((uint64_t)from & 15) == 0) return *(const float4*)from;
	return float4{left > 0 ? from[0] : 0.f, left > 1 ? from[1] : 0.f, left > 2 ? from[2] : 0.f, left > 3 ? from[3] : 0.f};
}

// copy4 is load4 to shared memory, where it can without a register (see copy_async16).
DEVICE void copy4(float* to, const float* from, int left) {
	if (left >= 4 && ((uint64_t)from & 15) == 0) copy_async16(to, from);
	else *(float4*)to = load4(from, left);
}

// PackedKeys and PagedKeys are the keys and values of a sequence and a head: a key's begin at element
// at(key), those of a chunk are stride elements apart.
template <class T> struct PackedKeys {
	const T *k, *v;
	int stride;
	__device__ int64_t at(int key) const { return (int64_t)key * stride; }
};

template <class T> struct PagedKeys {
	const T *k, *v;
	const int* pages;
	int stride;
	int64_t page; // elements from one page to the next
	__device__ int64_t at(int key) const { return pages[key / chunk] * page + key % chunk * stride; }
};

template <class T> DEVICE PackedKeys<T> packed_keys(const T* k, const T* v, int start, int group, int g, int d) {
	int64_t at = ((int64_t)start * g + group) * d;
	return PackedKeys<T>{k + at, v + at, g * d};
}

// paged_keys knows the layout of kv.h.
template <class T> DEVICE PagedKeys<T> paged_keys(const T* k, const T* v, const int* pages, int group, int g, int d) {
	int64_t at = (int64_t)group * chunk * d;
	return PagedKeys<T>{k + at, v + at, pages, d, (int64_t)chunk * g * d};
}

// PackedRows and ArenaRows say which sequence a row belongs to and how many keys it attends to.
template <class T> struct PackedRows {
	const T *k, *v;
	const int *starts, *asks;
	__device__ bool asked(int row) const { return !asks || asks[row]; }
	__device__ int sequence(int row) const { return starts[row]; }
	__device__ int keys(int row) const { return row - starts[row] + 1; }
	__device__ PackedKeys<T> from(int sequence, int group, int g, int d) const { return packed_keys(k, v, sequence, group, g, d); }
};

template <class T> struct ArenaRows {
	const T *k, *v;
	const int *tables, *sequences, *positions;
	int p;
	__device__ bool asked(int) const { return true; }
	__device__ int sequence(int row) const { return sequences[row]; }
	__device__ int keys(int row) const { return positions[row] + 1; }
	__device__ PagedKeys<T> from(int sequence, int group, int g, int d) const { return paged_keys(k, v, tables + (int64_t)sequence * p, group, g, d); }
};

// keys_of is how many keys a row attends to, none for no row, or least if that is more.
template <class Rows> DEVICE int keys_of(const Rows& of, int row, int least) {
	int n = row < 0 ? 0 : of.keys(row);
	return n > least ? n : least;
}

// Total is a query's sums over splits: the greatest score (in units of log 2), the weights, and the
// weighted values c = lane+32w of this lane.
template <int W> struct Total {
	float top, weight, value[W];
};

template <int W> DEVICE void clear(Total<W>& t) {
	t.top = minus_infinity, t.weight = 0;
	for (int w = 0; w < W; w++) t.value[w] = 0;
}

template <int W> DEVICE void merge(Total<W>& t, float top, float weight, const float value[W]) {
	float most = max32(t.top, top), a = exp2_approx(t.top - most), b = exp2_approx(top - most);
	t.top = most;
	t.weight = fma32(t.weight, a, weight * b);
	for (int w = 0; w < W; w++) t.value[w] = fma32(t.value[w], a, value[w] * b);
}

template <int W, class T> DEVICE void write_total(const Total<W>& t, T* out, float* lse, int lane, int d) {
	for (int w = 0; w < W; w++)
		if (lane + 32 * w < d) store(out + lane + 32 * w, t.value[w] / t.weight);
	if (lse && lane == 0) *lse = (float)(t.top * 0.69314718055994530942 + log64(t.weight));
}

// PlanOfSplit is what attend_plan found for a split: of each row the first that has the same pages
// (−1: the row does not reach the split), the next one, and whether an item begins with it.
struct PlanOfSplit {
	int *first, *next, *begins; // (R) each
};

DEVICE PlanOfSplit plan_of_split(int* plan, int number, int splits, int rows) {
	int64_t at = (int64_t)number * rows, size = (int64_t)splits * rows;
	return PlanOfSplit{plan + at, plan + size + at, plan + 2 * size + at};
}

// items_rows is the most rows of an item, each of as many queries as a row has for a key head.
DEVICE int items_rows(int queries) { return queries < tile_queries ? tile_queries / queries : 1; }
