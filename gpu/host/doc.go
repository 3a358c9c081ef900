// Package host is the CPU device of the engine: the operations of [gpu.Device] on memory of
// the program.
//
// A product C = A·B is cut into tiles that fit the vector registers (12×32 with AVX-512,
// 6×16 with AVX2). Each element of C is one chain of multiply-adds over k = 0, 1, 2, ...,
// whatever the tile, the block, the number of rows and the number of threads; so Exact mode
// costs nothing here, and a row alone has the bits of the row in a batch. The instruction
// sets differ from each other by rounding: a device has one, chosen when it is made. A key or
// value that a row may not see does not touch the row, not even as NaN.
//
// The tiles and the loops over rows are Go assembler that gen writes; plain Go takes their
// place on other machines, and is what the tests of every machine also run.
//
// It is not a BLAS: shapes, layouts and strides are those that the engine needs.
//
// Read next: product.go, then attention.go.
package host

//go:generate go run ./gen
