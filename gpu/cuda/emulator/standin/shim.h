// shim.h is the language of ../../kernels/dev.h for g++: a thread of a block is a fiber, a block
// runs on one CPU thread, a warp's collective is computed when its last lane arrives. What a GPU
// leaves undefined is an error here: a barrier that an ended thread misses, a collective that a
// named lane never reaches, a misaligned vector, and (in the checked library) a race or an
// address outside of the device's memory. Memory begins as 0xff bytes, which are NaN.
//
// It does not show speed, registers, the bits of approximate functions, or the order in which
// a tensor core adds.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <tuple>
#include <utility>

namespace emulator {

struct Dim {
	unsigned x, y, z;
};

// Fiber is a thread of the block that runs.
struct Fiber {
	Dim index;
	int thread, lane;
};

extern Fiber* self; // the fiber that runs
extern Dim block_index, block_size, grid_size;
extern unsigned char* dynamic_shared;

// Collective is what the lanes of a warp do together. apply has the lanes' data, each what it
// passed to collect; absent lanes are null.
typedef void (*Apply)(void* lanes[32]);

void barrier(int line);
// collect waits for the lanes of mask, which must all come with the same apply and mask.
void collect(Apply apply, uint32_t mask, void* data, bool orders_memory = false);
// fail ends the launch. It does not return.
[[noreturn]] void fail(const char* format, ...) __attribute__((format(printf, 1, 2)));

void copy_later(void* shared, const void* global, bool take);
void copy_group();
void copy_wait(int left);

// Kernel is a kernel by name, callable with cuLaunchKernel's array of pointers to arguments.
struct Kernel {
	const char* name;
	int threads; // the largest block
	int params;
	const size_t* sizes;
	void (*call)(const void* f, void** args);
	const void* f;
	Kernel* next;
};
extern Kernel* kernels;

template <class... A> struct Caller {
	static constexpr size_t sizes[sizeof...(A) + 1] = {sizeof(A)..., 0};
	// The array of arguments is the host's: it is not watched.
	template <size_t... i> __attribute__((no_sanitize("thread"))) static void spread(void (*f)(A...), void** args, std::index_sequence<i...>) {
		f(*static_cast<std::remove_reference_t<A>*>(args[i])...);
	}
	static void call(const void* f, void** args) {
		spread(reinterpret_cast<void (*)(A...)>(const_cast<void*>(f)), args, std::index_sequence_for<A...>{});
	}
};

struct Registration {
	Kernel kernel;
	template <class... A> Registration(const char* name, int threads, void (*f)(A...))
	    : kernel{name, threads, sizeof...(A), Caller<A...>::sizes, Caller<A...>::call, reinterpret_cast<const void*>(f), kernels} {
		kernels = &kernel;
	}
};

// Value is a lane's part of a shuffle or vote.
struct Value {
	uint32_t give, get;
	int from; // the lane to read
};
void shuffle(void* lanes[32]);
void vote(void* lanes[32]);

template <class T> T exchange(uint32_t mask, T x, int from) {
	static_assert(sizeof(T) == 4, "a shuffle moves 32 bits");
	Value v{0, 0, from};
	memcpy(&v.give, &x, 4);
	collect(shuffle, mask, &v);
	memcpy(&x, &v.get, 4);
	return x;
}

struct Product {
	float* c;
	const uint32_t *a, *b;
};
void multiply(void* lanes[32]);

struct Rows {
	const void* row;
	uint32_t* to;
};
void load_rows(void* lanes[32]);
void load_columns(void* lanes[32]);
void nothing(void* lanes[32]);
// check_row is for the row of a matrix that a lane reads: 16 aligned bytes of shared memory.
void check_row(const void* row);

} // namespace emulator

#define __global__
#define __device__
#define __restrict__
// Shared variables of all kernels lie in one section, which is poisoned before each block. They stand in
// a kernel or in a function that is no template: there g++ forgets the section, and the checked library
// says that they are no memory of the device.
#define __shared__ __attribute__((section("emulator_shared"))) static
#define DEVICE static inline
#define DYNAMIC_SHARED(name) unsigned char* const name = emulator::dynamic_shared
#define KERNEL(threads, name, ...) \
	extern "C" void name(__VA_ARGS__); \
	static emulator::Registration name##_registered(#name, threads, name); \
	extern "C" void name(__VA_ARGS__)

#define threadIdx (emulator::self->index)
#define blockIdx (emulator::block_index)
#define blockDim (emulator::block_size)
#define gridDim (emulator::grid_size)

struct alignas(8) float2 { float x, y; };
struct alignas(16) float4 { float x, y, z, w; };
struct alignas(8) uint2 { uint32_t x, y; };
struct alignas(16) uint4 { uint32_t x, y, z, w; };

DEVICE void __syncthreads(int line = __builtin_LINE()) { emulator::barrier(line); }
DEVICE void __syncwarp(uint32_t mask = 0xffffffff) { emulator::collect(emulator::nothing, mask, nullptr, true); }
DEVICE uint32_t __ballot_sync(uint32_t mask, int p) {
	emulator::Value v{p != 0, 0, 0};
	emulator::collect(emulator::vote, mask, &v);
	return v.get;
}
template <class T> T __shfl_sync(uint32_t mask, T x, int lane) { return emulator::exchange(mask, x, lane & 31); }
template <class T> T __shfl_xor_sync(uint32_t mask, T x, int by) { return emulator::exchange(mask, x, emulator::self->lane ^ by); }
template <class T> T __shfl_up_sync(uint32_t mask, T x, int by) {
	int lane = emulator::self->lane;
	return emulator::exchange(mask, x, lane >= by ? lane - by : lane);
}
template <class T> T __shfl_down_sync(uint32_t mask, T x, int by) {
	int lane = emulator::self->lane;
	return emulator::exchange(mask, x, lane + by < 32 ? lane + by : lane);
}

DEVICE int first_lane(uint32_t ballot) { return __builtin_ctz(ballot); }
DEVICE int lanes_in(uint32_t ballot) { return __builtin_popcount(ballot); }
DEVICE float fma32(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
DEVICE float sqrt32(float x) { return sqrtf(x); }
DEVICE float max32(float a, float b) { return fmaxf(a, b); }
DEVICE float min32(float a, float b) { return fminf(a, b); }
DEVICE float exp2_approx(float x) { return exp2f(x); }
template <class To, class From> static inline To bits_as(From x) {
	static_assert(sizeof(To) == sizeof(From), "bits_as keeps the size");
	To y;
	memcpy(&y, &x, sizeof y);
	return y;
}
DEVICE float as_float(uint32_t x) { return bits_as<float>(x); }
DEVICE uint32_t as_bits(float x) { return bits_as<uint32_t>(x); }
DEVICE double as_double(uint64_t x) { return bits_as<double>(x); }
DEVICE uint64_t as_bits(double x) { return bits_as<uint64_t>(x); }

DEVICE float half_to_float(uint16_t x) {
	uint32_t sign = (uint32_t)(x & 0x8000) << 16, exponent = x >> 10 & 31, fraction = x & 0x3ff;
	if (exponent == 0) return (sign ? -1.f : 1.f) * (float)fraction * 0x1p-24f;
	return as_float(sign | (exponent == 31 ? 255 : exponent + 112) << 23 | fraction << 13);
}

DEVICE void mma_bf16(float c[4], const uint32_t a[4], const uint32_t b[2]) {
	emulator::Product p{c, a, b};
	emulator::collect(emulator::multiply, 0xffffffff, &p);
}
DEVICE void load_matrix4(uint32_t r[4], const void* row) {
	emulator::check_row(row);
	emulator::Rows p{row, r};
	emulator::collect(emulator::load_rows, 0xffffffff, &p);
}
DEVICE void load_matrix4_transposed(uint32_t r[4], const void* row) {
	emulator::check_row(row);
	emulator::Rows p{row, r};
	emulator::collect(emulator::load_columns, 0xffffffff, &p);
}
DEVICE void copy_async16(void* shared, const void* global, bool take = true) { emulator::copy_later(shared, global, take); }
DEVICE void copy_commit() { emulator::copy_group(); }
template <int n> DEVICE void copy_wait() { emulator::copy_wait(n); }
