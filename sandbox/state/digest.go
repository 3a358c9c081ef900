package state

import (
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"strings"
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

// room holds the preimage of a typical container on the stack.
type room [1024]byte

func (o *Object) sum() audit.Digest {
	if d := o.digest.Load(); d != nil {
		return *d
	}
	var r room
	return keep(&o.digest, o.preimage(r[:0]))
}

func (a *Array) sum() audit.Digest {
	if d := a.digest.Load(); d != nil {
		return *d
	}
	var r room
	return keep(&a.digest, a.preimage(r[:0]))
}

func (n *node) sum() audit.Digest {
	if d := n.digest.Load(); d != nil {
		return *d
	}
	var r room
	return keep(&n.digest, n.preimage(r[:0]))
}

func keep(at *atomic.Pointer[audit.Digest], preimage []byte) audit.Digest {
	d := audit.Digest(sha256.Sum256(preimage))
	at.Store(&d)
	return d
}

func (o *Object) preimage(b []byte) []byte {
	if o.root != nil {
		b = binary.AppendUvarint(append(b, tagWide), uint64(o.size))
		d := o.root.sum()
		return append(b, d[:]...)
	}
	b = binary.AppendUvarint(append(b, tagObject), uint64(o.size))
	order := make([]int, len(o.keys), smallMax)
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(i, j int) int { return strings.Compare(o.keys[i], o.keys[j]) })
	for _, i := range order {
		b = appendMember(appendText(b, o.keys[i]), o.vals[i])
	}
	return b
}

func (a *Array) preimage(b []byte) []byte {
	b = binary.AppendUvarint(append(b, tagArray), uint64(len(a.vals)))
	for _, v := range a.vals {
		b = appendMember(b, v)
	}
	return b
}

func (n *node) preimage(b []byte) []byte {
	if n.kids == nil {
		b = binary.AppendUvarint(append(b, tagLeaf), uint64(len(n.leaf)))
		for i := range n.leaf {
			b = appendMember(appendText(b, n.leaf[i].key), n.leaf[i].val)
		}
		return b
	}
	b = binary.BigEndian.AppendUint16(append(b, tagBranch), n.bitmap)
	for _, kid := range n.kids {
		d := kid.sum()
		b = append(b, d[:]...)
	}
	return b
}

// appendMember appends a scalar as itself and a container as its digest.
func appendMember(b []byte, v starlark.Value) []byte {
	switch v := v.(type) {
	case *Object:
		d := Digest(v)
		return append(append(b, tagObject), d[:]...)
	case *Array:
		d := Digest(v)
		return append(append(b, tagArray), d[:]...)
	}
	return appendScalar(b, v)
}

func appendText(b []byte, s string) []byte {
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
		return appendText(append(b, tagInt), v.String())
	case starlark.Float:
		return appendText(append(b, tagFloat), FloatText(float64(v)+0)) // + 0: there is one zero
	case starlark.String:
		return appendText(append(b, tagString), string(v))
	}
	return append(b, tagNone)
}
