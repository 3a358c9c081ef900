// A stand-in for NVRTC: the entry points that nvrtc.go calls. Of a source it gives as much PTX as the stand-in
// driver reads: the kernels that were compiled in and that the source declares, by name. It refuses what
// nvrtc.go should never ask for, a header that it was not given, and a source with an #error.
#include "engine.h"

#include <cstring>
#include <set>
#include <string>

namespace {

enum { success = 0, invalid_input = 3, invalid_program = 4, invalid_option = 5, compilation = 6 };

struct Program {
	std::string name, source, log, ptx;
	std::set<std::string> headers;
};

// declares says whether a source has a kernel of this name, or one of a family whose names begin so (name_d##width).
bool declares(const std::string& source, const std::string& kernel) {
	for (size_t at = 0; (at = source.find("KERNEL(", at)) != std::string::npos;) {
		at = source.find(',', at);
		size_t begin = source.find_first_not_of(" ", at + 1), end = source.find_first_of(",#)", begin);
		if (at == std::string::npos || begin == std::string::npos || end == std::string::npos) return false;
		std::string name = source.substr(begin, end - begin);
		if (source[end] == '#' ? kernel.compare(0, name.size(), name) == 0 : kernel == name) return true;
	}
	return false;
}

int failed(Program& p, const std::string& why) {
	p.log = p.name + "(1): error: " + why + "\n\n1 error detected in the compilation of \"" + p.name + "\".\n";
	return compilation;
}

// missing is a header that a source includes and nobody gave, or "".
std::string missing(const Program& p) {
	const std::string mark = "#include \"";
	for (size_t at = 0; (at = p.source.find(mark, at)) != std::string::npos;) {
		at += mark.size();
		std::string name = p.source.substr(at, p.source.find('"', at) - at);
		if (!p.headers.count(name)) return name;
	}
	return "";
}

int copy(const std::string& text, char* to) {
	memcpy(to, text.c_str(), text.size() + 1);
	return success;
}

} // namespace

extern "C" {

const char* nvrtcGetErrorString(int result) {
	switch (result) {
	case success: return "NVRTC_SUCCESS";
	case invalid_input: return "NVRTC_ERROR_INVALID_INPUT";
	case invalid_program: return "NVRTC_ERROR_INVALID_PROGRAM";
	case invalid_option: return "NVRTC_ERROR_INVALID_OPTION";
	case compilation: return "NVRTC_ERROR_COMPILATION";
	}
	return "NVRTC_ERROR unknown";
}

int nvrtcCreateProgram(Program** to, const char* source, const char* name, int n, const char* const* headers, const char* const* names) {
	if (!source || !name || n < 0) return invalid_input;
	*to = new Program{name, source, "", "", {}};
	for (int i = 0; i < n; i++)
		if (headers[i] && names[i]) (*to)->headers.insert(names[i]);
	return success;
}

int nvrtcCompileProgram(Program* p, int n, const char* const* options) {
	if (!p) return invalid_program;
	bool architecture = false, apart = false; // no product and sum are contracted
	for (int i = 0; i < n; i++) {
		std::string option = options[i];
		architecture |= option.rfind("--gpu-architecture=compute_", 0) == 0;
		apart |= option == "--fmad=false";
	}
	if (!architecture || !apart) return invalid_option;
	if (p->source.find("\n#error") != std::string::npos) return failed(*p, "#error directive");
	if (std::string name = missing(*p); !name.empty()) return failed(*p, "could not open source file \"" + name + "\" (no directory in search list)");
	p->ptx = ".version 8.8\n.target sm_90\n.address_size 64\n";
	for (const emulator::Kernel* k = emulator::kernels; k; k = k->next) {
		if (!declares(p->source, k->name)) continue;
		p->ptx += std::string("\n.visible .entry ") + k->name + "(";
		for (int i = 0; i < k->params; i++) p->ptx += (i ? ",\n\t.param .b64 p" : "\n\t.param .b64 p") + std::to_string(i);
		p->ptx += "\n)\n{\n\tret;\n}\n";
	}
	return success;
}

int nvrtcGetPTXSize(Program* p, size_t* n) { return *n = p->ptx.size() + 1, success; }
int nvrtcGetPTX(Program* p, char* to) { return copy(p->ptx, to); }
int nvrtcGetProgramLogSize(Program* p, size_t* n) { return *n = p->log.size() + 1, success; }
int nvrtcGetProgramLog(Program* p, char* to) { return copy(p->log, to); }

int nvrtcDestroyProgram(Program** p) {
	delete *p;
	*p = nullptr;
	return success;
}
}
