// engine.h is what the parts of the stand-in driver know of each other.
#pragma once

#include "shim.h"
#undef threadIdx
#undef blockIdx
#undef blockDim
#undef gridDim

#include <cstdarg>
#include <cstddef>
#include <functional>
#include <string>

namespace emulator {

const int warp_size = 32;
const int most_threads = 1024;
const size_t most_shared = 227 << 10; // sm_90, dynamic and static together

// Order is that in which the warps of a block, and the lanes of a warp, get their turn.
extern const int first_order; // 0 ascending, 1 descending: as the library was linked

// launch runs a kernel and gives what went wrong, or "".
std::string launch(const Kernel& k, Dim grid, Dim block, size_t shared, void** args);

// Where the shared variables of all kernels lie.
extern unsigned char *shared_begin, *shared_end;

// Place is who accesses memory, and after how many barriers.
struct Place {
	uint32_t launch, block, block_epoch, warp_epoch;
	int thread;
};
Place place();
bool on_stack(const void* p);
void check_aligned(const void* p, size_t to, const char* what);

// The device's memory. remove_memory gives the size of what began at p, or 0.
void add_memory(const void* p, size_t n);
size_t remove_memory(const void* p);
bool is_memory(uint64_t p, size_t n);
// check_access ends the launch, in the checked library, where a kernel may not read or write.
void check_access(const void* p, size_t n, bool write);
extern size_t dynamic_bytes; // shared memory that this launch asked for

} // namespace emulator

// emulator_enqueue gives work to a stream, or to the graph that it records, as a launch does:
// CUDA's result of that.
int emulator_enqueue(void* stream, std::function<void()> work);
