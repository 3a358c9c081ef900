package cuda

import (
	"errors"
	"fmt"
	"math"
	"unsafe"

	"github.com/ebitengine/purego"

	"understudy/gpu"
	"understudy/gpu/half"
)

// blas is cuBLASLt, for the products of Fast mode. Descriptors and the algorithm of a shape
// are chosen once; sums are not split, so that the same shape always gives the same bits.
type blas struct {
	create, destroy                              uintptr
	descCreate, descSet, descDestroy             uintptr
	layoutCreate, layoutDestroy                  uintptr
	preferenceCreate, preferenceSet              uintptr
	preferenceDestroy, heuristic, matmul, status uintptr

	handle    uintptr
	workspace span
	plans     []*plan
	scalars   [2]float32 // 0 and 1, for alpha and beta
}

func (b *blas) symbols() []symbol {
	return []symbol{
		{"cublasLtCreate", &b.create},
		{"cublasLtDestroy", &b.destroy},
		{"cublasLtMatmulDescCreate", &b.descCreate},
		{"cublasLtMatmulDescSetAttribute", &b.descSet},
		{"cublasLtMatmulDescDestroy", &b.descDestroy},
		{"cublasLtMatrixLayoutCreate", &b.layoutCreate},
		{"cublasLtMatrixLayoutDestroy", &b.layoutDestroy},
		{"cublasLtMatmulPreferenceCreate", &b.preferenceCreate},
		{"cublasLtMatmulPreferenceSetAttribute", &b.preferenceSet},
		{"cublasLtMatmulPreferenceDestroy", &b.preferenceDestroy},
		{"cublasLtMatmulAlgoGetHeuristic", &b.heuristic},
		{"cublasLtMatmul", &b.matmul},
		{"cublasLtGetStatusName", &b.status},
	}
}

// shape is a product as cuBLASLt, whose matrices stand column by column, sees it:
// D (M,N) = op(A)·op(B) + β·D over k, all without gaps.
type shape struct {
	transA, transB bool
	m, n, k        int
	kind, out      gpu.DType // of A and B, and of D: F32, or BF16 where those are
	alignment      int       // of all three, in bytes
}

// plan is what cuBLASLt chose for a shape.
type plan struct {
	shape
	desc, a, b, d uintptr
	algorithm     [8]uint64
}

// Numbers of cublasLt.h, cublas_api.h and library_types.h.
const (
	computeF32       = 68 // CUBLAS_COMPUTE_32F
	realF32          = 0  // CUDA_R_32F
	realBF16         = 14 // CUDA_R_16BF
	attributeTransA  = 3  // CUBLASLT_MATMUL_DESC_TRANSA
	attributeTransB  = 4
	preferWorkspace  = 1 // CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES
	preferReduction  = 3 // CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK
	preferAlignmentA = 5 // CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES; of B, C and D: 6, 7, 8
	workspaceBytes   = 32 << 20
)

// openBLAS opens the library and makes its handle, on the thread.
func openBLAS(libraries []string, workspace span) (*blas, error) {
	library, path, err := openLibrary(blasNames(), libraries)
	if err != nil {
		return nil, fmt.Errorf("fast mode needs cuBLASLt of CUDA 12 or 13, which pip install nvidia-cublas-cu12 brings; exact mode does not: %w", err)
	}
	b := &blas{workspace: workspace, scalars: [2]float32{0, 1}}
	if err := bind(library, path, b.symbols()); err != nil {
		return nil, err
	}
	return b, b.call("start cuBLASLt", b.create, uintptr(unsafe.Pointer(&b.handle)))
}

//go:uintptrescapes
func (b *blas) call(doing string, fn uintptr, args ...uintptr) error {
	r, _, _ := purego.SyscallN(fn, args...)
	code := int(int32(r))
	if code == 0 {
		return nil
	}
	name := fmt.Sprintf("cuBLAS status %d", code)
	if at, _, _ := purego.SyscallN(b.status, uintptr(code)); at != 0 {
		name = text(*(**byte)(unsafe.Pointer(&at)))
	}
	return &Error{Code: code, Name: name, Doing: doing}
}

// plan gives the index of a shape's plan, made on the thread at its first use.
func (b *blas) plan(s shape) (int, error) {
	for i, p := range b.plans {
		if p.shape == s {
			return i, nil
		}
	}
	p, err := b.newPlan(s)
	if err != nil {
		return 0, fmt.Errorf("product of (%d,%d,%d): %w", s.m, s.n, s.k, err)
	}
	b.plans = append(b.plans, p)
	return len(b.plans) - 1, nil
}

func (b *blas) newPlan(s shape) (_ *plan, err error) {
	p := &plan{shape: s}
	defer func() {
		if err != nil {
			b.free(p)
		}
	}()
	if err := b.call("describe a product", b.descCreate, uintptr(unsafe.Pointer(&p.desc)), computeF32, realF32); err != nil {
		return nil, err
	}
	for attribute, trans := range map[uintptr]bool{attributeTransA: s.transA, attributeTransB: s.transB} {
		op := int32(flag(trans)) //nolint:gosec // 0 or 1
		if err := b.call("describe a product", b.descSet, p.desc, attribute, uintptr(unsafe.Pointer(&op)), 4); err != nil {
			return nil, err
		}
	}
	err = errors.Join(
		b.layout(&p.a, s.kind, s.m, s.k, s.transA), b.layout(&p.b, s.kind, s.k, s.n, s.transB), b.layout(&p.d, s.out, s.m, s.n, false))
	if err != nil {
		return nil, err
	}
	return p, b.choose(p)
}

// layout describes a matrix (rows,columns) that may lie transposed.
func (b *blas) layout(to *uintptr, kind gpu.DType, rows, columns int, transposed bool) error {
	if transposed {
		rows, columns = columns, rows
	}
	number := uintptr(realF32)
	if kind == gpu.BF16 {
		number = realBF16
	}
	return b.call("describe a matrix", b.layoutCreate, uintptr(unsafe.Pointer(to)), number, uintptr(rows), uintptr(columns), uintptr(rows))
}

// heuristicResult is cublasLtMatmulHeuristicResult_t.
type heuristicResult struct {
	algorithm [8]uint64
	workspace uint64
	state     int32
	waves     float32
	_         [4]int32
}

// choose asks for the best algorithm that does not split sums.
func (b *blas) choose(p *plan) error {
	var preference uintptr
	if err := b.call("choose an algorithm", b.preferenceCreate, uintptr(unsafe.Pointer(&preference))); err != nil {
		return err
	}
	defer func() { _ = b.call("free a preference", b.preferenceDestroy, preference) }()
	workspace, none, alignment := uint64(b.workspace.bytes), uint32(0), uint32(p.alignment)
	err := errors.Join(
		b.call("choose an algorithm", b.preferenceSet, preference, preferWorkspace, uintptr(unsafe.Pointer(&workspace)), 8),
		b.call("choose an algorithm", b.preferenceSet, preference, preferReduction, uintptr(unsafe.Pointer(&none)), 4),
	)
	for i := range uintptr(4) {
		err = errors.Join(err, b.call("choose an algorithm", b.preferenceSet, preference, preferAlignmentA+i, uintptr(unsafe.Pointer(&alignment)), 4))
	}
	if err != nil {
		return err
	}
	var result heuristicResult
	var found int32
	if err := b.call("choose an algorithm", b.heuristic, b.handle, p.desc, p.a, p.b, p.d, p.d, preference, 1,
		uintptr(unsafe.Pointer(&result)), uintptr(unsafe.Pointer(&found))); err != nil {
		return err
	}
	if found == 0 || result.state != 0 {
		return errors.New("cuBLASLt has no algorithm for it")
	}
	p.algorithm = result.algorithm
	return nil
}

// multiply gives a product to the stream: c.args are D, A, B and whether D is added to.
func (b *blas) multiply(stream uintptr, c *command) error {
	p := b.plans[c.fn]
	beta := &b.scalars[c.args[3]]
	return b.call("multiply", b.matmul, b.handle, p.desc, uintptr(unsafe.Pointer(&b.scalars[1])),
		uintptr(c.args[1]), p.a, uintptr(c.args[2]), p.b, uintptr(unsafe.Pointer(beta)),
		uintptr(c.args[0]), p.d, uintptr(c.args[0]), p.d, uintptr(unsafe.Pointer(&p.algorithm)),
		uintptr(b.workspace.at), uintptr(b.workspace.bytes), stream)
}

func (b *blas) free(p *plan) {
	for _, layout := range []uintptr{p.a, p.b, p.d} {
		if layout != 0 {
			_ = b.call("free a matrix", b.layoutDestroy, layout)
		}
	}
	if p.desc != 0 {
		_ = b.call("free a product", b.descDestroy, p.desc)
	}
}

// close frees what the library holds.
func (b *blas) close() {
	if b == nil || b.handle == 0 {
		return
	}
	for _, p := range b.plans {
		b.free(p)
	}
	_ = b.call("end cuBLASLt", b.destroy, b.handle)
	b.handle = 0
}

// unchecked is the plan of a shape for whose check there was no memory.
const unchecked = -1

// multiply appends a product through cuBLASLt, in Fast mode. The first of a shape makes its plan and
// checks it on matrices of ones: a tail of k that is dropped, as was seen on some shapes
// (facebookexperimental/triton#2767), shows there. False: the kernels of exact mode must do, as they do
// where there is no memory for the check.
func (d *Device) multiply(s shape, y, a, b gpu.Buffer, add bool) bool {
	if d.Mode() != gpu.Fast || a.Type != b.Type {
		return false
	}
	s.alignment = alignment(address(y) | address(a) | address(b))
	i, known := d.plans[s]
	if !known {
		var err error
		if i, err = d.newPlan(s); err != nil {
			d.refuse(err)
			return true
		}
		d.plans[s] = i
	}
	if i == unchecked {
		return false
	}
	d.push(command{kind: product, fn: uint64(i), n: 4, args: [maxArgs]uint64{address(y), address(a), address(b), flag(add)}})
	return true
}

// newPlan makes the plan of a shape and checks it.
func (d *Device) newPlan(s shape) (i int, err error) {
	err = d.thread.do(func() (err error) {
		i, err = d.thread.blas.plan(s)
		return err
	})
	if err != nil {
		return 0, err
	}
	ones, err := d.onesOf(s)
	if err != nil {
		d.warnUnchecked(s, err)
		return unchecked, nil
	}
	defer d.Free(ones.result)
	defer d.Free(ones.factors)
	return i, d.checkOnes(i, s, ones)
}

// warnUnchecked says once that shapes go unchecked, and so another way.
func (d *Device) warnUnchecked(s shape, why error) {
	if d.Warn == nil || d.warned {
		return
	}
	d.warned = true
	d.Warn(fmt.Sprintf("cuBLASLt's products are checked before they are used. For those of (%d,%d,%d), and maybe others, there is no memory to do so: "+
		"they go through the kernels of exact mode, which are slower: %v", s.m, s.n, s.k, why))
}

// alignment is the greatest power of two, up to 256, that divides all of these addresses.
func alignment(addresses uint64) int {
	a := 256
	for addresses%uint64(a) != 0 {
		a /= 2
	}
	return a
}

// ones is memory for the check of a shape. Both factors are the same ones.
type ones struct{ result, factors gpu.Buffer }

// onesOf takes the memory, or says that there is none.
func (d *Device) onesOf(s shape) (o ones, err error) {
	if _, err = d.scratchOf(scratchSums, sumsOf(s.m*s.n)); err != nil {
		return o, err
	}
	if o.result, err = d.allocate(s.out, s.m*s.n+grain); err != nil {
		return o, err
	}
	if o.factors, err = d.allocate(s.kind, s.k*max(s.m, s.n)+grain); err != nil {
		d.Free(o.result)
	}
	return o, err
}

// checkOnes multiplies ones, at the alignment of the shape, and adds that to −k: every element of the result is 0, or
// what BF16 has no room for in k. (k itself would hide the last products of a long sum there.)
func (d *Device) checkOnes(i int, s shape, o ones) error {
	place := func(b gpu.Buffer, n int, x float32) gpu.Buffer {
		from := s.alignment / b.Type.Size() % (grain / b.Type.Size())
		b = b.Slice(from, from+n)
		d.launch("fill"+suffix(b.Type), elements(n), block(threads), ptr(b), i64(n), f32(x))
		return b
	}
	y, x := place(o.result, s.m*s.n, -float32(s.k)), place(o.factors, s.k*max(s.m, s.n), 1)
	d.push(command{kind: product, fn: uint64(i), n: 4, args: [maxArgs]uint64{ptr(y), ptr(x), ptr(x), flag(true)}})
	got, err := d.SquareSum(y)
	rest := 0.0
	if s.out == gpu.BF16 {
		rest = float64(s.k) - float64(half.FromBF16(half.ToBF16(float32(s.k))))
	}
	want := float64(s.m) * float64(s.n) * rest * rest
	if err == nil && !(math.Abs(got-want) <= 1e-9*want) {
		err = fmt.Errorf("cuBLASLt multiplies ones of (%d,%d,%d) wrongly (Σ(y−k)² = %g, not %g): use exact mode, and another version of the library",
			s.m, s.n, s.k, got, want)
	}
	return err
}
