//go:build !linux

package cuda

import "errors"

func dlopen(string) (uintptr, error) { return 0, errors.New("the CUDA device is for Linux") }
