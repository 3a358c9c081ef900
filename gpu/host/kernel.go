package host

import (
	"unsafe"

	"understudy/gpu"
	"understudy/gpu/half"
)

// tileFunc computes C (m,nr) = or += A (m,k) · B (k,nr) for one height m. Strides are in
// bytes: A's element (i,p) is at a+i*rs+p*cs, B's row p at b+p*ldb, C's row i at c+i*ldc; C
// is read only if load is not 0. With row p of B, as much is fetched from b+ahead+p*step on,
// which will be needed soon. An element is one chain over p = 0..k-1.
type tileFunc func(k int, a *float32, rs, cs int, b unsafe.Pointer, ldb int, c *float32, ldc, load, ahead, step int)

// kernels are the inner loops for one instruction set.
type kernels struct {
	name  string
	rows  int        // height of the tallest tile
	width int        // columns of a tile and of a packed panel
	f32   []tileFunc // [m] is the tile of height m, B in float32
	bf16  []tileFunc // B in packed bfloat16
	half  []tileFunc // B in float32, 16 columns: a chunk of keys

	tall     int        // height of the tallest tall tile
	tallF32  []tallFunc // [m] is the tall tile of height m
	tallBF16 []tallFunc // B in pairs of bfloat16
	soon     bool       // tall tiles fetch what attention reads next

	alone []aloneFunc // [m] is the attention of m rows to pages of their own; may be empty
	loops
}

// chunk is the columns of a half tile, which is a page of keys: neither can change alone.
const chunk = 16

const _ = uint(chunk-gpu.PageSize) + uint(gpu.PageSize-chunk)

// goKernels is plain Go. It rounds after every product, where the others fuse.
func goKernels() kernels {
	const rows = 4
	k := kernels{name: "go", rows: rows, width: chunk, loops: goLoops()}
	for m := range rows + 1 {
		f32 := func(k int, a *float32, rs, cs int, b unsafe.Pointer, ldb int, c *float32, ldc, load, _, _ int) {
			for i := range m {
				tileRow(k, unsafe.Add(unsafe.Pointer(a), i*rs), cs, b, ldb, row16(unsafe.Add(unsafe.Pointer(c), i*ldc)), load)
			}
		}
		k.f32 = append(k.f32, f32)
		k.bf16 = append(k.bf16, func(k int, a *float32, rs, cs int, b unsafe.Pointer, ldb int, c *float32, ldc, load, _, _ int) {
			wide := make([]float32, max(1, k*chunk))
			for p := range k {
				packed := (*[chunk]uint16)(unsafe.Add(b, p*ldb))
				for j := range chunk {
					wide[p*chunk+j] = half.FromBF16(packed[2*(j%(chunk/2))+j/(chunk/2)])
				}
			}
			f32(k, a, rs, cs, unsafe.Pointer(&wide[0]), 4*chunk, c, ldc, load, 0, 0)
		})
	}
	k.half = k.f32
	k.tall = rows
	k.tallF32, k.tallBF16 = goTall(rows)
	return k
}

func row16(p unsafe.Pointer) *[chunk]float32 { return (*[chunk]float32)(p) }

// tileRow is one row of a tile.
func tileRow(k int, a unsafe.Pointer, cs int, b unsafe.Pointer, ldb int, c *[chunk]float32, load int) {
	var sum [chunk]float32
	if load != 0 {
		sum = *c
	}
	for p := range k {
		x := *(*float32)(unsafe.Add(a, p*cs))
		for j, y := range row16(unsafe.Add(b, p*ldb)) {
			sum[j] += float32(x * y)
		}
	}
	*c = sum
}

// goTall are the tall tiles of plain Go.
func goTall(tallest int) (f32, bf16 []tallFunc) {
	for m := range tallest + 1 {
		plain := func(panels, k int, a *float32, b unsafe.Pointer, c *float32, ldc, load, _, _ int, _ unsafe.Pointer, _ int) {
			for j := range panels {
				for i := range m {
					tileRow(k, unsafe.Add(unsafe.Pointer(a), 4*i), 4*m, unsafe.Add(b, 4*chunk*k*j), 4*chunk,
						row16(unsafe.Add(unsafe.Pointer(c), i*ldc+4*chunk*j)), load)
				}
			}
		}
		f32 = append(f32, plain)
		bf16 = append(bf16, func(panels, k int, a *float32, b unsafe.Pointer, c *float32, ldc, load, _, _ int, _ unsafe.Pointer, _ int) {
			wide := make([]float32, (k+1)*chunk)
			for panel := range panels {
				for p := range k {
					pair := (*[chunk]uint32)(unsafe.Add(b, 4*chunk*(ceil(k, 2)*panel+p/2)))
					for j, x := range pair {
						wide[p*chunk+j] = half.FromBF16(uint16(x >> (p % 2 * 16)))
					}
				}
				plain(1, k, a, unsafe.Pointer(&wide[0]), (*float32)(unsafe.Add(unsafe.Pointer(c), 4*chunk*panel)), ldc, load, 0, 0, nil, 0)
			}
		})
	}
	return f32, bf16
}
