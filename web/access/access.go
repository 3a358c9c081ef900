// Package access decides who may do what with the service: bearer tokens for
// programs, session cookies for browsers, three roles. It knows no page and no
// store.
//
// A service that nobody gave a token yet is open to this machine alone: a
// request over a loopback connection, addressed to a loopback name (which a web
// site that rebinds its name cannot fake) and not passed on by a proxy, is an
// admin's. The first token closes it for everybody, and for good: when it expires or
// is revoked, nobody is let in until somebody with the ledger makes another.
package access

import (
	"context"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/gin-gonic/gin"

	"understudy/audit"
)

const (
	// Cookie carries a browser's session.
	Cookie = "understudy_session"
	// sessionLength is how long a browser stays signed in: a working week.
	sessionLength = 7 * 24 * time.Hour
	identityKey   = "understudy.identity"
)

// Keys keeps tokens and sessions. What is not there, revoked or expired is an
// *audit.Error with CodeUnauthorized.
type Keys interface {
	// HasToken reports whether a token was ever made, whatever became of it.
	HasToken(ctx context.Context) (bool, error)
	// Token finds a live token by the hash of its text.
	Token(ctx context.Context, hash audit.Digest) (audit.Token, error)
	// OpenSession lets the holder of a token in by another secret until it expires.
	OpenSession(ctx context.Context, session audit.Digest, token int, expires time.Time) error
	// Session finds the live token behind a live session.
	Session(ctx context.Context, session audit.Digest) (audit.Token, error)
	// CloseSession ends a session; one that is not there is no error.
	CloseSession(ctx context.Context, session audit.Digest) error
}

// Identity is who makes a request.
type Identity struct {
	Name  string
	Role  audit.Role
	Open  bool // nobody signed in: the service is open to this machine
	Token int  // its id; 0 = none
}

// Guard identifies requests. A Guard without Keys lets everybody do everything,
// for tests and for handlers behind somebody else's door.
type Guard struct {
	Keys   Keys
	Now    func() time.Time // nil = time.Now
	Limits Limits

	once    sync.Once
	limiter *limiter // made by memory
}

func (g *Guard) now() time.Time {
	if g.Now == nil {
		return time.Now()
	}
	return g.Now()
}

// Identify notes who makes a request; nobody is an identity without a role.
// An error of the store ends the request through fail.
func (g *Guard) Identify(fail func(*gin.Context, error)) gin.HandlerFunc {
	return func(c *gin.Context) {
		id, err := g.identify(c.Request)
		if err != nil && audit.ErrorCode(err) != audit.CodeUnauthorized {
			fail(c, err)
			return
		}
		c.Set(identityKey, id)
	}
}

func (g *Guard) identify(r *http.Request) (Identity, error) {
	if g.Keys == nil {
		return Identity{Name: "everybody", Role: audit.AdminRole, Open: true}, nil
	}
	ctx := r.Context()
	if secret, ok := bearer(r); ok {
		token, err := g.token(r, secret)
		return identityOf(token), err
	}
	if cookie, err := r.Cookie(Cookie); err == nil && cookie.Value != "" {
		token, err := g.Keys.Session(ctx, audit.SecretHash(cookie.Value))
		if audit.ErrorCode(err) != audit.CodeUnauthorized {
			return identityOf(token), err
		}
	}
	if !local(r) {
		return Identity{}, nil
	}
	closed, err := g.Keys.HasToken(ctx)
	if err != nil || closed {
		return Identity{}, err
	}
	return Identity{Name: "this machine", Role: audit.AdminRole, Open: true}, nil
}

// token looks a secret up, unless somebody guesses.
func (g *Guard) token(r *http.Request, secret string) (audit.Token, error) {
	hash := audit.SecretHash(secret)
	if err := g.guessing(r, hash); err != nil {
		return audit.Token{}, err
	}
	token, err := g.Keys.Token(r.Context(), hash)
	g.guessed(r, hash, err)
	return token, err
}

// Still reports whether whoever makes a request has a role now: an answer that
// goes on for hours asks again, because tokens are revoked meanwhile.
func (g *Guard) Still(r *http.Request, role audit.Role) bool {
	id, err := g.identify(r)
	return err == nil && id.Role.May(role)
}

func identityOf(t audit.Token) Identity { return Identity{Name: t.Name, Role: t.Role, Token: t.ID} }

// bearer reads the Authorization header.
func bearer(r *http.Request) (string, bool) {
	scheme, secret, ok := strings.Cut(r.Header.Get("Authorization"), " ")
	return strings.TrimSpace(secret), ok && strings.EqualFold(scheme, "bearer")
}

// local reports whether a request was made on this machine, to this machine,
// by itself.
func local(r *http.Request) bool {
	for _, passedOn := range []string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Real-Ip", "Via"} {
		if r.Header.Get(passedOn) != "" {
			return false
		}
	}
	peer, _, err := net.SplitHostPort(r.RemoteAddr)
	return err == nil && IsLoopback(peer) && IsLoopback(hostOf(r.Host))
}

func hostOf(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		return name
	}
	return strings.Trim(host, "[]")
}

// IsLoopback reports whether a host name or address can only be this machine.
func IsLoopback(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}

// Of is who makes the request, as Identify noted it.
func Of(c *gin.Context) Identity {
	id, _ := c.Get(identityKey)
	identity, _ := id.(Identity)
	return identity
}

// Require ends requests of those who lack a role, through fail.
func Require(role audit.Role, fail func(*gin.Context, error)) gin.HandlerFunc {
	return func(c *gin.Context) {
		switch id := Of(c); {
		case id.Role == "":
			fail(c, &audit.Error{
				Code: audit.CodeUnauthorized, Message: "sign in first",
				Hint: "send a token as Authorization: Bearer TOKEN; understudy token add makes one",
			})
		case !id.Role.May(role):
			fail(c, &audit.Error{
				Code: audit.CodeForbidden, Message: "this needs the role " + string(role) + ", " + id.Name + " is " + string(id.Role),
				Hint: "ask an admin for a token with that role",
			})
		default:
			trust(c)
		}
	}
}

// ThisMachine ends requests that were not made on this machine, to it and by itself:
// for what asks for no token.
func ThisMachine(fail func(*gin.Context, error)) gin.HandlerFunc {
	return func(c *gin.Context) {
		if !local(c.Request) {
			fail(c, &audit.Error{
				Code: audit.CodeForbidden, Message: "without a token this machine alone may ask, by a loopback name and not through a proxy",
				Hint: "behind a proxy of yours start it with --behind-proxy: then it asks for tokens",
			})
			return
		}
		trust(c)
	}
}

// SignIn exchanges a token's text for a session cookie.
func (g *Guard) SignIn(c *gin.Context, secret string) error {
	if g.Keys == nil {
		return nil
	}
	token, err := g.token(c.Request, strings.TrimSpace(secret))
	if err != nil {
		return err
	}
	session, expires := audit.NewSecret(), g.now().Add(sessionLength)
	if !token.Expires.IsZero() && token.Expires.Before(expires) {
		expires = token.Expires
	}
	if err := g.Keys.OpenSession(c.Request.Context(), audit.SecretHash(session), token.ID, expires); err != nil {
		return err
	}
	http.SetCookie(c.Writer, cookie(c.Request, session, int(expires.Sub(g.now()).Seconds())))
	return nil
}

// SignOut ends a browser's session.
func (g *Guard) SignOut(c *gin.Context) error {
	had, err := c.Request.Cookie(Cookie)
	http.SetCookie(c.Writer, cookie(c.Request, "", -1))
	if err != nil || g.Keys == nil {
		return nil //nolint:nilerr // a browser without the cookie is out already
	}
	return g.Keys.CloseSession(c.Request.Context(), audit.SecretHash(had.Value))
}

func cookie(r *http.Request, value string, age int) *http.Cookie {
	return &http.Cookie{
		Name: Cookie, Value: value, Path: "/", MaxAge: age, HttpOnly: true,
		Secure:   r.TLS != nil || r.Header.Get("X-Forwarded-Proto") == "https",
		SameSite: http.SameSiteLaxMode, // a link from a chat still opens signed in
	}
}
