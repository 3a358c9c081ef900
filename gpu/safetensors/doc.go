// Package safetensors reads and writes model weights in the safetensors format:
// an 8-byte little-endian length, a JSON header of that length, then the tensors'
// bytes without holes.
//
//	┌──────────┬──────────────────────────────────────────┬───────────────────┐
//	│ uint64 n │ n bytes of JSON: name → type, shape,      │ tensors, back to  │
//	│          │ offsets into the rest; "__metadata__"     │ back, in C order  │
//	└──────────┴──────────────────────────────────────────┴───────────────────┘
//
// [Open] maps a file, or the shards that a model.safetensors.index.json lists,
// and checks the header before anything else is believed: every offset, the
// product of every shape, the absence of holes and overlaps, duplicate names.
// What is wrong is a [FormatError] that names the file and the tensor. A
// [Tensor]'s bytes are a view of the mapping; nothing is copied until
// [Tensor.Read] converts it.
//
// A mapped file that another program truncates makes the kernel raise SIGBUS on
// the next access. [Tensor.Read] and [Tensor.CheckFinite] turn that into an error;
// code that walks a view itself does the same inside [Guard], and without it the
// process dies. A file that is replaced by rename, as [Write] does, is no danger:
// the mapping keeps the old one.
//
// The package knows nothing of models: which names must be there is for the
// caller. It assumes a little-endian machine, like the format.
package safetensors
