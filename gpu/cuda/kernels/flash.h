// flash.h is what attention on tensor cores reads and computes with. A warp has 16 rows (queries, or keys in
// the gradient of keys) as fragments in registers; the other side comes through shared memory.
#pragma once
#include "attend.h"

static const int stage_rows = 32; // of the other side, in shared memory at a time

// Padded is a row of D elements in shared memory: 16 bytes more, so that 8 rows lie in 8 groups of banks.
template <int D> struct Padded {
	alignas(16) bf16 at[D + 8];
};

// copy_rows starts to bring stage_rows rows of two matrices, with all threads of the block; place(row) is where a
// row's d elements begin in both, or < 0 for a row of zeros.
template <int D, int threads, class Place> DEVICE void copy_rows(Padded<D>* to_a, Padded<D>* to_b, const bf16* a, const bf16* b, int d, const Place& place) {
	for (int i = (int)threadIdx.x; i < stage_rows * D / 8; i += threads) {
		int row = i / (D / 8), c = i % (D / 8) * 8;
		int64_t from = place(row);
		int left = from < 0 ? 0 : d - c;
		if (left <= 0) from = 0, left = 0;
		else from += c;
		copy8(to_a[row].at + c, a + from, left);
		copy8(to_b[row].at + c, b + from, left);
	}
}

// Fragments of 16 rows and 16 columns of shared memory (see mma_bf16): as two B whose columns are
// the rows (across), as two B whose columns are the columns (along), and as one A.
template <int D> DEVICE void load_across(uint32_t r[4], const Padded<D>* rows, int column) {
	int lane = (int)threadIdx.x % 32;
	load_matrix4(r, rows[lane / 16 * 8 + lane % 8].at + column + lane / 8 % 2 * 8);
}
template <int D> DEVICE void load_along(uint32_t r[4], const Padded<D>* rows, int column) {
	int lane = (int)threadIdx.x % 32;
	load_matrix4_transposed(r, rows[lane / 8 % 2 * 8 + lane % 8].at + column + lane / 16 * 8);
}

// two is two neighbours of a row of global memory as a part of a fragment, 0 beyond column d.
DEVICE uint32_t two(const bf16* row, int c, int d) {
	return (row && c < d ? (uint32_t)row[c].bits : 0u) | (row && c + 1 < d ? (uint32_t)row[c + 1].bits << 16 : 0u);
}

// Rows16 is 16 rows of D elements as fragments A.
template <int D> struct Rows16 {
	uint32_t at[D / 16][4];
};

// load_rows16 reads this lane's part of rows g and g+8, g = lane/4; a null row is zeros.
template <int D> DEVICE void load_rows16(Rows16<D>& to, const bf16* low, const bf16* high, int d) {
	int t = (int)threadIdx.x % 4 * 2;
#pragma unroll
	for (int c = 0; c < D / 16; c++) {
		to.at[c][0] = two(low, 16 * c + t, d);
		to.at[c][1] = two(high, 16 * c + t, d);
		to.at[c][2] = two(low, 16 * c + t + 8, d);
		to.at[c][3] = two(high, 16 * c + t + 8, d);
	}
}

// multiply16 gives the products (16,16) of 16 rows with 16 others: x[0] with the first 8.
template <int D> DEVICE void multiply16(float x[2][4], const Rows16<D>& rows, const Padded<D>* others) {
#pragma unroll
	for (int i = 0; i < 4; i++) x[0][i] = x[1][i] = 0;
#pragma unroll
	for (int c = 0; c < D / 16; c++) {
		uint32_t b[4];
		load_across(b, others, 16 * c);
		mma_bf16(x[0], rows.at[c], b);
		mma_bf16(x[1], rows.at[c], b + 2);
	}
}

// finite says of two elements whether neither is infinite or NaN; only_finite puts 0 for those that are.
DEVICE bool finite(uint32_t x) { return (x & 0x7f80) != 0x7f80 && (x & 0x7f800000) != 0x7f800000; }
DEVICE uint32_t only_finite(uint32_t x) {
	if ((x & 0x7f80) == 0x7f80) x &= 0xffff0000;
	return (x & 0x7f800000) == 0x7f800000 ? x & 0xffff : x;
}

// all_finite says it of 16 rows, to all lanes of the warp.
template <int D> DEVICE bool all_finite(const Padded<D>* rows) {
	bool some = false;
	for (int i = (int)threadIdx.x % 32; i < 16 * D / 8; i += 32) {
		uint4 x = *(const uint4*)(rows[i / (D / 8)].at + i % (D / 8) * 8);
		some |= !finite(x.x) || !finite(x.y) || !finite(x.z) || !finite(x.w);
	}
	return __ballot_sync(all_lanes, some) == 0;
}

// add_weighted adds weights (16,16) · others (16,D) to sums; when clean, others that are not finite are 0.
template <int D> DEVICE void add_weighted(float sums[D / 8][4], const float weights[2][4], const Padded<D>* others, bool clean) {
	uint32_t a[4] = {pack_bf16(weights[0][0], weights[0][1]), pack_bf16(weights[0][2], weights[0][3]), pack_bf16(weights[1][0], weights[1][1]), pack_bf16(weights[1][2], weights[1][3])};
#pragma unroll
	for (int c = 0; c < D / 16; c++) {
		uint32_t b[4];
		load_along(b, others, 16 * c);
		if (clean)
			for (int i = 0; i < 4; i++) b[i] = only_finite(b[i]);
		mma_bf16(sums[2 * c], a, b);
		mma_bf16(sums[2 * c + 1], a, b + 2);
	}
}

// add_seen is add_weighted where a row's weight is 0 for others that it may not see: those do not touch it, not even
// as NaN, though a tensor core multiplies all 16 rows with all 16. sees(i,j): whether this lane's row i, of
// two, may see the j-th of the others; whole: whether all rows of the warp that count see all of them.
template <int D, class Sees> DEVICE void add_seen(float sums[D / 8][4], const float weights[2][4], const Padded<D>* others, bool whole, const Sees& sees) {
	bool clean = !whole && !all_finite(others);
	add_weighted<D>(sums, weights, others, clean);
	if (!clean) return;
	int lane = (int)threadIdx.x % 32, column = lane % 4 * 2;
#pragma unroll 1
	for (int j = 0; j < chunk; j++) { // an element that is not finite goes to those that see it
#pragma unroll
		for (int i = 0; i < 2; i++) {
			float even = j < 8 ? weights[0][2 * i] : weights[1][2 * i], odd = j < 8 ? weights[0][2 * i + 1] : weights[1][2 * i + 1];
			float weight = __shfl_sync(all_lanes, j % 2 ? odd : even, lane / 4 * 4 + j % 8 / 2);
			if (!sees(i, j)) continue;
#pragma unroll
			for (int c = 0; c < D / 8; c++)
				for (int k = 0; k < 2; k++) {
					bf16 x = others[j].at[8 * c + column + k];
					if (!finite(x.bits)) sums[c][2 * i + k] = fma32(weight, to_float(x), sums[c][2 * i + k]);
				}
		}
	}
}
