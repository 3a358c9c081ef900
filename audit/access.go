package audit

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"slices"
	"time"
)

// Role is what somebody may do with a service.
type Role string

// The roles, each with all rights of the ones before it.
const (
	ReaderRole  Role = "reader"  // reads everything
	AuditorRole Role = "auditor" // asks for audits, scores and gates, and marks calls
	AdminRole   Role = "admin"   // gives and revokes tokens
)

// Roles lists every role, least rights first.
func Roles() []Role { return []Role{ReaderRole, AuditorRole, AdminRole} }

// May reports whether the role has the rights of another one.
func (r Role) May(needed Role) bool {
	have := slices.Index(Roles(), r)
	return have >= 0 && have >= slices.Index(Roles(), needed)
}

// Token is a bearer token as the ledger keeps it: never the text, only its hash.
type Token struct {
	ID      int       `json:"id"`
	Name    string    `json:"name"` // of the person or program that holds it; unique among live ones
	Role    Role      `json:"role"`
	Created time.Time `json:"created"`
	Expires time.Time `json:"expires,omitzero"` // zero = never
	Revoked time.Time `json:"revoked,omitzero"`
}

// tokenPrefix makes a leaked token recognisable to scanners and to people.
const tokenPrefix = "understudy_"

// NewSecret makes a token's text: 256 random bits, so that a plain SHA-256 of
// it is enough to keep.
func NewSecret() string {
	var bits [32]byte
	_, _ = rand.Read(bits[:]) // never fails: the program ends first
	return tokenPrefix + base64.RawURLEncoding.EncodeToString(bits[:])
}

// SecretHash is what is kept of a secret.
func SecretHash(secret string) Digest { return sha256.Sum256([]byte(secret)) }
