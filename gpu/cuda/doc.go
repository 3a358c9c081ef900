// Package cuda is the NVIDIA device of the engine: the operations of [gpu.Device] as kernels
// in CUDA C++, launched through the driver's library, which is opened at run time. A program
// that holds this package needs neither a GPU nor a toolkit to be built or to run; New says
// [ErrNoDevice] where there is no card.
//
//	kernels/*.cu ──clang──► kernels/*.ptx ──go:embed──► New: the driver translates them for its card
//	           └───g++────► a stand-in driver, which runs them on the CPU (emulator, for tests)
//
// Operations append commands to a list (command.go); the list goes to the one thread that
// talks to the driver (thread.go) when somebody waits for a result, and there, when it came
// before, it is replayed as a CUDA graph (graph.go). All memory comes from one arena.
//
// Nothing here has run on a GPU yet: tests run the kernels, and this code, on the emulator.
//
// Read next: device.go, command.go, thread.go, forward.go.
package cuda
