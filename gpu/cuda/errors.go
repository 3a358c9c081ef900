package cuda

import (
	"errors"
	"fmt"
)

// ErrNoDevice is returned, wrapped, where no GPU can be used: no driver, or a driver that
// finds no card. It is an ordinary answer.
var ErrNoDevice = errors.New("no CUDA device")

// Error is a failure that the driver or cuBLASLt reported.
type Error struct {
	Code   int    // CUresult or cublasStatus_t
	Name   string // "CUDA_ERROR_OUT_OF_MEMORY"
	Doing  string // "launch matmul_f32"
	Remedy string // what to do about it, when that is known
}

func (e *Error) Error() string {
	text := fmt.Sprintf("%s: %s", e.Name, e.Doing)
	if e.Remedy != "" {
		text += "; " + e.Remedy
	}
	return text
}

// Results of the driver that callers act on (CUresult of cuda.h).
const (
	outOfMemory         = 2
	stubLibrary         = 34
	noDevice            = 100
	invalidImage        = 200
	noBinaryForGPU      = 209
	invalidPTX          = 218
	unsupportedPTX      = 222
	eccUncorrectable    = 214
	nvlinkUncorrectable = 220
	noPTXCompiler       = 221
	ptxDisabled         = 223
	firstFault          = 700
	tooManyResources    = 701
	lastFault           = 799
	systemNotReady      = 802
	driverMismatch      = 803
	deviceWasLost       = 999 // CUDA_ERROR_UNKNOWN: what a card that fell off its bus gives
)

// remedy is what a user can do about a result.
func remedy(code int) string {
	switch code {
	case noBinaryForGPU, invalidPTX, unsupportedPTX, invalidImage:
		return "the kernels need a card of compute capability 8.0 or later and a driver for CUDA 12.0 or later: update the driver, or use the host device"
	case stubLibrary:
		return "this libcuda is the toolkit's stub, which programs are linked with: take its folder out of LD_LIBRARY_PATH, and install the driver"
	case systemNotReady:
		return "the driver is starting, or the fabric manager of this machine is not running"
	case driverMismatch:
		return "the kernel module and libcuda.so.1 are of different versions: reboot, or install matching ones"
	case noPTXCompiler:
		return "the driver's compiler is not installed here: a container needs libnvidia-ptxjitcompiler.so.1 beside libcuda.so.1"
	case ptxDisabled:
		return "the environment forbids the driver to compile: unset CUDA_DISABLE_PTX_JIT"
	}
	if lost(code) {
		return "the device is lost to this process: start again from the last checkpoint"
	}
	return ""
}

// lost reports whether nothing works any more after this result.
func lost(code int) bool {
	switch code {
	case deviceWasLost, eccUncorrectable, nvlinkUncorrectable:
		return true
	}
	return code >= firstFault && code <= lastFault && code != tooManyResources // faults of kernels, which the driver keeps
}
