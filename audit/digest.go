package audit

import (
	"bytes"
	"encoding/hex"
	"fmt"
)

// Digest is a SHA-256 of canonical content. The zero value means "not known".
type Digest [32]byte

// Compare orders digests by their bytes.
func (d Digest) Compare(o Digest) int { return bytes.Compare(d[:], o[:]) }

// IsZero reports whether the digest is unknown.
func (d Digest) IsZero() bool { return d == Digest{} }

// String is the lower-case hexadecimal form, or "" for the zero value.
func (d Digest) String() string {
	if d.IsZero() {
		return ""
	}
	return hex.EncodeToString(d[:])
}

// MarshalText implements encoding.TextMarshaler.
func (d Digest) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (d *Digest) UnmarshalText(text []byte) error {
	if len(text) == 0 {
		*d = Digest{}
		return nil
	}
	if hex.DecodedLen(len(text)) != len(d) {
		return fmt.Errorf("digest %q: want %d hexadecimal digits", text, hex.EncodedLen(len(d)))
	}
	if _, err := hex.Decode(d[:], text); err != nil {
		return fmt.Errorf("digest %q: %w", text, err)
	}
	return nil
}
