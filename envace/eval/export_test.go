package eval

import "os"

// Swap has a book write to another file, and gives the one before.
func (b *Book) Swap(file *os.File) (before *os.File) {
	before, b.file = b.file, file
	return before
}
