package outbound_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"

	"understudy/audit"
	"understudy/web/outbound"
)

func TestAddressesByNumber(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		url, allow string
		want       audit.Code
		reason     string
	}{
		{"https://93.184.215.14/x", "", "", "a public address"},
		{"https://[2606:2800:21f:cb07:6820:80da:af6b:8b2c]/x", "", "", "a public address of IPv6"},
		{"https://hooks.example/x", "", "", "a name is checked when it is dialled"},
		{"http://127.0.0.1:9/", "", audit.CodeForbidden, "this machine"},
		{"http://localhost:9/", "", audit.CodeForbidden, "this machine by name"},
		{"http://[::1]:9/", "", audit.CodeForbidden, "this machine, IPv6"},
		{"http://127.0.0.1:9/", "127.0.0.1", "", "this machine, allowed"},
		{"http://10.1.2.3/", "", audit.CodeForbidden, "a private network"},
		{"http://10.1.2.3/", "10.0.0.0/8", "", "a private network, allowed"},
		{"http://10.1.2.3/", "10.9.0.0/16", audit.CodeForbidden, "another network is allowed"},
		{"http://192.168.0.1/", "", audit.CodeForbidden, "a private network"},
		{"http://172.31.0.1/", "", audit.CodeForbidden, "a private network"},
		{"http://[fd12::1]/", "", audit.CodeForbidden, "a private network, IPv6"},
		{"http://100.64.0.1/", "", audit.CodeForbidden, "a carrier's network"},
		{"http://169.254.169.254/latest/meta-data", "", audit.CodeForbidden, "metadata of a cloud"},
		{"http://[fd00:ec2::254]/", "", audit.CodeForbidden, "metadata, IPv6"},
		{"http://100.100.100.200/", "", audit.CodeForbidden, "metadata of another cloud"},
		{"http://[::ffff:169.254.169.254]/", "", audit.CodeForbidden, "an IPv4 address in IPv6"},
		{"http://[64:ff9b::a9fe:a9fe]/", "", audit.CodeForbidden, "the same behind NAT64"},
		{"http://[2002:7f00:1::]/", "", audit.CodeForbidden, "127.0.0.1 by 6to4"},
		{"http://[fe80::1%25eth0]/", "", audit.CodeForbidden, "link-local with a zone"},
		{"http://0.0.0.0/", "", audit.CodeForbidden, "unspecified, which many systems take for this machine"},
		{"http://[::]/", "", audit.CodeForbidden, "unspecified"},
		{"http://224.0.0.1/", "", audit.CodeForbidden, "multicast"},
		{"file:///etc/passwd", "", audit.CodeInvalid, "no HTTP"},
		{"gopher://127.0.0.1/", "", audit.CodeInvalid, "no HTTP"},
		{"https:///x", "", audit.CodeInvalid, "no host"},
	} {
		allowed, err := outbound.Allow(row.allow)
		if err != nil {
			t.Fatal(err)
		}
		if got := audit.ErrorCode(outbound.Rules{Allowed: allowed}.Check(row.url)); got != row.want {
			t.Errorf("%s (%s): got %q, want %q", row.url, row.reason, got, row.want)
		}
	}
	if _, err := outbound.Allow("10.0.0.0/8, nonsense"); err == nil {
		t.Error("a list with nonsense was read")
	}
}

// TestDialledAddressesAndRedirects asks servers of this machine: what was typed is
// reached, and nothing else, whatever name it is called by or redirected from.
func TestDialledAddressesAndRedirects(t *testing.T) {
	t.Parallel()
	inner := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) }))
	defer inner.Close()
	outer := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/loop" {
			http.Redirect(w, r, "/loop", http.StatusTemporaryRedirect)
			return
		}
		if r.URL.Path == "/inner" {
			http.Redirect(w, r, inner.URL, http.StatusTemporaryRedirect)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	}))
	defer outer.Close()
	typed, err := url.Parse(outer.URL)
	if err != nil {
		t.Fatal(err)
	}
	named := "http://localhost:" + typed.Port()
	loopback, err := outbound.Allow("127.0.0.0/8,::1")
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		rules  outbound.Rules
		url    string
		status int // 0 = refused
		reason string
	}{
		{outbound.Rules{Typed: typed}, outer.URL, http.StatusNoContent, "the operator's own words"},
		{outbound.Rules{}, outer.URL, 0, "somebody else's"},
		{outbound.Rules{}, named, 0, "a name that resolves to this machine, as one that is bound anew does"},
		{outbound.Rules{Typed: typed}, named, 0, "the typed address by another name"},
		{outbound.Rules{Typed: typed}, outer.URL + "/inner", 0, "the typed server redirects to another one inside"},
		{outbound.Rules{Allowed: loopback}, outer.URL + "/inner", http.StatusTeapot, "both are allowed"},
		{outbound.Rules{Allowed: loopback}, named, http.StatusNoContent, "allowed by number, asked by name"},
		{outbound.Rules{Typed: typed}, outer.URL + "/loop", 0, "a circle of redirects"},
	} {
		client := outbound.Client(row.rules)
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, row.url, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		res, err := client.Do(req)
		if row.status == 0 {
			if refusal, ok := errors.AsType[*audit.Error](err); !ok || refusal.Code != audit.CodeForbidden {
				t.Errorf("%s: got %v, want it refused", row.reason, err)
			}
		} else if err != nil || res.StatusCode != row.status {
			t.Errorf("%s: got %v, %v, want %d", row.reason, res, err, row.status)
		}
		if err == nil {
			_ = res.Body.Close()
		}
		client.CloseIdleConnections()
	}
}
