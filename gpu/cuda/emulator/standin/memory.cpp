// memory.cpp knows the device's allocations and, in the checked library, watches each access of a
// kernel: g++ is told to instrument them as for its race detector, and the functions that it then
// calls are these. An access outside of the device's memory, one that is not aligned, a read of
// shared memory that nobody wrote, and two accesses of which one writes and which no barrier
// orders, end the launch.
#include "engine.h"

#include <map>
#include <sys/mman.h>

extern "C" const char __ehdr_start[] __attribute__((visibility("hidden")));
extern "C" const char _end[] __attribute__((visibility("hidden")));

namespace emulator {
namespace {

const size_t granule = 2; // bytes whose history is kept together: no kernel writes single bytes

// Access is the last write of a granule, or its reads since.
struct Access {
	uint32_t launch, block, block_epoch, warp_epoch;
	int16_t thread;
	enum Scope : uint8_t { one, warp, whole_block, grid } scope; // whose reads these are
};

struct History {
	Access write, read;
};

struct Range {
	size_t bytes;
	History* history;
};

std::map<uintptr_t, Range> ranges; // by first address

uintptr_t number(const void* p) { return reinterpret_cast<uintptr_t>(p); }

History* new_history(size_t bytes) {
#ifdef EMULATOR_CHECKED
	size_t n = (bytes / granule + 1) * sizeof(History);
	void* at = mmap(nullptr, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	return at == MAP_FAILED ? nullptr : static_cast<History*>(at);
#else
	(void)bytes;
	return nullptr;
#endif
}

#ifdef EMULATOR_CHECKED

Access access_of(const Place& p) {
	return {p.launch, p.block, p.block_epoch, p.warp_epoch, static_cast<int16_t>(p.thread), Access::one};
}

// before says that a barrier stands between a and the access at p.
bool before(const Access& a, const Place& p) {
	if (a.launch != p.launch) return true;
	if (a.block != p.block || a.scope == Access::grid) return false;
	if (a.block_epoch < p.block_epoch) return true;
	if (a.scope == Access::whole_block) return false;
	if (a.scope == Access::one && a.thread == p.thread) return true;
	return a.thread / warp_size == p.thread / warp_size && a.warp_epoch < p.warp_epoch;
}

// add counts a read among those since the last write.
void add(Access& reads, const Place& p) {
	if (reads.launch != p.launch || (reads.block == p.block && reads.scope != Access::grid && reads.block_epoch < p.block_epoch)) {
		reads = access_of(p);
		return;
	}
	Access::Scope scope = Access::one;
	if (reads.block != p.block) scope = Access::grid;
	else if (reads.thread / warp_size != p.thread / warp_size) scope = Access::whole_block;
	else if (reads.thread != p.thread) scope = Access::warp;
	if (scope > reads.scope) reads.scope = scope;
	reads.warp_epoch = p.warp_epoch;
}

void race(const char* now, const char* then, const Access& other) {
	fail("%s without a barrier what thread %d of block %u %s", now, other.thread, other.block, then);
}

void watch(History& h, const Place& p, bool write, bool shared) {
	if (shared && (h.write.launch != p.launch || h.write.block != p.block)) {
		if (!write) fail("reads shared memory that no thread has written");
		h = History{access_of(p), {}};
		return;
	}
	if (!before(h.write, p)) race(write ? "writes" : "reads", "wrote", h.write);
	if (!write) return add(h.read, p);
	if (!before(h.read, p)) race("writes", "read", h.read);
	h.write = access_of(p);
}

// shared_history is that of dynamic shared memory, and after it of the kernels' variables.
History* shared_history = new_history(most_shared + static_cast<size_t>(shared_end - shared_begin));

// find gives the history of device memory at p, or null.
History* find(const void* p, size_t n, bool& shared) {
	uintptr_t at = number(p);
	shared = true;
	if (dynamic_shared && at >= number(dynamic_shared) && at + n <= number(dynamic_shared) + dynamic_bytes)
		return shared_history + (at - number(dynamic_shared)) / granule;
	if (shared_begin && at >= number(shared_begin) && at + n <= number(shared_end))
		return shared_history + (most_shared + at - number(shared_begin)) / granule;
	shared = false;
	auto r = ranges.upper_bound(at);
	if (r == ranges.begin()) return nullptr;
	--r;
	return at + n <= r->first + r->second.bytes ? r->second.history + (at - r->first) / granule : nullptr;
}

#endif

} // namespace

size_t dynamic_bytes;

void add_memory(const void* p, size_t n) { ranges[number(p)] = {n, new_history(n)}; }

size_t remove_memory(const void* p) {
	auto r = ranges.find(number(p));
	if (r == ranges.end()) return 0;
	size_t n = r->second.bytes;
	if (r->second.history) munmap(r->second.history, (n / granule + 1) * sizeof(History));
	ranges.erase(r);
	return n;
}

bool is_memory(uint64_t p, size_t n) {
	auto r = ranges.upper_bound(p);
	if (r == ranges.begin()) return false;
	--r;
	return p + n <= r->first + r->second.bytes;
}

void check_access(const void* p, size_t n, bool write) {
#ifdef EMULATOR_CHECKED
	if (!self || on_stack(p)) return;
	bool shared;
	History* h = find(p, n, shared);
	if (!h) {
		if (!write && p >= __ehdr_start && p < _end) return; // a table of constants
		fail("%s %zu bytes at %p, which is no memory of the device", write ? "writes" : "reads", n, p);
	}
	Place now = place();
	for (size_t i = 0; i < (n + granule - 1) / granule; i++) watch(h[i], now, write, shared);
#else
	(void)p, (void)n, (void)write;
#endif
}

} // namespace emulator

#ifdef EMULATOR_CHECKED
// What instrumented code calls, by size.
static void access(const void* p, size_t n, bool write) {
	if (emulator::self && !emulator::on_stack(p)) emulator::check_aligned(p, n, write ? "the target of a write" : "the source of a read");
	emulator::check_access(p, n, write);
}
#define WATCHED(n) \
	extern "C" void __tsan_read##n(void* p) { access(p, n, false); } \
	extern "C" void __tsan_write##n(void* p) { access(p, n, true); } \
	extern "C" void __tsan_unaligned_read##n(void* p) { access(p, n, false); } \
	extern "C" void __tsan_unaligned_write##n(void* p) { access(p, n, true); }
WATCHED(1)
WATCHED(2)
WATCHED(4)
WATCHED(8)
WATCHED(16)
extern "C" void __tsan_read_range(void* p, size_t n) { emulator::check_access(p, n, false); }
extern "C" void __tsan_write_range(void* p, size_t n) { emulator::check_access(p, n, true); }
extern "C" void __tsan_func_entry(void*) {}
extern "C" void __tsan_func_exit() {}
extern "C" void __tsan_init() {}
extern "C" void __ubsan_handle_out_of_bounds(void*, void* index) {
	emulator::fail("index %lld is outside of its array", static_cast<long long>(reinterpret_cast<intptr_t>(index)));
}
extern "C" void __ubsan_handle_shift_out_of_bounds(void*, void*, void*) { emulator::fail("a shift by more than the type's width"); }
#endif

// What g++ calls where a pointer is not aligned to its type, such as that of a float4.
extern "C" void __ubsan_handle_type_mismatch_v1(void*, void* p) { emulator::fail("address %p is not aligned to its type", p); }
