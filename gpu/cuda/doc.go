// Package cuda is the NVIDIA device of the engine: the operations of [gpu.Device] as kernels
// in CUDA C++, launched through the driver's library, which is opened at run time. A program
// that holds this package needs neither a GPU nor a toolkit to be built or to run; New says
// [ErrNoDevice] where there is no card.
//
//	kernels/*.cu ──clang──► kernels/*.ptx ──go:embed──► New: the driver translates them for its card
//	           └───g++────► a stand-in driver, which runs them on the CPU (emulator, for tests)
//
// Operations append commands to a list (command.go), where some become one with those before them: a residual's sum
// and its norm (forward.go), what heads go through before attention, with norms or without (heads.go), few rows' products with several
// weights (product.go). They do so only where none of them writes what another reads or writes, so that no order can be
// told. The list goes to the one thread that talks to the driver (thread.go) when somebody waits for a result, and
// there, when it came before, it is replayed as a CUDA graph (graph.go): runners pad their steps to few sizes for it
// (gpu.Replayer). Memory comes from an arena that grows between operations (arena.go). [Job.Plan] says what a run will
// take before it begins.
//
// In exact mode all products are kernels whose sums run over K in one order, so that a row's
// bits are its own; fast mode multiplies more than a few rows through cuBLASLt, with sums that are not split, and
// checks each shape once on matrices of ones. Attention walks a row's keys in splits of 128, in
// one order, too: in generation each split is a block of its own, shared by all rows whose pages
// there are the same; in training one block walks them all.
//
// Options.Products says whether all that is for the tensor cores is bfloat16: weights, activations and their gradients
// (norms' outputs, heads, what attention gathers, gates), keys and values. An operation rounds its results once; of what
// it reads, products round factors in float32, which are the gradients of the residual and of logits and what lies
// between an adapter's matrices, and attention rounds its weights. Sums, the residual stream and its gradient, logits,
// and weights that are trained, beside their rounded copies, are float32; moments, too, or bfloat16 rounded by chance
// (gpu.AdamWConfig).
//
// Tokens are drawn where their logits are, by the rules of package sample, so that a decode step sends
// some bytes of a row to the host and not a vocabulary; rows of a grammar, or of which the most likely tokens are
// asked, send their logits.
//
// For developers, Options.Sources has NVRTC compile the kernels' sources for the card at hand in place
// of the embedded PTX.
//
// It has run only in emulation: on no card, and no driver has loaded its PTX. NVIDIA's assembler accepts
// the PTX for compute capability 8.0 and 9.0, and its compiler the sources (both of CUDA 12.9). What the
// emulator cannot show (the memory model, approximate instructions, speed) is open. On a machine
// with a card check.sh runs these tests there (UNDERSTUDY_CUDA=driver) and compute-sanitizer, and
// bench.sh measures; each ends within ten minutes, or the limit that it is given, and says what it did not do.
//
// A model has one card.
//
// Read next: device.go, command.go, thread.go, forward.go, product.go, attention.go.
package cuda
