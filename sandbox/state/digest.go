package state

import (
	"crypto/sha256"
	"encoding/binary"
	"sync/atomic"

	"go.starlark.net/starlark"

	"understudy/audit"
)

// The type tags of a digest's preimage. Tag ‖ length ‖ content is injective.
const (
	tagNone   = 'n'
	tagFalse  = 'f'
	tagTrue   = 't'
	tagInt    = 'i'
	tagFloat  = 'd'
	tagString = 's'
	tagArray  = 'a'
	tagObject = 'o'
	tagWide   = 'w'
	tagLeaf   = 'l'
	tagBranch = 'b'
)

// Digest is the SHA-256 of a frozen value: a function of the value alone, not of
// key order and not of how it came about. Every container keeps its own, so that
// after a call only the written path is hashed again.
func Digest(v starlark.Value) audit.Digest {
	switch v := v.(type) {
	case *Object:
		return v.sum()
	case *Array:
		return v.sum()
	}
	return sha256.Sum256(appendScalar(nil, v))
}

// seal keeps a node's digest once it is known. Goroutines that share a node may
// all compute it; the first to finish keeps it.
type seal struct {
	state  atomic.Uint32
	digest audit.Digest // written before state is sealed, read after
}

const (
	sealing = iota + 1
	sealed
)

// load returns the kept digest, or nil.
func (s *seal) load() *audit.Digest {
	if s.state.Load() == sealed {
		return &s.digest
	}
	return nil
}

// keep hashes a preimage and keeps its digest.
func (s *seal) keep(preimage []byte) audit.Digest {
	d := audit.Digest(sha256.Sum256(preimage))
	if s.state.CompareAndSwap(0, sealing) {
		s.digest = d
		s.state.Store(sealed)
	}
	return d
}

// preimageBytes holds the preimage of a full branch, and of most objects; larger
// ones go to the heap.
const preimageBytes = 640

func (o *Object) sum() audit.Digest {
	if d := o.digest.load(); d != nil {
		return *d
	}
	var scratch [preimageBytes]byte
	b := scratch[:0]
	if o.root != nil {
		d := o.root.sum()
		return o.digest.keep(append(begin(b, tagWide, o.size), d[:]...))
	}
	b = begin(b, tagObject, o.size)
	names := o.byName()
	for _, i := range names[:len(o.keys)] {
		b = appendCell(appendText(b, o.keys[i]), o.vals[i], hashed(o.vals[i]))
	}
	return o.digest.keep(b)
}

func (a *Array) sum() audit.Digest {
	if d := a.digest.load(); d != nil {
		return *d
	}
	var scratch [preimageBytes]byte
	b := begin(scratch[:0], tagArray, len(a.vals))
	for _, v := range a.vals {
		b = appendCell(b, v, hashed(v))
	}
	return a.digest.keep(b)
}

func (n *node) sum() audit.Digest {
	if d := n.digest.load(); d != nil {
		return *d
	}
	var scratch [preimageBytes]byte
	b := scratch[:0]
	if n.kids == nil {
		b = begin(b, tagLeaf, len(n.leaf))
		for i := range n.leaf {
			e := &n.leaf[i]
			b = appendCell(appendText(b, e.key), e.val, hashed(e.val))
		}
		return n.digest.keep(b)
	}
	b = begin(b, tagBranch, int(n.bitmap))
	for _, kid := range n.kids {
		d := kid.sum()
		b = append(b, d[:]...)
	}
	return n.digest.keep(b)
}

// nested is the digest of a container inside another; tag 0 stands for a scalar.
type nested struct {
	tag    byte
	digest audit.Digest
}

func hashed(v starlark.Value) nested {
	switch v := v.(type) {
	case *Object:
		return nested{tagObject, v.sum()}
	case *Array:
		return nested{tagArray, v.sum()}
	}
	return nested{}
}

func begin(b []byte, tag byte, n int) []byte {
	return binary.AppendUvarint(append(b, tag), uint64(n))
}

// appendCell appends a scalar as itself and a container as its digest. It takes no
// part in the recursion, so that the preimages can stay on the stack.
func appendCell(b []byte, v starlark.Value, n nested) []byte {
	if n.tag == 0 {
		return appendScalar(b, v)
	}
	return append(append(b, n.tag), n.digest[:]...)
}

func appendText[T string | []byte](b []byte, s T) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

func appendScalar(b []byte, v starlark.Value) []byte {
	switch v := v.(type) {
	case starlark.Bool:
		if v {
			return append(b, tagTrue)
		}
		return append(b, tagFalse)
	case starlark.Int:
		var text [32]byte
		return appendText(append(b, tagInt), appendInt(text[:0], v))
	case starlark.Float:
		var text [32]byte
		return appendText(append(b, tagFloat), appendFloat(text[:0], float64(v)+0)) // + 0: there is one zero
	case starlark.String:
		return appendText(append(b, tagString), string(v))
	}
	return append(b, tagNone)
}
