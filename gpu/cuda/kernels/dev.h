// dev.h is the one header of the kernels: the little of CUDA's language that they use, for
// three compilers. clang makes the PTX that is embedded (no toolkit is needed), NVRTC or nvcc
// can compile the same files for developers, and g++ compiles them over ../emulator/standin/shim.h
// for tests without a GPU.
//
// A kernel is written
//
//	KERNEL(threads, name, args...) { body }
//
// where threads is the largest block it is launched with. Outputs come first, then inputs, then
// scalars. All compilers are told not to contract a*b+c: a fused multiply-add is written fma32,
// so that a formula has the same bits wherever it stands, and in the emulator too.
#pragma once

#if defined(UNDERSTUDY_EMULATOR)
#include "../emulator/standin/shim.h"
#else // a GPU

#if defined(__clang__) // without NVIDIA's headers
struct dim3;
struct uint3;
#include <__clang_cuda_builtin_vars.h>
#define __global__ __attribute__((global))
#define __device__ __attribute__((device))
#define __shared__ __attribute__((shared))
#define __launch_bounds__(threads) __attribute__((launch_bounds(threads)))
#define __restrict__ __restrict
#endif

#define KERNEL(threads, name, ...) extern "C" __global__ void __launch_bounds__(threads) name(__VA_ARGS__)
// DYNAMIC_SHARED is the block's dynamic shared memory as bytes; a file uses it in one way.
#define DYNAMIC_SHARED(name) extern __shared__ __attribute__((aligned(16))) unsigned char name[]

typedef unsigned char uint8_t;
typedef unsigned short uint16_t;
typedef unsigned int uint32_t;
typedef unsigned long long uint64_t;
typedef long long int64_t;

#if defined(__clang__)
#define DEVICE static inline __device__ __attribute__((always_inline))

struct alignas(8) float2 { float x, y; };
struct alignas(16) float4 { float x, y, z, w; };
struct alignas(8) uint2 { uint32_t x, y; };
struct alignas(16) uint4 { uint32_t x, y, z, w; };

DEVICE void __syncwarp(uint32_t mask = 0xffffffff) { __nvvm_bar_warp_sync(mask); }
DEVICE uint32_t __ballot_sync(uint32_t mask, int p) { return __nvvm_vote_ballot_sync(mask, p); }
DEVICE float __shfl_sync(uint32_t mask, float x, int lane) { return __nvvm_shfl_sync_idx_f32(mask, x, lane, 31); }
DEVICE int __shfl_sync(uint32_t mask, int x, int lane) { return __nvvm_shfl_sync_idx_i32(mask, x, lane, 31); }
DEVICE float __shfl_xor_sync(uint32_t mask, float x, int by) { return __nvvm_shfl_sync_bfly_f32(mask, x, by, 31); }
DEVICE int __shfl_xor_sync(uint32_t mask, int x, int by) { return __nvvm_shfl_sync_bfly_i32(mask, x, by, 31); }
DEVICE float __shfl_up_sync(uint32_t mask, float x, int by) { return __nvvm_shfl_sync_up_f32(mask, x, by, 0); }
DEVICE int __shfl_up_sync(uint32_t mask, int x, int by) { return __nvvm_shfl_sync_up_i32(mask, x, by, 0); }
DEVICE float __shfl_down_sync(uint32_t mask, float x, int by) { return __nvvm_shfl_sync_down_f32(mask, x, by, 31); }
DEVICE int __shfl_down_sync(uint32_t mask, int x, int by) { return __nvvm_shfl_sync_down_i32(mask, x, by, 31); }
// first_lane is the lowest lane of a ballot that is not 0.
DEVICE int first_lane(uint32_t ballot) { return __builtin_ctz(ballot); }
// lanes_in is how many lanes a ballot has.
DEVICE int lanes_in(uint32_t ballot) { return __builtin_popcount(ballot); }
DEVICE float fma32(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
DEVICE float sqrt32(float x) { return __nvvm_sqrt_rn_f(x); }
DEVICE float max32(float a, float b) { return __builtin_fmaxf(a, b); }
DEVICE float min32(float a, float b) { return __builtin_fminf(a, b); }
DEVICE float as_float(uint32_t x) { return __builtin_bit_cast(float, x); }
DEVICE uint32_t as_bits(float x) { return __builtin_bit_cast(uint32_t, x); }
DEVICE double as_double(uint64_t x) { return __builtin_bit_cast(double, x); }
DEVICE uint64_t as_bits(double x) { return __builtin_bit_cast(uint64_t, x); }
// exp2_approx is 2^x by the special function unit, within 2 units in the last place.
DEVICE float exp2_approx(float x) { return __nvvm_ex2_approx_f(x); }
#else
#define DEVICE static __forceinline__ __device__
DEVICE int first_lane(uint32_t ballot) { return __ffs((int)ballot) - 1; }
DEVICE int lanes_in(uint32_t ballot) { return __popc(ballot); }
DEVICE float fma32(float a, float b, float c) { return __fmaf_rn(a, b, c); }
DEVICE float sqrt32(float x) { return __fsqrt_rn(x); }
DEVICE float max32(float a, float b) { return fmaxf(a, b); }
DEVICE float min32(float a, float b) { return fminf(a, b); }
DEVICE float as_float(uint32_t x) { return __uint_as_float(x); }
DEVICE uint32_t as_bits(float x) { return __float_as_uint(x); }
DEVICE double as_double(uint64_t x) { return __longlong_as_double((long long)x); }
DEVICE uint64_t as_bits(double x) { return (uint64_t)__double_as_longlong(x); }
DEVICE float exp2_approx(float x) {
	float y;
	asm("ex2.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
	return y;
}
#endif

DEVICE float half_to_float(uint16_t x) {
	float y;
	asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x));
	return y;
}

DEVICE uint32_t shared_address(const void* p) {
	uint64_t at;
	asm("cvta.to.shared.u64 %0, %1;" : "=l"(at) : "l"(p));
	return (uint32_t)at;
}

// mma_bf16 adds A (16,16) · B (16,8) to C (16,8) on a warp's tensor core: mma.sync.m16n8k16
// with PTX's fragments. With g = lane/4 and t = lane%4, and two bfloat16 a register, the
// lower column (of B: row) in the lower half:
//
//	a[0] = A[g][2t..], a[1] = A[g+8][2t..], a[2] = A[g][2t+8..], a[3] = A[g+8][2t+8..]
//	b[0] = B[2t..][g], b[1] = B[2t+8..][g]
//	c[0],c[1] = C[g][2t],C[g][2t+1];  c[2],c[3] = C[g+8][2t],C[g+8][2t+1]
DEVICE void mma_bf16(float c[4], const uint32_t a[4], const uint32_t b[2]) {
	asm volatile(
	    "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
	    : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
	    : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// load_matrix4 reads four 8×8 matrices of 16-bit elements from shared memory (ldmatrix.x4):
// lane l gives the address of row l%8 of matrix l/8, 16-byte aligned, and gets in r[m] the
// elements 2(l%4) and 2(l%4)+1 of row l/4 of matrix m; transposed, those of column l/4.
DEVICE void load_matrix4(uint32_t r[4], const void* row) {
	asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
	             : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(shared_address(row)) : "memory");
}
DEVICE void load_matrix4_transposed(uint32_t r[4], const void* row) {
	asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
	             : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(shared_address(row)) : "memory");
}

// copy_async16 starts a copy of 16 bytes, both ends aligned, from global to shared memory, or
// of zeros unless take. copy_commit ends a group of copies; copy_wait<n> waits until at most n
// groups of this thread are under way (others' need a barrier after it).
DEVICE void copy_async16(void* shared, const void* global, bool take = true) {
	asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(shared)), "l"(global), "r"(take ? 16 : 0) : "memory");
}
DEVICE void copy_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int n> DEVICE void copy_wait() { asm volatile("cp.async.wait_group %0;" ::"n"(n) : "memory"); }

#endif // a GPU

static const uint32_t all_lanes = 0xffffffff;
#define minus_infinity as_float(0xff800000)

DEVICE int min(int a, int b) { return a < b ? a : b; }
DEVICE int max(int a, int b) { return a > b ? a : b; }

// bf16 and f16 are elements in memory; sums are made in float.
struct bf16 { uint16_t bits; };
struct f16 { uint16_t bits; };

// copy8 brings 8 elements, left of which exist, to shared memory; the others are 0.
DEVICE void copy8(bf16* to, const bf16* from, int left) {
	if (left >= 8 && ((uint64_t)from & 15) == 0) return copy_async16(to, from);
	uint32_t x[4];
#pragma unroll
	for (int i = 0; i < 4; i++) {
		uint32_t low = 2 * i < left ? from[2 * i].bits : 0, high = 2 * i + 1 < left ? from[2 * i + 1].bits : 0;
		x[i] = low | high << 16;
	}
	*(uint4*)to = uint4{x[0], x[1], x[2], x[3]};
}

DEVICE float to_float(float x) { return x; }
DEVICE float to_float(bf16 x) { return as_float((uint32_t)x.bits << 16); }
DEVICE float to_float(f16 x) { return half_to_float(x.bits); }

// to_bf16 rounds to nearest, ties to even; a NaN stays one, though not always the same (gpu/half).
DEVICE bf16 to_bf16(float x) {
#if defined(UNDERSTUDY_EMULATOR)
	uint32_t bits = as_bits(x);
	if (x != x) return bf16{(uint16_t)(bits >> 16 | 0x40)};
	return bf16{(uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16)};
#else
	bf16 y;
	asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(y.bits) : "f"(x));
	return y;
#endif
}
DEVICE void store(float* to, float x) { *to = x; }
DEVICE void store(bf16* to, float x) { *to = to_bf16(x); }

// pack_bf16 is two elements of a fragment, low in the lower half, rounded as to_bf16 does.
DEVICE uint32_t pack_bf16(float low, float high) {
#if defined(UNDERSTUDY_EMULATOR)
	return (uint32_t)to_bf16(low).bits | (uint32_t)to_bf16(high).bits << 16;
#else
	uint32_t both;
	asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
	return both;
#endif
}

// for_elements gives what read(i) is to write(i, what), for the i below n that are this thread's. Four are read before
// one is written: their loads are under way together, whatever memory is written.
template <class Read, class Write> DEVICE void for_elements(int64_t n, Read read, Write write) {
	int64_t stride = (int64_t)gridDim.x * blockDim.x, i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
	for (; i + 3 * stride < n; i += 4 * stride) {
		decltype(read(i)) x[4];
#pragma unroll
		for (int k = 0; k < 4; k++) x[k] = read(i + k * stride);
#pragma unroll
		for (int k = 0; k < 4; k++) write(i + k * stride, x[k]);
	}
	for (; i < n; i += stride) write(i, read(i));
}

// exp32 is e^x within 1 unit in the last place, NaN for NaN, by additions and
// multiplications alone: the same bits on every machine.
DEVICE float exp32(float x) {
	float y = max32(min32(x, 89.f), -104.f);
	float shifted = fma32(y, 1.44269504088896341f, 12582912.f); // 1.5·2²³: rounds to an integer
	float n = shifted - 12582912.f;
	float f = fma32(n, -0.693145751953125f, y);
	f = fma32(n, -1.42860682030941723212e-6f, f);
	float p = 1.f / 5040;
	p = fma32(p, f, 1.f / 720);
	p = fma32(p, f, 1.f / 120);
	p = fma32(p, f, 1.f / 24);
	p = fma32(p, f, 1.f / 6);
	p = fma32(p, f, 0.5f);
	p = fma32(p, f, 1.f);
	p = fma32(p, f, 1.f);
	int whole = (int)as_bits(shifted) - 0x4b400000, half = whole >> 1;
	p = p * as_float((uint32_t)(127 + half) << 23) * as_float((uint32_t)(127 + whole - half) << 23);
	return x != x ? x : p;
}

// log64 is log x of a finite x > 0, within 1e-15 relative to max(1, log x): with x = m·2^e and
// m in [√½, √2), 2·atanh((m−1)/(m+1)) + e·log 2.
DEVICE double log64(double x) {
	if (!(x > 0)) return x == 0 ? -as_double(0x7ff0000000000000) : as_double(0x7ff8000000000000);
	if (x == as_double(0x7ff0000000000000)) return x;
	uint64_t bits = as_bits(x);
	int e = (int)(bits >> 52) - 1023;
	double m = as_double((bits & 0x000fffffffffffff) | 0x3ff0000000000000);
	if (m > 1.4142135623730951) {
		m *= 0.5;
		e++;
	}
	double s = (m - 1) / (m + 1), square = s * s, sum = 0;
	for (int k = 21; k >= 3; k -= 2) sum = (sum + 1.0 / k) * square;
	return 2 * (s + s * sum) + e * 0.69314718055994530942;
}

// sigmoid32 is 1/(1+e^−x).
DEVICE float sigmoid32(float x) { return 1.f / (1.f + exp32(-x)); }

// inverse_rms is 1/sqrt(sum/c + eps), for a sum of c squares.
DEVICE float inverse_rms(float sum, int c, float eps) { return 1.f / sqrt32(sum / (float)c + eps); }

// turned is a pair of a head's elements, turned by an angle.
struct Pair { float first, second; };
DEVICE Pair turned(float a, float b, float cosine, float sine) { return Pair{fma32(a, cosine, -(b * sine)), fma32(b, cosine, a * sine)}; }

// warp_sum and warp_max are given to every lane, in an order of their own that is always the
// same. All 32 lanes call them.
DEVICE float warp_sum(float x) {
	for (int by = 16; by > 0; by >>= 1) x += __shfl_xor_sync(all_lanes, x, by);
	return x;
}
DEVICE float warp_max(float x) {
	for (int by = 16; by > 0; by >>= 1) x = max32(x, __shfl_xor_sync(all_lanes, x, by));
	return x;
}

// block_sum is the sum over a block of threads (a multiple of 32, at most 1024) and reaches all of
// them; scratch is 33 floats of shared memory. It begins and ends with a barrier's worth of
// order: it may be called again with the same scratch.
DEVICE float block_sum(float x, float* scratch) {
	int warps = (int)blockDim.x / 32, lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;
	x = warp_sum(x);
	if (lane == 0) scratch[warp] = x;
	__syncthreads();
	if (warp == 0) {
		x = warp_sum(lane < warps ? scratch[lane] : 0.f);
		if (lane == 0) scratch[32] = x;
	}
	__syncthreads();
	return scratch[32];
}
