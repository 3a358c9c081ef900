// block.cpp runs the blocks of a launch, one after the other, each thread as a fiber.
#include "engine.h"

#include <cstdio>
#include <cstdlib>
#include <sys/mman.h>
#include <vector>

extern "C" unsigned char __start_emulator_shared[] __attribute__((weak));
extern "C" unsigned char __stop_emulator_shared[] __attribute__((weak));

// emulator_switch keeps the callee-saved registers on the stack, stores the stack pointer in
// *from and goes on where the stack to left off.
extern "C" void emulator_switch(void** from, void* to);
extern "C" void emulator_enter();
#if defined(__x86_64__)
asm(R"(
	.text
	.globl emulator_switch
	.hidden emulator_switch
emulator_switch:
	pushq %rbp
	pushq %rbx
	pushq %r12
	pushq %r13
	pushq %r14
	pushq %r15
	movq %rsp, (%rdi)
	movq %rsi, %rsp
	popq %r15
	popq %r14
	popq %r13
	popq %r12
	popq %rbx
	popq %rbp
	ret
)");
static const int saved_words = 6, return_word = 6;
#elif defined(__aarch64__)
asm(R"(
	.text
	.globl emulator_switch
	.hidden emulator_switch
emulator_switch:
	sub sp, sp, #160
	stp x19, x20, [sp]
	stp x21, x22, [sp, #16]
	stp x23, x24, [sp, #32]
	stp x25, x26, [sp, #48]
	stp x27, x28, [sp, #64]
	stp x29, x30, [sp, #80]
	stp d8, d9, [sp, #96]
	stp d10, d11, [sp, #112]
	stp d12, d13, [sp, #128]
	stp d14, d15, [sp, #144]
	mov x9, sp
	str x9, [x0]
	mov sp, x1
	ldp x19, x20, [sp]
	ldp x21, x22, [sp, #16]
	ldp x23, x24, [sp, #32]
	ldp x25, x26, [sp, #48]
	ldp x27, x28, [sp, #64]
	ldp x29, x30, [sp, #80]
	ldp d8, d9, [sp, #96]
	ldp d10, d11, [sp, #112]
	ldp d12, d13, [sp, #128]
	ldp d14, d15, [sp, #144]
	add sp, sp, #160
	ret
)");
static const int saved_words = 20, return_word = 11;
#else
#error "the emulator switches stacks on x86-64 and arm64 only"
#endif

namespace emulator {

Fiber* self;
Dim block_index, block_size, grid_size;
unsigned char* dynamic_shared;
Kernel* kernels;
unsigned char *shared_begin = __start_emulator_shared, *shared_end = __stop_emulator_shared;

namespace {

enum State { ready, at_barrier, at_collective, ended };

// Copy is an asynchronous copy that has not been waited for.
struct Copy {
	void* to;
	const void* from;
	bool take;
};

struct Thread : Fiber {
	State state;
	void* stack_pointer;
	int line;
	Apply apply;
	uint32_t mask;
	void* data;
	bool orders_memory;
	std::vector<std::vector<Copy>> groups; // the last one is open
};

struct Block {
	const Kernel* kernel;
	void** args;
	int threads;
	uint32_t launch, number, epoch;
	uint32_t warp_epochs[most_threads / warp_size];
};

const size_t stack_bytes = 128 << 10;
Thread threads[most_threads];
unsigned char* stacks;
Block block;
void* scheduler; // its stack pointer
std::string failure;

// The stacks lie one beside the other. The lowest word of each holds a mark, which a kernel that
// needs more overwrites.
const uint64_t mark = 0x5afe57ac6b0770b7;
uint64_t& lowest_word(const Fiber& t) { return *reinterpret_cast<uint64_t*>(stacks + t.thread * stack_bytes); }

void make_stacks() {
	if (stacks) return;
	void* at = mmap(nullptr, stack_bytes * most_threads, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (at == MAP_FAILED) abort();
	stacks = static_cast<unsigned char*>(at);
	void* shared = mmap(nullptr, most_shared, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (shared == MAP_FAILED) abort();
	dynamic_shared = static_cast<unsigned char*>(shared);
}

Thread* current() { return static_cast<Thread*>(self); }

void leave() { emulator_switch(&current()->stack_pointer, scheduler); }

void wait_in(State s) {
	current()->state = s;
	leave();
}

void start(Thread& t) {
	lowest_word(t) = mark;
	void** top = reinterpret_cast<void**>(stacks + (t.thread + 1) * stack_bytes);
#if defined(__x86_64__)
	top -= 1; // a called function finds its stack 8 bytes off a multiple of 16
#endif
	t.stack_pointer = top - saved_words - (return_word == saved_words);
	static_cast<void**>(t.stack_pointer)[return_word] = reinterpret_cast<void*>(emulator_enter);
}

void describe(const Thread& t, char* to, size_t n) {
	switch (t.state) {
	case ready: snprintf(to, n, "runs"); break;
	case at_barrier: snprintf(to, n, "is at the barrier of line %d", t.line); break;
	case at_collective: snprintf(to, n, "is at a collective of lanes %08x", t.mask); break;
	case ended: snprintf(to, n, "has ended"); break;
	}
}

// refuse ends the launch from the scheduler.
void refuse(const char* format, ...) __attribute__((format(printf, 1, 2)));
void refuse(const char* format, ...) {
	if (!failure.empty()) return;
	char text[512];
	va_list list;
	va_start(list, format);
	vsnprintf(text, sizeof text, format, list);
	va_end(list);
	failure = text;
}

template <class N> N position(N i, N n) { return first_order == 0 ? i : n - 1 - i; }

// run_ready gives each lane of the warp that can go on its turn.
bool run_ready(int from, int n) {
	bool some = false;
	for (int i = 0; i < n && failure.empty(); i++) {
		Thread& t = threads[from + position(i, n)];
		if (t.state != ready) continue;
		some = true;
		self = &t;
		emulator_switch(&scheduler, t.stack_pointer);
		self = nullptr;
		if (lowest_word(t) != mark) refuse("thread %d needs more than %zu bytes of stack", t.thread, stack_bytes);
	}
	return some;
}

// complete does the collectives for which all lanes have come.
void complete(int from, int n) {
	for (int i = 0; i < n && failure.empty(); i++) {
		Thread& t = threads[from + i];
		if (t.state != at_collective) continue;
		if (!(t.mask >> i & 1)) return refuse("thread %d is in a collective whose mask %08x leaves it out", t.thread, t.mask);
		void* lanes[32] = {};
		bool all = true;
		for (int l = 0; l < warp_size && all; l++) {
			if (!(t.mask >> l & 1)) continue;
			Thread& other = threads[from + l];
			if (l >= n || other.state == ended) return refuse("thread %d waits in a collective for lane %d, which has ended", t.thread, l);
			all = other.state == at_collective;
			if (all && (other.apply != t.apply || other.mask != t.mask))
				return refuse("threads %d and %d of a warp wait in different collectives", t.thread, other.thread);
			lanes[l] = other.data;
		}
		if (!all) continue;
		t.apply(lanes);
		if (t.orders_memory && t.mask == 0xffffffff) block.warp_epochs[from / warp_size]++;
		for (int l = 0; l < n; l++)
			if (t.mask >> l & 1) threads[from + l].state = ready;
	}
}

// run_warp goes on until each lane waits for the block or has ended.
void run_warp(int w) {
	int from = w * warp_size, n = block.threads - from < warp_size ? block.threads - from : warp_size;
	while (failure.empty() && run_ready(from, n)) complete(from, n);
	char what[80];
	for (int i = 0; i < n && failure.empty(); i++)
		if (threads[from + i].state == at_collective)
			for (int l = 0; l < n; l++)
				if (threads[from + l].state != at_collective || threads[from + l].mask != threads[from + i].mask) {
					describe(threads[from + l], what, sizeof what);
					return refuse("thread %d waits in a collective for thread %d, which %s", from + i, from + l, what);
				}
}

// pass_barrier lets a whole block go on; false: all threads have ended.
bool pass_barrier() {
	Thread &first = threads[0], *other = nullptr;
	for (int i = 1; i < block.threads && !other; i++)
		if (threads[i].state != first.state || (first.state == at_barrier && threads[i].line != first.line)) other = &threads[i];
	if (other) {
		char here[80], there[80];
		describe(first, here, sizeof here);
		describe(*other, there, sizeof there);
		refuse("threads diverge: thread 0 %s, thread %d %s", here, other->thread, there);
	}
	if (other || first.state == ended) return false;
	block.epoch++;
	for (int i = 0; i < block.threads; i++) threads[i].state = ready;
	return true;
}

void run_block(size_t shared) {
	memset(dynamic_shared, 0xff, shared);
	if (shared_begin) memset(shared_begin, 0xff, static_cast<size_t>(shared_end - shared_begin));
	block.epoch = 0;
	memset(block.warp_epochs, 0, sizeof block.warp_epochs);
	for (int i = 0; i < block.threads; i++) {
		Thread& t = threads[i];
		unsigned u = static_cast<unsigned>(i);
		t.index = {u % block_size.x, u / block_size.x % block_size.y, u / (block_size.x * block_size.y)};
		t.thread = i;
		t.lane = i % warp_size;
		t.state = ready;
		t.groups.clear();
		start(t);
	}
	int warps = (block.threads + warp_size - 1) / warp_size;
	do {
		for (int i = 0; i < warps && failure.empty(); i++) run_warp(position(i, warps));
	} while (failure.empty() && pass_barrier());
}

} // namespace

std::string launch(const Kernel& k, Dim grid, Dim size, size_t shared, void** args) {
	static uint32_t launches;
	make_stacks();
	failure.clear();
	block.kernel = &k;
	block.args = args;
	block.threads = static_cast<int>(size.x * size.y * size.z);
	block.launch = ++launches;
	block.number = 0;
	dynamic_bytes = shared;
	grid_size = grid;
	block_size = size;
	for (unsigned z = 0; z < grid.z; z++)
		for (unsigned y = 0; y < grid.y; y++)
			for (unsigned x = 0; x < grid.x && failure.empty(); x++, block.number++) {
				block_index = {position(x, grid.x), position(y, grid.y), position(z, grid.z)};
				run_block(shared);
			}
	if (failure.empty()) return "";
	return std::string(k.name) + ", block " + std::to_string(block_index.x) + "," + std::to_string(block_index.y) + "," +
	       std::to_string(block_index.z) + ": " + failure;
}

void fail(const char* format, ...) {
	char text[512];
	va_list list;
	va_start(list, format);
	vsnprintf(text, sizeof text, format, list);
	va_end(list);
	if (!self) { // an access outside of a launch is a fault of the emulator
		fprintf(stderr, "emulator: %s\n", text);
		abort();
	}
	if (failure.empty()) failure = "thread " + std::to_string(self->thread) + ": " + text;
	wait_in(ended);
	abort(); // an ended fiber is not resumed
}

void barrier(int line) {
	current()->line = line;
	wait_in(at_barrier);
}

void collect(Apply apply, uint32_t mask, void* data, bool orders_memory) {
	Thread* t = current();
	t->apply = apply;
	t->mask = mask;
	t->data = data;
	t->orders_memory = orders_memory;
	wait_in(at_collective);
}

void copy_later(void* to, const void* from, bool take) {
	check_aligned(to, 16, "the target of an asynchronous copy");
	check_aligned(from, 16, "the source of an asynchronous copy");
	auto& groups = current()->groups;
	if (groups.empty()) groups.emplace_back();
	groups.back().push_back({to, from, take});
}

void copy_group() {
	auto& groups = current()->groups;
	if (groups.empty()) groups.emplace_back();
	groups.emplace_back();
}

void copy_wait(int left) {
	auto& groups = current()->groups;
	while (static_cast<int>(groups.size()) > left + 1) { // the open group counts as none
		for (const Copy& c : groups.front()) {
			if (c.take) check_access(c.from, 16, false);
			check_access(c.to, 16, true);
			if (c.take) memcpy(c.to, c.from, 16);
			else memset(c.to, 0, 16);
		}
		groups.erase(groups.begin());
	}
}

Place place() {
	return {block.launch, block.number, block.epoch, block.warp_epochs[self->thread / warp_size], self->thread};
}

bool on_stack(const void* p) {
	return stacks && p >= stacks && p < stacks + stack_bytes * most_threads;
}

} // namespace emulator

extern "C" void emulator_enter() {
	using namespace emulator;
	block.kernel->call(block.kernel->f, block.args);
	wait_in(ended);
	abort(); // an ended fiber is not resumed
}
