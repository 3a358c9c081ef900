package cuda

// blas is cuBLASLt.
type blas struct{}

func openBLAS(*thread, []string, *arena) (*blas, error) { return nil, nil }

func (b *blas) multiply(stream uintptr, c *command) error { return nil }

func (b *blas) close() {}
