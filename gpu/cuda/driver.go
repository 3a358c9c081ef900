package cuda

import (
	"fmt"
	"unsafe"

	"github.com/ebitengine/purego"
)

// driver is libcuda.so.1, opened at run time. Names are those that cuda.h's macros lead to:
// the `_v2` entry points, where there are any.
type driver struct {
	init, driverVersion                                       uintptr
	deviceCount, deviceGet, deviceName, deviceMemory, attr    uintptr
	contextRetain, contextRelease, contextSet                 uintptr
	memInfo, memAlloc, memFree, hostAlloc, hostFree           uintptr
	toDevice, toHost, within, fill                            uintptr
	streamCreate, streamDestroy, streamSync                   uintptr
	moduleLoad, moduleUnload, moduleFunction, functionSet     uintptr
	launchKernel                                              uintptr
	captureBegin, captureEnd, graphInstantiate, graphLaunch   uintptr
	graphDestroy, execDestroy                                 uintptr
	eventCreate, eventRecord, eventSync, eventTime, eventFree uintptr
	errorName, errorText                                      uintptr
}

// symbols lists what must be in the library.
func (d *driver) symbols() []symbol {
	return []symbol{
		{"cuInit", &d.init},
		{"cuDriverGetVersion", &d.driverVersion},
		{"cuDeviceGetCount", &d.deviceCount},
		{"cuDeviceGet", &d.deviceGet},
		{"cuDeviceGetName", &d.deviceName},
		{"cuDeviceTotalMem_v2", &d.deviceMemory},
		{"cuDeviceGetAttribute", &d.attr},
		{"cuDevicePrimaryCtxRetain", &d.contextRetain},
		{"cuDevicePrimaryCtxRelease_v2", &d.contextRelease},
		{"cuCtxSetCurrent", &d.contextSet},
		{"cuMemGetInfo_v2", &d.memInfo},
		{"cuMemAlloc_v2", &d.memAlloc},
		{"cuMemFree_v2", &d.memFree},
		{"cuMemHostAlloc", &d.hostAlloc},
		{"cuMemFreeHost", &d.hostFree},
		{"cuMemcpyHtoDAsync_v2", &d.toDevice},
		{"cuMemcpyDtoHAsync_v2", &d.toHost},
		{"cuMemcpyDtoDAsync_v2", &d.within},
		{"cuMemsetD8Async", &d.fill},
		{"cuStreamCreate", &d.streamCreate},
		{"cuStreamDestroy_v2", &d.streamDestroy},
		{"cuStreamSynchronize", &d.streamSync},
		{"cuModuleLoadDataEx", &d.moduleLoad},
		{"cuModuleUnload", &d.moduleUnload},
		{"cuModuleGetFunction", &d.moduleFunction},
		{"cuFuncSetAttribute", &d.functionSet},
		{"cuLaunchKernel", &d.launchKernel},
		{"cuStreamBeginCapture_v2", &d.captureBegin},
		{"cuStreamEndCapture", &d.captureEnd},
		{"cuGraphInstantiateWithFlags", &d.graphInstantiate},
		{"cuGraphLaunch", &d.graphLaunch},
		{"cuGraphDestroy", &d.graphDestroy},
		{"cuGraphExecDestroy", &d.execDestroy},
		{"cuEventCreate", &d.eventCreate},
		{"cuEventRecord", &d.eventRecord},
		{"cuEventSynchronize", &d.eventSync},
		{"cuEventElapsedTime", &d.eventTime},
		{"cuEventDestroy_v2", &d.eventFree},
		{"cuGetErrorName", &d.errorName},
		{"cuGetErrorString", &d.errorText},
	}
}

// symbol is an entry point and where its address goes.
type symbol struct {
	name string
	at   *uintptr
}

// bind finds all symbols of a library.
func bind(library uintptr, path string, list []symbol) error {
	for _, s := range list {
		at, err := purego.Dlsym(library, s.name)
		if err != nil || at == 0 {
			return fmt.Errorf("%s has no %s: it is older than CUDA 12.0, update it", path, s.name)
		}
		*s.at = at
	}
	return nil
}

// call calls an entry point and turns its result into an error that says what was attempted.
// Pointers in args are kept alive and in place for the time of the call.
//
//go:uintptrescapes
func (d *driver) call(doing string, fn uintptr, args ...uintptr) error {
	r, _, _ := purego.SyscallN(fn, args...)
	code := int(int32(r))
	if code == 0 {
		return nil
	}
	return &Error{Code: code, Name: d.nameOf(code), Doing: doing, Remedy: remedy(code)}
}

// nameOf is the driver's own name of a result.
func (d *driver) nameOf(code int) string {
	var name *byte
	if r, _, _ := purego.SyscallN(d.errorName, uintptr(code), uintptr(unsafe.Pointer(&name))); r != 0 || name == nil {
		return fmt.Sprintf("CUDA error %d", code)
	}
	return text(name)
}

// text copies a C string.
func text(s *byte) string {
	n := 0
	for *(*byte)(unsafe.Add(unsafe.Pointer(s), n)) != 0 {
		n++
	}
	return string(unsafe.Slice(s, n))
}
