package audit

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
)

// Fingerprint names one kind of difference for known issues and code scanning:
// 128 bits of SHA-256 over the length-prefixed parts, in hexadecimal. It holds
// no run, pair or value, so that it stays the same from run to run.
func Fingerprint(tool, pattern, kind string) string {
	h := sha256.New()
	var length [8]byte
	for _, part := range []string{tool, pattern, kind} {
		binary.BigEndian.PutUint64(length[:], uint64(len(part)))
		h.Write(length[:])
		h.Write([]byte(part))
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}
