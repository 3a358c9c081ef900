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

func (o *Object) sum() audit.Digest {
	if d := o.digest.Load(); d != nil {
		return *d
	}
	return new(hasher).object(o)
}

func (a *Array) sum() audit.Digest {
	if d := a.digest.Load(); d != nil {
		return *d
	}
	return new(hasher).array(a)
}

// hasher holds the preimages of the containers that are being hashed, the inner
// ones on top of the outer ones, in one buffer.
type hasher struct{ b []byte }

// keep hashes the preimage from start on, drops it and keeps the digest at at.
func (h *hasher) keep(start int, at *atomic.Pointer[audit.Digest]) audit.Digest {
	d := new(audit.Digest)
	*d = sha256.Sum256(h.b[start:])
	h.b = h.b[:start]
	at.Store(d)
	return *d
}

func (h *hasher) begin(tag byte, n int) (start int) {
	if h.b == nil {
		h.b = make([]byte, 0, 2048)
	}
	start = len(h.b)
	h.b = binary.AppendUvarint(append(h.b, tag), uint64(n))
	return start
}

func (h *hasher) object(o *Object) audit.Digest {
	if o.root != nil {
		start := h.begin(tagWide, o.size)
		d := h.node(o.root)
		h.b = append(h.b, d[:]...)
		return h.keep(start, &o.digest)
	}
	start := h.begin(tagObject, o.size)
	var order [smallMax]uint8
	for i := range o.keys {
		j := i
		for ; j > 0 && o.keys[order[j-1]] > o.keys[i]; j-- {
			order[j] = order[j-1]
		}
		order[j] = uint8(i)
	}
	for _, i := range order[:len(o.keys)] {
		h.b = appendText(h.b, o.keys[i])
		h.member(o.vals[i])
	}
	return h.keep(start, &o.digest)
}

func (h *hasher) array(a *Array) audit.Digest {
	start := h.begin(tagArray, len(a.vals))
	for _, v := range a.vals {
		h.member(v)
	}
	return h.keep(start, &a.digest)
}

func (h *hasher) node(n *node) audit.Digest {
	if d := n.digest.Load(); d != nil {
		return *d
	}
	if n.kids == nil {
		start := h.begin(tagLeaf, len(n.leaf))
		for i := range n.leaf {
			h.b = appendText(h.b, n.leaf[i].key)
			h.member(n.leaf[i].val)
		}
		return h.keep(start, &n.digest)
	}
	start := h.begin(tagBranch, int(n.bitmap))
	for _, kid := range n.kids {
		d := h.node(kid)
		h.b = append(h.b, d[:]...)
	}
	return h.keep(start, &n.digest)
}

// member appends a scalar as itself and a container as its digest.
func (h *hasher) member(v starlark.Value) {
	switch v := v.(type) {
	case *Object:
		h.nested(tagObject, v.digest.Load(), func() audit.Digest { return h.object(v) })
	case *Array:
		h.nested(tagArray, v.digest.Load(), func() audit.Digest { return h.array(v) })
	default:
		h.b = appendScalar(h.b, v)
	}
}

func (h *hasher) nested(tag byte, kept *audit.Digest, compute func() audit.Digest) {
	var d audit.Digest
	if kept != nil {
		d = *kept
	} else {
		d = compute()
	}
	h.b = append(append(h.b, tag), d[:]...)
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
