package main

import (
	"fmt"
	"strconv"
)

// mebibytes is a flag's amount of memory.
type mebibytes int64

// mostMebibytes is a pebibyte: more is a typing error, and its bytes may be no number.
const mostMebibytes mebibytes = 1 << 30

// bytes is the amount in bytes.
func (m mebibytes) bytes() int64 { return int64(m) << 20 }

// String is the number that Set takes.
func (m *mebibytes) String() string { return strconv.FormatInt(int64(*m), 10) }

// Set reads a whole number from 0 to mostMebibytes.
func (m *mebibytes) Set(text string) error {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 || mebibytes(n) > mostMebibytes {
		return fmt.Errorf("write whole MiB, from 0 to %d", mostMebibytes)
	}
	*m = mebibytes(n)
	return nil
}
