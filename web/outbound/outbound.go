// Package outbound makes HTTP clients that cannot be led into a network that
// their caller did not mean (server-side request forgery). Addresses are checked
// when they are dialled, after the name was resolved, so that a name which is
// bound anew between check and use gains nothing; redirects are dialled, and so
// checked, like everything else.
//
//	what                                      a typed address   any other   --outbound-allow
//	public                                    yes               yes         yes
//	loopback, private, carrier's              yes               no          if listed
//	link-local, metadata, multicast, special  no                no          if listed
//
// A typed address is one that the operator wrote on the command line, such as
// --policy http://127.0.0.1:8000/v1; what it redirects to is not.
package outbound

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"syscall"
	"time"

	"golang.org/x/net/http/httpproxy"

	"understudy/audit"
)

// Rules say what a client may reach beyond public addresses.
type Rules struct {
	Typed   *url.URL       // the operator's own words; nil = none
	Allowed []netip.Prefix // may be reached whatever they are
}

// maxRedirects is what browsers' libraries use at least.
const maxRedirects = 5

// Client returns a client that keeps the rules. Its connections are its own.
func Client(rules Rules) *http.Client {
	proxies := proxyHosts()
	transport := &http.Transport{
		Proxy: http.ProxyFromEnvironment, ForceAttemptHTTP2: true, MaxIdleConnsPerHost: 64,
		IdleConnTimeout: 90 * time.Second, TLSHandshakeTimeout: 10 * time.Second, ExpectContinueTimeout: time.Second,
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			typed := proxies[address] || rules.typed(address)
			dialer := net.Dialer{
				Timeout: 30 * time.Second, KeepAlive: 30 * time.Second,
				Control: func(_, resolved string, _ syscall.RawConn) error { return rules.check(address, resolved, typed) },
			}
			return dialer.DialContext(ctx, network, address)
		},
	}
	return &http.Client{Transport: literal{rules, transport}, CheckRedirect: func(req *http.Request, via []*http.Request) error {
		if len(via) >= maxRedirects {
			return refused(req.URL.Host, "it redirects again and again")
		}
		if via[0].URL.Scheme == "https" && req.URL.Scheme != "https" {
			return refused(req.URL.Host, "a redirect from https to "+req.URL.Scheme)
		}
		return nil
	}}
}

// literal checks addresses that are written as numbers before a proxy is asked
// for them: the proxy dials, then, and nobody checks what.
type literal struct {
	rules Rules
	next  *http.Transport
}

// RoundTrip implements http.RoundTripper.
func (l literal) RoundTrip(r *http.Request) (*http.Response, error) {
	if _, err := netip.ParseAddr(r.URL.Hostname()); err == nil {
		address := hostPort(r.URL)
		if err := l.rules.check(r.URL.Host, address, l.rules.typed(address)); err != nil {
			return nil, err
		}
	}
	return l.next.RoundTrip(r)
}

// CloseIdleConnections lets http.Client close them.
func (l literal) CloseIdleConnections() { l.next.CloseIdleConnections() }

// typed reports whether an address is the operator's own.
func (r Rules) typed(address string) bool { return r.Typed != nil && address == hostPort(r.Typed) }

// check decides about one resolved address.
func (r Rules) check(asked, resolved string, typed bool) error {
	host, _, err := net.SplitHostPort(resolved)
	if err != nil {
		return refused(asked, "no address")
	}
	ip, err := netip.ParseAddr(host)
	if err != nil {
		return refused(asked, "no address")
	}
	for _, p := range r.Allowed {
		if p.Contains(ip.Unmap().WithZone("")) {
			return nil
		}
	}
	kind := kindOf(ip)
	if kind == public || kind == internal && typed {
		return nil
	}
	return refused(asked, "the address "+ip.String()+" is "+string(kind))
}

// Check reports what a URL says already: a scheme that is not HTTP's, no host, or
// an address in numbers that must not be reached. A name is checked when dialled.
func (r Rules) Check(text string) error {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return &audit.Error{Code: audit.CodeInvalid, Message: "the URL is no HTTP address", Hint: "write https://host/path"}
	}
	if _, err := netip.ParseAddr(u.Hostname()); err != nil {
		if strings.EqualFold(u.Hostname(), "localhost") {
			return r.check(u.Host, "127.0.0.1:0", false)
		}
		return nil
	}
	return r.check(u.Host, hostPort(u), false)
}

func refused(asked, why string) error {
	return &audit.Error{
		Code: audit.CodeForbidden, Message: "not connected to " + asked + ": " + why,
		Hint: "if it is yours and meant, list it: --outbound-allow 10.0.0.0/8",
	}
}

// Allow reads a list of addresses and networks, separated by commas.
func Allow(list string) ([]netip.Prefix, error) {
	var all []netip.Prefix
	for _, part := range strings.FieldsFunc(list, func(r rune) bool { return r == ',' || r == ' ' }) {
		if ip, err := netip.ParseAddr(part); err == nil {
			all = append(all, netip.PrefixFrom(ip.Unmap(), ip.Unmap().BitLen()))
			continue
		}
		p, err := netip.ParsePrefix(part)
		if err != nil {
			return nil, fmt.Errorf("%q is no address and no network such as 10.0.0.0/8", part)
		}
		all = append(all, p.Masked())
	}
	return all, nil
}

func hostPort(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	return net.JoinHostPort(u.Hostname(), port)
}

// proxyHosts are the proxies of this process's environment: the operator's words.
func proxyHosts() map[string]bool {
	hosts := map[string]bool{}
	env := httpproxy.FromEnvironment()
	for _, text := range []string{env.HTTPProxy, env.HTTPSProxy} {
		if text != "" && !strings.Contains(text, "://") {
			text = "http://" + text
		}
		if u, err := url.Parse(text); err == nil && u.Host != "" {
			hosts[hostPort(u)] = true
		}
	}
	return hosts
}
