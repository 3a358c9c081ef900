// warp.cpp is what the lanes of a warp do together.
#include "engine.h"

namespace emulator {

void nothing(void**) {}

void shuffle(void* lanes[32]) {
	for (int l = 0; l < warp_size; l++) {
		auto* v = static_cast<Value*>(lanes[l]);
		if (!v) continue;
		auto* from = v->from >= 0 && v->from < warp_size ? static_cast<Value*>(lanes[v->from]) : nullptr;
		v->get = from ? from->give : 0xffffffff; // an absent lane's value is undefined
	}
}

void vote(void* lanes[32]) {
	uint32_t ballot = 0;
	for (int l = 0; l < warp_size; l++)
		if (lanes[l] && static_cast<Value*>(lanes[l])->give) ballot |= 1u << l;
	for (int l = 0; l < warp_size; l++)
		if (lanes[l]) static_cast<Value*>(lanes[l])->get = ballot;
}

static float low(uint32_t x) { return as_float(x << 16); }
static float high(uint32_t x) { return as_float(x & 0xffff0000); }

// multiply is mma.sync.m16n8k16 with PTX's fragments (dev.h). The products are added in the order
// of k, which a tensor core does not promise.
void multiply(void* lanes[32]) {
	float a[16][16], b[16][8];
	for (int l = 0; l < warp_size; l++) {
		auto* p = static_cast<Product*>(lanes[l]);
		int g = l / 4, t = l % 4 * 2;
		for (int i = 0; i < 4; i++) {
			int row = g + i % 2 * 8, column = t + i / 2 * 8;
			a[row][column] = low(p->a[i]);
			a[row][column + 1] = high(p->a[i]);
		}
		for (int i = 0; i < 2; i++) {
			b[t + i * 8][g] = low(p->b[i]);
			b[t + i * 8 + 1][g] = high(p->b[i]);
		}
	}
	for (int l = 0; l < warp_size; l++) {
		auto* p = static_cast<Product*>(lanes[l]);
		for (int i = 0; i < 4; i++) {
			int row = l / 4 + i / 2 * 8, column = l % 4 * 2 + i % 2;
			float sum = p->c[i];
			for (int k = 0; k < 16; k++) sum = __builtin_fmaf(a[row][k], b[k][column], sum);
			p->c[i] = sum;
		}
	}
}

void check_aligned(const void* p, size_t to, const char* what) {
	if (reinterpret_cast<uintptr_t>(p) % to != 0) fail("%s is not aligned to %zu bytes", what, to);
}

void check_row(const void* row) {
	check_aligned(row, 16, "the row of a matrix");
	check_access(row, 16, false);
}

static void load(void* lanes[32], bool columns) {
	uint16_t m[4][8][8];
	for (int l = 0; l < warp_size; l++) {
		auto* r = static_cast<Rows*>(lanes[l]);
		memcpy(m[l / 8][l % 8], r->row, 16);
	}
	for (int l = 0; l < warp_size; l++) {
		auto* r = static_cast<Rows*>(lanes[l]);
		int row = l / 4, column = l % 4 * 2;
		for (int i = 0; i < 4; i++) {
			uint32_t first = columns ? m[i][column][row] : m[i][row][column];
			uint32_t second = columns ? m[i][column + 1][row] : m[i][row][column + 1];
			r->to[i] = first | second << 16;
		}
	}
}

void load_rows(void* lanes[32]) { load(lanes, false); }
void load_columns(void* lanes[32]) { load(lanes, true); }

} // namespace emulator
