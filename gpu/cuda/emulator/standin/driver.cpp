// driver.cpp is a stand-in for libcuda.so.1: the entry points that package cuda opens, on the CPU.
// It is asynchronous as the real one is: what a stream was given runs when somebody waits for
// it, so that memory which changes too early shows. Calls without a context, allocations during
// a capture, launches beyond a card's limits and kernels that the PTX lacks are refused with
// CUDA's codes.
#include "engine.h"

#include <cstdio>
#include <cstdlib>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

using namespace emulator;

typedef int Result;
typedef uint64_t Pointer; // of the device
enum {
	success = 0, invalid_value = 1, out_of_memory = 2, not_initialized = 3, invalid_device = 101, invalid_image = 200,
	invalid_context = 201, invalid_ptx = 218, invalid_handle = 400, not_found = 500, not_ready = 600, launch_failed = 719,
	capture_unsupported = 900, capture_invalidated = 901,
};

namespace {

std::recursive_mutex mutex;
typedef std::lock_guard<std::recursive_mutex> Lock;

typedef std::function<Result()> Work;

struct Graph {
	std::vector<Work> nodes;
};

struct Stream {
	std::deque<Work> queue;
	uint64_t queued = 0, done = 0;
	std::unique_ptr<Graph> capture;
	std::thread::id capturer; // captures are THREAD_LOCAL: what other threads do does not spoil them
	bool invalidated = false;

	bool captured_here() const { return capture && capturer == std::this_thread::get_id(); }
};

struct Event {
	Stream* stream = nullptr;
	uint64_t at = 0; // done when the stream has done so much
	double time = 0;
};

// Entry is a kernel as its PTX has it.
struct Entry {
	const Kernel* kernel;
	size_t shared; // static
	size_t most_dynamic = 48 << 10;
};

struct Module {
	std::map<std::string, Entry> entries;
};

std::set<Stream*> streams;
thread_local bool has_context;
bool initialized;
Result lost; // a failed kernel spoils the context for good
std::string last_failure;
size_t used_bytes;
std::map<std::string, int> held; // what was taken and not given back, by kind

struct Card {
	int major = 9, minor = 0, driver_version = 12040, count = 1;
	size_t memory = size_t{1} << 40;
} card;

struct Failure {
	int after;
	Result code;
};
std::map<std::string, Failure> failures; // that were asked for, by entry point
std::map<std::string, int> launches;     // of each kernel, captured ones once

// refused is for the first line of an entry point.
Result refused(const char* name, bool needs_context = true) {
	auto f = failures.find(name);
	if (f != failures.end() && f->second.after-- == 0) {
		Result code = f->second.code;
		failures.erase(f);
		if (code >= 700 && code < 800) lost = code;
		return code;
	}
	if (!initialized) return not_initialized;
	if (needs_context && !has_context) return invalid_context;
	return needs_context ? lost : success;
}

bool capturing() {
	for (Stream* s : streams)
		if (s->captured_here()) return true;
	return false;
}

// while_capturing is the answer to what may not be done during a capture, which it spoils.
Result while_capturing() {
	for (Stream* s : streams)
		if (s->captured_here()) s->invalidated = true;
	return capture_unsupported;
}

Stream* stream_of(void* s) {
	auto* stream = static_cast<Stream*>(s);
	return streams.count(stream) ? stream : nullptr;
}

Result enqueue(Stream* s, Work w) {
	if (s->capture) {
		if (s->invalidated) return capture_invalidated;
		s->capture->nodes.push_back(std::move(w));
		return success;
	}
	s->queue.push_back(std::move(w));
	s->queued++;
	return success;
}

Result drain(Stream* s, uint64_t until) {
	while (s->done < until && !s->queue.empty()) {
		Work w = std::move(s->queue.front());
		s->queue.pop_front();
		s->done++;
		Result r = lost ? lost : w();
		if (r != success) lost = r;
	}
	return lost;
}

Result drain_all() {
	for (Stream* s : streams) drain(s, s->queued);
	return lost;
}

void* memory(Pointer p) { return reinterpret_cast<void*>(p); }

// parameters is how many an entry has.
int parameters(const std::string& text, size_t from, size_t to) {
	int n = 0;
	for (size_t at = from; (at = text.find(".param", at)) != std::string::npos && at < to; at++) n++;
	return n;
}

// static_shared is the bytes of the .shared variables of an entry's body.
size_t static_shared(const std::string& body) {
	size_t sum = 0;
	for (size_t at = 0; (at = body.find("\t.shared ", at)) != std::string::npos; at++) {
		size_t open = body.find('[', at), end = body.find(';', at);
		if (open < end) sum += strtoul(body.c_str() + open + 1, nullptr, 10);
	}
	return sum;
}

// load finds the kernels of a PTX text; the code is the one that was compiled in by name.
Result load(const std::string& text, Module& m) {
	if (text.find(".version") == std::string::npos || text.find(".target") == std::string::npos) return invalid_ptx;
	const std::string mark = ".visible .entry ";
	for (size_t at = 0; (at = text.find(mark, at)) != std::string::npos;) {
		at += mark.size();
		size_t open = text.find('(', at), end = text.find("\n}", at);
		if (open == std::string::npos || end == std::string::npos) return invalid_ptx;
		std::string name = text.substr(at, open - at);
		const Kernel* k = kernels;
		while (k && name != k->name) k = k->next;
		if (!k || parameters(text, open, text.find('{', open)) != k->params) {
			last_failure = "the PTX has a kernel " + name + " that the sources lack or declare otherwise: go generate";
			return invalid_ptx;
		}
		m.entries[name] = {k, static_shared(text.substr(open, end - open))};
		at = end;
	}
	return success;
}

// jit_log writes to the log that a caller of cuModuleLoadDataEx may have given.
Result jit_log(unsigned n, const int* options, void** values, const std::string& text) {
	char* log = nullptr;
	size_t bytes = 0;
	for (unsigned i = 0; i < n; i++) {
		if (options[i] == 5) log = static_cast<char*>(values[i]); // CU_JIT_ERROR_LOG_BUFFER
		else if (options[i] == 6) bytes = reinterpret_cast<size_t>(values[i]); // CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES
		else return invalid_value;
	}
	if (log && bytes) snprintf(log, bytes, "%s", text.c_str());
	return success;
}

const char* name_of(Result r) {
	switch (r) {
	case success: return "CUDA_SUCCESS";
	case 34: return "CUDA_ERROR_STUB_LIBRARY";
	case invalid_value: return "CUDA_ERROR_INVALID_VALUE";
	case out_of_memory: return "CUDA_ERROR_OUT_OF_MEMORY";
	case not_initialized: return "CUDA_ERROR_NOT_INITIALIZED";
	case 100: return "CUDA_ERROR_NO_DEVICE";
	case invalid_device: return "CUDA_ERROR_INVALID_DEVICE";
	case invalid_image: return "CUDA_ERROR_INVALID_IMAGE";
	case invalid_context: return "CUDA_ERROR_INVALID_CONTEXT";
	case 209: return "CUDA_ERROR_NO_BINARY_FOR_GPU";
	case 214: return "CUDA_ERROR_ECC_UNCORRECTABLE";
	case invalid_ptx: return "CUDA_ERROR_INVALID_PTX";
	case 222: return "CUDA_ERROR_UNSUPPORTED_PTX_VERSION";
	case invalid_handle: return "CUDA_ERROR_INVALID_HANDLE";
	case not_found: return "CUDA_ERROR_NOT_FOUND";
	case not_ready: return "CUDA_ERROR_NOT_READY";
	case 700: return "CUDA_ERROR_ILLEGAL_ADDRESS";
	case 701: return "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES";
	case launch_failed: return "CUDA_ERROR_LAUNCH_FAILED";
	case 803: return "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH";
	case capture_unsupported: return "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED";
	case capture_invalidated: return "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED";
	case 999: return "CUDA_ERROR_UNKNOWN";
	}
	return nullptr;
}

Result copy(void* stream, void* to, const void* from, size_t n) {
	Stream* s = stream_of(stream);
	if (!s) return invalid_handle;
	return enqueue(s, [=] { memcpy(to, from, n); return success; });
}

} // namespace

int emulator_enqueue(void* stream, std::function<void()> work) {
	Lock lock(mutex);
	Stream* s = stream_of(stream);
	return s ? enqueue(s, [=] { return work(), Result(success); }) : invalid_handle;
}

extern "C" {

// For tests of what goes wrong: the call of an entry point after so many others of it gives code.
void emulator_fail(const char* name, int after, int code) {
	Lock lock(mutex);
	if (name) {
		failures[name] = {after, code};
		return;
	}
	failures.clear();
	lost = success;
}
// emulator_failure is what the last failed launch did wrong.
const char* emulator_failure() { return last_failure.c_str(); }
// emulator_held is how many of a kind ("context", "module", "stream", "memory", "pinned", "graph") were taken
// and not given back.
int emulator_held(const char* kind) {
	Lock lock(mutex);
	return held[kind];
}
// emulator_launches is how often a kernel was launched.
int emulator_launches(const char* name) {
	Lock lock(mutex);
	auto n = launches.find(name);
	return n == launches.end() ? 0 : n->second;
}
// emulator_card sets what the devices are.
void emulator_card(int major, int minor, int driver_version, size_t memory, int count) {
	Lock lock(mutex);
	card = {major, minor, driver_version, count, memory};
}

Result cuInit(unsigned) {
	Lock lock(mutex);
	initialized = true;
	return refused("cuInit", false);
}
Result cuDriverGetVersion(int* version) { return *version = card.driver_version, refused("cuDriverGetVersion", false); }
Result cuDeviceGetCount(int* n) { return *n = card.count, refused("cuDeviceGetCount", false); }
Result cuDeviceGet(int* device, int ordinal) {
	*device = ordinal;
	return ordinal >= 0 && ordinal < card.count ? refused("cuDeviceGet", false) : invalid_device;
}
Result cuDeviceGetName(char* name, int n, int) {
	snprintf(name, static_cast<size_t>(n), "CPU emulator");
	return refused("cuDeviceGetName", false);
}
Result cuDeviceTotalMem_v2(size_t* n, int) { return *n = card.memory, refused("cuDeviceTotalMem_v2", false); }
Result cuDeviceGetAttribute(int* value, int attribute, int) {
	switch (attribute) {
	case 8: *value = 48 << 10; break;     // MAX_SHARED_MEMORY_PER_BLOCK
	case 10: *value = warp_size; break;   // WARP_SIZE
	case 16: *value = 4; break;           // MULTIPROCESSOR_COUNT
	case 75: *value = card.major; break;         // COMPUTE_CAPABILITY_MAJOR
	case 76: *value = card.minor; break;         // COMPUTE_CAPABILITY_MINOR
	case 97: *value = most_shared; break; // MAX_SHARED_MEMORY_PER_BLOCK_OPTIN
	default: return invalid_value;
	}
	return refused("cuDeviceGetAttribute", false);
}

Result cuDevicePrimaryCtxRetain(void** context, int) {
	Lock lock(mutex);
	if (Result r = refused("cuDevicePrimaryCtxRetain", false)) return r;
	*context = &mutex;
	held["context"]++;
	return success;
}
Result cuDevicePrimaryCtxRelease_v2(int) {
	Lock lock(mutex);
	if (Result r = refused("cuDevicePrimaryCtxRelease_v2", false)) return r;
	return held["context"]-- > 0 ? success : invalid_context;
}
Result cuCtxSetCurrent(void* context) {
	has_context = context != nullptr;
	return refused("cuCtxSetCurrent", false);
}
Result cuCtxSynchronize() {
	Lock lock(mutex);
	if (Result r = refused("cuCtxSynchronize")) return r;
	if (capturing()) return while_capturing();
	return drain_all();
}

Result cuMemGetInfo_v2(size_t* free, size_t* total) {
	Lock lock(mutex);
	*total = card.memory;
	*free = card.memory > used_bytes ? card.memory - used_bytes : 0;
	return refused("cuMemGetInfo_v2");
}
Result cuMemAlloc_v2(Pointer* p, size_t n) {
	Lock lock(mutex);
	if (Result r = refused("cuMemAlloc_v2")) return r;
	if (capturing()) return while_capturing();
	if (n == 0) return invalid_value;
	void* at = used_bytes + n > card.memory ? nullptr : aligned_alloc(256, (n + 255) / 256 * 256);
	if (!at) return out_of_memory;
	memset(at, 0xff, n);
	used_bytes += n;
	held["memory"]++;
	add_memory(at, n);
	*p = reinterpret_cast<Pointer>(at);
	return success;
}
Result cuMemFree_v2(Pointer p) {
	Lock lock(mutex);
	if (Result r = refused("cuMemFree_v2")) return r;
	if (capturing()) return while_capturing();
	drain_all();
	size_t n = remove_memory(memory(p));
	if (n == 0) return invalid_value;
	used_bytes -= n;
	held["memory"]--;
	free(memory(p));
	return lost;
}
Result cuMemHostAlloc(void** p, size_t n, unsigned) {
	Lock lock(mutex);
	if (Result r = refused("cuMemHostAlloc")) return r;
	if (capturing()) return while_capturing();
	*p = aligned_alloc(256, (n + 255) / 256 * 256);
	if (!*p) return out_of_memory;
	memset(*p, 0xff, n);
	held["pinned"]++;
	return success;
}
Result cuMemFreeHost(void* p) {
	Lock lock(mutex);
	if (Result r = refused("cuMemFreeHost")) return r;
	if (capturing()) return while_capturing();
	drain_all();
	free(p);
	held["pinned"]--;
	return lost;
}

Result cuMemcpyHtoDAsync_v2(Pointer to, const void* from, size_t n, void* s) {
	Lock lock(mutex);
	if (Result r = refused("cuMemcpyHtoDAsync_v2")) return r;
	return is_memory(to, n) ? copy(s, memory(to), from, n) : invalid_value;
}
Result cuMemcpyDtoHAsync_v2(void* to, Pointer from, size_t n, void* s) {
	Lock lock(mutex);
	if (Result r = refused("cuMemcpyDtoHAsync_v2")) return r;
	return is_memory(from, n) ? copy(s, to, memory(from), n) : invalid_value;
}
Result cuMemcpyDtoDAsync_v2(Pointer to, Pointer from, size_t n, void* s) {
	Lock lock(mutex);
	if (Result r = refused("cuMemcpyDtoDAsync_v2")) return r;
	return is_memory(to, n) && is_memory(from, n) ? copy(s, memory(to), memory(from), n) : invalid_value;
}
Result cuMemsetD8Async(Pointer to, unsigned char value, size_t n, void* stream) {
	Lock lock(mutex);
	if (Result r = refused("cuMemsetD8Async")) return r;
	Stream* s = stream_of(stream);
	if (!s) return invalid_handle;
	if (!is_memory(to, n)) return invalid_value;
	return enqueue(s, [=] { memset(memory(to), value, n); return success; });
}

Result cuStreamCreate(void** stream, unsigned) {
	Lock lock(mutex);
	if (Result r = refused("cuStreamCreate")) return r;
	auto* s = new Stream;
	streams.insert(s);
	held["stream"]++;
	*stream = s;
	return success;
}
Result cuStreamDestroy_v2(void* stream) {
	Lock lock(mutex);
	if (Result r = refused("cuStreamDestroy_v2")) return r;
	Stream* s = stream_of(stream);
	if (!s) return invalid_handle;
	drain(s, s->queued);
	streams.erase(s);
	held["stream"]--;
	delete s;
	return success;
}
Result cuStreamSynchronize(void* stream) {
	Lock lock(mutex);
	if (Result r = refused("cuStreamSynchronize")) return r;
	Stream* s = stream_of(stream);
	if (!s) return invalid_handle;
	if (s->capture) return while_capturing();
	return drain(s, s->queued);
}
Result cuStreamWaitEvent(void* stream, void* event, unsigned) {
	Lock lock(mutex);
	if (Result r = refused("cuStreamWaitEvent")) return r;
	Stream* s = stream_of(stream);
	if (!s || !event) return invalid_handle;
	Event e = *static_cast<Event*>(event);
	return e.stream ? enqueue(s, [e] { return drain(e.stream, e.at); }) : success;
}

Result cuModuleLoadDataEx(void** module, const void* image, unsigned n, int* options, void** values) {
	Lock lock(mutex);
	if (Result r = refused("cuModuleLoadDataEx")) {
		jit_log(n, options, values, "ptxas application ptx input, line 9; fatal   : the emulator was told to refuse\nptxas fatal   : Ptx assembly aborted due to errors\n");
		return r;
	}
	auto m = std::make_unique<Module>();
	if (Result r = load(static_cast<const char*>(image), *m)) {
		jit_log(n, options, values, last_failure);
		return r;
	}
	if (Result r = jit_log(n, options, values, "")) return r;
	*module = m.release();
	held["module"]++;
	return success;
}
Result cuModuleUnload(void* module) {
	Lock lock(mutex);
	if (Result r = refused("cuModuleUnload")) return r;
	drain_all();
	held["module"]--;
	delete static_cast<Module*>(module);
	return success;
}
Result cuModuleGetFunction(void** function, void* module, const char* name) {
	Lock lock(mutex);
	if (Result r = refused("cuModuleGetFunction")) return r;
	auto& entries = static_cast<Module*>(module)->entries;
	auto e = entries.find(name);
	if (e == entries.end()) return not_found;
	*function = &e->second;
	return success;
}
Result cuFuncSetAttribute(void* function, int attribute, int value) {
	Lock lock(mutex);
	if (Result r = refused("cuFuncSetAttribute")) return r;
	auto* e = static_cast<Entry*>(function);
	if (attribute != 8) return success; // only MAX_DYNAMIC_SHARED_SIZE_BYTES matters here
	if (value < 0 || static_cast<size_t>(value) + e->shared > most_shared) return invalid_value;
	e->most_dynamic = static_cast<size_t>(value);
	return success;
}
Result cuLaunchKernel(void* function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                      unsigned shared, void* stream, void** args, void** extra) {
	Lock lock(mutex);
	if (Result r = refused("cuLaunchKernel")) return r;
	Stream* s = stream_of(stream);
	auto* e = static_cast<Entry*>(function);
	if (!s || !e) return invalid_handle;
	const Kernel* k = e->kernel;
	uint64_t threads = uint64_t{bx} * by * bz;
	if (!gx || !gy || !gz || gx > 0x7fffffff || gy > 65535 || gz > 65535 || !threads || threads > most_threads || bz > 64 || extra)
		return invalid_value;
	if (threads > static_cast<uint64_t>(k->threads)) return 701;
	if (shared > e->most_dynamic || shared + e->shared > most_shared) return invalid_value;
	launches[k->name]++;
	// The arguments are copied now, as the real driver does.
	auto values = std::make_shared<std::vector<std::vector<char>>>();
	for (int i = 0; i < k->params; i++) {
		auto* from = static_cast<const char*>(args[i]);
		values->emplace_back(from, from + k->sizes[i]);
	}
	return enqueue(s, [=] {
		std::vector<void*> list;
		for (auto& v : *values) list.push_back(v.data());
		std::string wrong = launch(*k, {gx, gy, gz}, {bx, by, bz}, shared, list.data());
		if (wrong.empty()) return success;
		last_failure = wrong;
		fprintf(stderr, "emulator: %s\n", wrong.c_str());
		return launch_failed;
	});
}

Result cuStreamBeginCapture_v2(void* stream, int) {
	Lock lock(mutex);
	if (Result r = refused("cuStreamBeginCapture_v2")) return r;
	Stream* s = stream_of(stream);
	if (!s || s->capture) return s ? capture_unsupported : invalid_handle;
	s->capture = std::make_unique<Graph>();
	s->capturer = std::this_thread::get_id();
	s->invalidated = false;
	return success;
}
Result cuStreamEndCapture(void* stream, void** graph) {
	Lock lock(mutex);
	*graph = nullptr;
	Stream* s = stream_of(stream);
	if (Result r = refused("cuStreamEndCapture")) {
		if (s) s->capture.reset(); // a capture ends, well or badly
		return r;
	}
	if (!s || !s->capture) return invalid_handle;
	auto captured = std::move(s->capture);
	if (s->invalidated) return capture_invalidated;
	*graph = captured.release();
	return success;
}
Result cuGraphInstantiateWithFlags(void** exec, void* graph, unsigned long long) {
	Lock lock(mutex);
	if (Result r = refused("cuGraphInstantiateWithFlags")) return r;
	*exec = new Graph(*static_cast<Graph*>(graph));
	held["graph"]++;
	return success;
}
Result cuGraphLaunch(void* exec, void* stream) {
	Lock lock(mutex);
	if (Result r = refused("cuGraphLaunch")) return r;
	Stream* s = stream_of(stream);
	if (!s) return invalid_handle;
	for (const Work& w : static_cast<Graph*>(exec)->nodes)
		if (Result r = enqueue(s, w)) return r;
	return success;
}
Result cuGraphDestroy(void* graph) {
	Lock lock(mutex);
	delete static_cast<Graph*>(graph);
	return refused("cuGraphDestroy");
}
Result cuGraphExecDestroy(void* exec) {
	Lock lock(mutex);
	delete static_cast<Graph*>(exec);
	held["graph"]--;
	return refused("cuGraphExecDestroy");
}

Result cuEventCreate(void** event, unsigned) {
	Lock lock(mutex);
	*event = new Event;
	return refused("cuEventCreate");
}
Result cuEventRecord(void* event, void* stream) {
	Lock lock(mutex);
	if (Result r = refused("cuEventRecord")) return r;
	Stream* s = stream_of(stream);
	if (!s) return invalid_handle;
	auto* e = static_cast<Event*>(event);
	Result r = enqueue(s, [e] {
		timespec t;
		clock_gettime(CLOCK_MONOTONIC, &t);
		e->time = static_cast<double>(t.tv_sec) * 1e3 + static_cast<double>(t.tv_nsec) / 1e6;
		return success;
	});
	e->stream = s;
	e->at = s->queued;
	return r;
}
Result cuEventSynchronize(void* event) {
	Lock lock(mutex);
	if (Result r = refused("cuEventSynchronize")) return r;
	auto* e = static_cast<Event*>(event);
	return e->stream ? drain(e->stream, e->at) : success;
}
Result cuEventElapsedTime(float* ms, void* from, void* to) {
	Lock lock(mutex);
	if (Result r = refused("cuEventElapsedTime")) return r;
	auto *a = static_cast<Event*>(from), *b = static_cast<Event*>(to);
	if (!a->stream || !b->stream) return invalid_handle;
	if (a->stream->done < a->at || b->stream->done < b->at) return not_ready;
	*ms = static_cast<float>(b->time - a->time);
	return success;
}
Result cuEventDestroy_v2(void* event) {
	Lock lock(mutex);
	if (Result r = refused("cuEventDestroy_v2")) return r;
	drain_all(); // a recorded event may still be written
	delete static_cast<Event*>(event);
	return success;
}

Result cuGetErrorName(Result r, const char** name) {
	*name = name_of(r);
	return *name ? success : invalid_value;
}
Result cuGetErrorString(Result r, const char** text) { return cuGetErrorName(r, text); }

} // extern "C"
