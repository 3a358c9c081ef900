package gpu

// Mode says what a device owes to a row's bits.
type Mode int

const (
	// Exact says that every forward operation computes a row from that row alone, in an
	// order that does not depend on how many rows there are or where the row
	// stands. A token's log-probability is then bit for bit the same in a
	// prefill, a decode and a training step (issue 6).
	Exact Mode = iota
	// Fast says that an operation may choose its order of summation by shape.
	Fast
)

// String is "exact" or "fast".
func (m Mode) String() string {
	if m == Fast {
		return "fast"
	}
	return "exact"
}

// DType is the type of a buffer's elements.
type DType int

// Weights may lie in memory as any of the floats, activations as the device keeps them
// (ActivationType), their sums, gradients of weights and all else as F32, indices as I32.
const (
	F32 DType = iota
	BF16
	F16
	I32
)

// Size is the width of an element in bytes.
func (t DType) Size() int {
	if t == BF16 || t == F16 {
		return 2
	}
	return 4
}

// Memory is one allocation of a device. Only the device looks inside.
type Memory interface {
	Bytes() int64
}

// Buffer is a range of elements of an allocation. The zero Buffer is "none":
// an operation that allows it says so.
type Buffer struct {
	Memory   Memory
	Type     DType
	Off, Len int // in elements
}

// None reports whether there is no buffer.
func (b Buffer) None() bool { return b.Memory == nil }

// Slice is the elements from..to-1 of b. It panics when b has fewer.
func (b Buffer) Slice(from, to int) Buffer {
	if from < 0 || to < from || to > b.Len {
		panic("gpu: slice outside of its buffer")
	}
	b.Off, b.Len = b.Off+from, to-from
	return b
}

// Weight is a matrix (N,K), row-major, that rows are multiplied by. Form is
// what its device made of it, such as packed panels.
type Weight struct {
	Buffer
	N, K int
	Form any
}

// Device is memory and a list of operations on it, enough for the forward and
// backward pass of one family of transformers.
//
// Operations run in the order of their calls but may run later; Download,
// SquareSum and Sync wait for all before them and report what went wrong.
// Whoever calls gives buffers of the right lengths: an operation may panic
// otherwise. A device is used by one goroutine at a time. Every operation is
// deterministic: the same calls leave the same bits.
//
// In the shapes below (R,C) is row-major. "=" overwrites, "+=" accumulates.
// Outputs come first. No output overlaps an input unless it says "in place".
// Buffers are F32, but those marked A: they are of the device's ActivationType, and those
// marked A or F32 either. Sums are made in float32 at least, and rounded once.
type Device interface {
	Storage
	Forward
	Backward
	// Name is for people: "host avx512, 2 threads".
	Name() string
	// Mode is fixed when the device is made.
	Mode() Mode
}

// Storage is the memory of a device.
type Storage interface {
	// Alloc gives n zeroed elements, or an error that names the size.
	Alloc(t DType, n int) (Buffer, error)
	// Map gives a read-only buffer over little-endian elements. A device that
	// shares memory with the program keeps pointing at data, when it is aligned.
	Map(t DType, data []byte) (Buffer, error)
	// Free returns what Alloc or Map gave; no slice of it is used afterwards.
	Free(b Buffer)
	// NewWeight makes b (N,K), of any float type, multipliable.
	NewWeight(b Buffer, n, k int) Weight
	// Changed says that the elements of w's buffer were written since.
	Changed(w Weight)

	// Upload, UploadInts and Download move as many elements as the slice has.
	// Download converts to float32 from any float type.
	Upload(dst Buffer, src []float32)
	UploadInts(dst Buffer, src []int32)
	Download(dst []float32, src Buffer) error
	// Sync waits for all operations and gives the first failure since the last.
	Sync() error
}

// Forward is what a forward pass is made of. In Exact mode a row of an output
// depends on its own row of the inputs alone, bit for bit.
type Forward interface {
	Zero(y Buffer)
	// Copy: y = x, converting from x's float type to F32 where they differ.
	Copy(y, x Buffer)
	// Add: y (n) = a (n) + b (n); y may be a or b.
	Add(y, a, b Buffer)
	// AddScaled: y (n; A or F32) += s·x (n).
	AddScaled(y Buffer, s float32, x Buffer)
	// Gather: y (M,C)[i] = x (R,C)[rows (M)[i]]; both A, or both F32.
	Gather(y, x, rows Buffer)
	// Scatter: y (S,C)[rows (R)[i]] = x (R,C)[i]; both A, or both F32; the rows are distinct.
	Scatter(y, x, rows Buffer)

	// Embed: y (R,C)[i] = table (V,C)[tokens (R)[i]]; the table may be of any float type.
	Embed(y, table, tokens Buffer)
	// RMSNorm: y (R,C; A) = x (R,C; A or F32)·rstd·w (C), rstd (R) = 1/sqrt(mean(x²)+eps); y may be x.
	RMSNorm(y, rstd, x, w Buffer, eps float32)
	// MatMul: y (R,N; A or F32) = x (R,K; A or F32)·wᵀ.
	MatMul(y, x Buffer, w Weight)
	// RoPE turns, in place, each pair (x[d], x[d+D/2]) of x (R,heads,D; A) by the
	// angle of its row's position; table (positions,D) holds D/2 cosines, then
	// D/2 sines. Inverse turns back, which is the gradient.
	RoPE(x, table, positions Buffer, d int, inverse bool)
	// Attend is causal attention within packed sequences.
	Attend(a Attention)
	// StoreKV writes keys and values of rows into their slots of the arena.
	StoreKV(s KVRows)
	// AttendPaged is causal attention over the KV arena. In Exact mode it gives
	// the bits of Attend for the same queries, keys and values: both walk a
	// row's keys in chunks of PageSize from position 0.
	AttendPaged(a PagedAttention)
	// SwiGLU: h (R,F) = gate·sigmoid(gate)·up, all A.
	SwiGLU(h, gate, up Buffer)
	// LogProbs reads logits and writes log-probabilities.
	LogProbs(t TokenLoss)
}

// Fetcher is a Device that reads keys and values faster when it knows them in time.
type Fetcher interface {
	// FetchPages says that AttendPaged will follow, with the same keys, values and rows. Q and
	// Out are not looked at. It changes no result.
	FetchPages(a PagedAttention)
}

// Backward is the gradients of Forward, and the optimiser.
type Backward interface {
	// EmbedBackward: dtable (V,C)[tokens (R)[i]] += dy (R,C)[i], in the order of i:
	// the gradient of Embed and of Gather; both A, or both F32.
	EmbedBackward(dtable, dy, tokens Buffer)
	// RMSNormBackward: dx (R,C) += , dw (C) += ; dx, dy and x all A, or all F32; dw may be none.
	RMSNormBackward(dx, dw, dy, x, w, rstd Buffer)
	// MatMulBackX: dx (R,K; A or F32) = dy (R,N; A or F32)·w, or += when add is set.
	MatMulBackX(dx, dy Buffer, w Weight, add bool)
	// MatMulBackW: dw (N,K) += dy (R,N; A or F32)ᵀ·x (R,K; A or F32).
	MatMulBackW(dw, dy, x Buffer, rows int)
	AttendBackward(a AttentionGrad)
	// SwiGLUBackward: dgate (R,F) = , dup (R,F) = , all A; dgate may be gate, dup may be up.
	SwiGLUBackward(dgate, dup, dh, gate, up Buffer)
	// LogProbsBackward turns t.Logits, in place, into their gradient, given
	// those of t.LogProb and t.Entropy (R); dentropy may be none.
	LogProbsBackward(t TokenLoss, dlogprob, dentropy Buffer)

	// SquareSum is Σ x² over any float type in float64: NaN or Inf when an
	// element is. The order of summation depends on the length alone.
	SquareSum(x Buffer) (float64, error)
	AdamW(u AdamWUpdate)
}

// Heads are the dimensions of attention: H query heads share G key/value heads,
// H/G each (head h reads h/(H/G)), of width D.
type Heads struct{ H, G, D int }

// Attention is causal attention of T packed tokens: row t attends to the rows
// Starts[t]..t. Other rows do not touch it, not even as NaN, nor do they in PagedAttention.
//
//	Out (T,H,D) = softmax(Scale·Q·Kᵀ)·V, LSE (T,H) = log Σ exp(Scale·Q·Kᵀ)
type Attention struct {
	Heads
	Scale   float32
	Out     Buffer // (T,H,D), A
	LSE     Buffer // (T,H)
	Q, K, V Buffer // (T,H,D), (T,G,D), (T,G,D), A
	Starts  Buffer // (T) I32: the first row of the row's sequence
	// Asked (T) I32, or none: rows of zeros, which come before the others of their
	// sequence, are keys and values only. Their Out and LSE, DOut and DQ are
	// neither read nor written.
	Asked Buffer
}

// AttentionGrad is Attention with the gradient of Out, and where those of Q, K
// and V are written ("=").
type AttentionGrad struct {
	Attention
	DOut       Buffer // (T,H,D), A
	DQ, DK, DV Buffer // (T,H,D), (T,G,D), (T,G,D), A
}

// ActivationTyped is a Device whose activations are not F32.
type ActivationTyped interface {
	Device
	// ActivationType is the type of what operations hand on to products and attention, and of its
	// gradients: outputs of norms and projections, heads, gates. The residual stream stays F32.
	ActivationType() DType
}

// ActivationType is the type in which a device keeps activations.
func ActivationType(d Device) DType {
	if t, ok := d.(ActivationTyped); ok {
		return t.ActivationType()
	}
	return F32
}

// KVTyped is a Device whose KV arena does not hold F32.
type KVTyped interface {
	Device
	// KVType is the type of an arena's buffers: keys and values are rounded to it when they are stored.
	KVType() DType
}

// KVType is the type in which a device's KV arena holds keys and values.
func KVType(d Device) DType {
	if t, ok := d.(KVTyped); ok {
		return t.KVType()
	}
	return F32
}

// KVRows is keys and values of R rows on their way into one layer of the arena. Of
// an arena's layout only this is promised: a page is a range of elements, and a
// copy of the range is a copy of the page.
type KVRows struct {
	Heads
	K, V       Buffer // (S,G,D), of KVType: one layer of the arena
	NewK, NewV Buffer // (R,G,D), A
	Slots      Buffer // (R) I32, each once
}

// PagedAttention is causal attention of R rows over keys and values in pages:
// row r, at position p of sequence s, attends to positions 0..p; position i
// lies in slot Tables[s][i/PageSize]·PageSize + i%PageSize.
type PagedAttention struct {
	Heads
	Scale     float32
	Out, Q    Buffer // (R,H,D), A
	K, V      Buffer // (S,G,D), of KVType: one layer of the arena, as StoreKV laid it out
	Tables    Buffer // (B,P) I32 page ids
	P         int    // pages a row of Tables has room for
	Sequences Buffer // (R) I32 row of Tables
	Positions Buffer // (R) I32
}

// TokenLoss is R rows of logits z, each divided by its temperature:
//
//	LSE = log Σ_v exp(Scale·z_v)
//	LogProb = Scale·z_target − LSE     (rounded as [LogProb] does)
//	Entropy = −Σ_v p_v·log p_v
type TokenLoss struct {
	Logits  Buffer // (R,V)
	Scale   Buffer // (R) 1/temperature
	LSE     Buffer // (R)
	Targets Buffer // (R) I32; none: only LSE is written
	LogProb Buffer // (R)
	Entropy Buffer // (R)
}

// LogProb is the log-probability of a token with this logit, at scale
// 1/temperature, under the row's LSE, rounded as every device rounds it.
func LogProb(logit, scale, lse float32) float32 {
	return float32(scale*logit) - lse
}

// HalfMoments is a device whose AdamW takes moments in BF16, and rounds them up or down by
// chance, in proportion: to the nearest, a second moment whose β2 is near 1 would never sink.
type HalfMoments interface {
	Device
	KeepsHalfMoments()
}

// AdamWUpdate is one step of AdamW (arXiv 1711.05101, algorithm 2) on n
// parameters. With g = GradScale·G:
//
//	M = β1·M + (1−β1)·g;  V = β2·V + (1−β2)·g²
//	P = P − LR·Decay·P − LR·(M/Bias1)/(sqrt(V/Bias2)+Eps)
type AdamWUpdate struct {
	P, G, M, V       Buffer // (n) F32; M and V may be BF16 on a device with HalfMoments
	Seed             uint64 // of the rounding of moments in BF16: another one each call
	LR, Beta1, Beta2 float32
	Eps, Decay       float32
	Bias1, Bias2     float32 // 1−β1ᵗ, 1−β2ᵗ
	GradScale        float32 // global-norm clipping and averaging
}
