package main_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"understudy/audit"
	"understudy/audit/ledger"
)

// declarations is the file that README's section for environment authors shows.
func declarations(t *testing.T) string {
	t.Helper()
	path, err := filepath.Abs("../../sandbox/mount/testdata/environments.yaml")
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("SHOP_TOKEN", "secret-of-the-shop")
	return path
}

func toolCall(tool, arguments string) audit.Call {
	return audit.Call{Tool: tool, Arguments: json.RawMessage(arguments)}
}

// A researcher brings environments and trajectories: a database-backed MCP
// server, an EnvScaler-style class and a BFCL-style one are audited, and what
// their contracts say is in the ledger.
func TestAuditOfDeclaredEnvironments(t *testing.T) {
	d := newDesk(t)
	d.env["UNDERSTUDY_ENVIRONMENTS"] = declarations(t)
	for name, row := range map[string]struct {
		calls   []audit.Call
		answers []string
	}{
		"shop": {
			[]audit.Call{toolCall("get_wallet", `{"owner":"ann"}`), toolCall("cancel_order", `{"order_id":"W3","reason":"mistake"}`), toolCall("cancel_order", `{"order_id":"W2","reason":"mistake"}`)},
			[]string{`{"owner":"ann","cents":100}`, `{"order_id":"W3","status":"cancelled","refund":9007199254740993}`, `{"order_id":"W2","status":"cancelled","refund":900}`},
		},
		"library": {
			[]audit.Call{toolCall("find_book", `{"book_id":"b1"}`), toolCall("lend", `{"book_id":"b1","member":"ann"}`), toolCall("lend", `{"book_id":"b2","member":"ann"}`)},
			[]string{`{"success":true,"data":{"title":"Dune","copies":1,"book_id":"b1"}}`, `{"success":true,"message":"lent to ann"}`, `{"success":true,"message":"lent to ann"}`},
		},
		"parking": {
			[]audit.Call{toolCall("look", `{"place":"a2"}`), toolCall("park", `{"place":"a1","car":"Fiat"}`), toolCall("park", `{"place":"a2","car":"Fiat"}`)},
			[]string{`{"place":"a2","car":"VW"}`, `{"parked":"Fiat"}`, `{"parked":"Fiat"}`},
		},
	} {
		file := d.write(name+".jsonl", chatLine("e1", row.calls, row.answers)+"\n")
		out := d.do(0, "audit", file, "--environment", name, "--mode", "forced", "--run", name)
		if strings.Contains(out, "secret-of-the-shop") {
			t.Errorf("%s: a secret is printed:\n%s", name, out)
		}
		rungs, _ := d.ladder(name)
		if rungs != [audit.Severities]int{audit.S0: 2, audit.S5: 1} {
			t.Errorf("%s: ladder %v, want two exact answers and one false success\n%s", name, rungs, out)
		}
	}
	live := d.do(0, "audit", "--policy", modelServer(t, alwaysOK), "--environment", "shop", "--tasks", "1", "--canaries", "5", "--run", "live")
	d.says(live, "cancel_order", "get_order")
	pool, err := pgxpool.New(t.Context(), d.env["UNDERSTUDY_DATABASE_URL"])
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	l, err := ledger.New(pool, ledger.Config{})
	if err != nil {
		t.Fatal(err)
	}
	contracts, err := l.Contracts(t.Context())
	if err != nil || len(contracts) != 3 {
		t.Fatalf("%d contracts in the ledger, %v; each environment was tested on connect", len(contracts), err)
	}
	for _, c := range contracts {
		if !c.OK() || c.Jail == "" || c.Adapter == "" || c.Tools == 0 || c.Checked.IsZero() {
			t.Errorf("contract %+v", c)
		}
	}
	if shop := contracts[2]; shop.Ref != "shop" || len(shop.Noise) != 1 || shop.Noise[0].Pattern != "/seen_at" {
		t.Errorf("the noise map of the shop: %+v", shop.Noise)
	}
}

func TestSandboxOfDeclaredEnvironments(t *testing.T) {
	file := declarations(t)
	settings := t.TempDir() + "/settings.yaml"
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	inOne := "listen: 127.0.0.1:0\n" + strings.ReplaceAll(string(text), "lending.py", filepath.Dir(file)+"/lending.py")
	if err := os.WriteFile(settings, []byte(inOne), 0o600); err != nil {
		t.Fatal(err)
	}
	bare := t.TempDir() + "/bare.yaml"
	text = fmt.Appendf(nil, "environments: {bare: {adapter: mcp-stdio, command: [python3, %q]}}", filepath.Dir(file)+"/shop_server.py")
	if err := os.WriteFile(bare, text, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		args   []string
		status int
		want   string
		reason string
	}{
		{[]string{"list", "--environments", file}, 0, "declared; mcp-stdio", "declared ones are listed first"},
		{[]string{"tools", "shop", "--environments", file}, 0, "cancel_order  write", "effects as declared"},
		{[]string{"call", "shop", "cancel_order", `{"order_id":"W1","reason":"x"}`, "--environments", file}, 0, `/orders/it/status "pending" → "cancelled"`, "probes show the change"},
		{[]string{"call", "shop", "cancel_order", `{"order_id":"W9","reason":"x"}`, "--environments", file}, 0, "refused not_found", "a refusal is an answer"},
		{[]string{"contract", "shop", "--environments", file}, 0, "noise get_order /seen_at", "the contract, with its noise map"},
		{[]string{"contract", "parking", "--environments", file}, 0, "WEAKER THAN ASKED: runs as root, because the class is a file", "what the jail does not hold"},
		{[]string{"check", "bare", "--environments", bare}, 0, "so its rules cannot be soaked", "nothing to soak is no failure"},
		{[]string{"call", "journey", "pass_gate", `{"car":"VW"}`, "--environments", file}, 0, `+ /TollGate/passed/0 "VW"`, "several classes are one world"},
		{[]string{"call", "bare", "cancel_order", `{"order_id":"W1","reason":"x"}`, "--environments", bare}, 0, "what it changed is not known", "nothing shows the state"},
		{[]string{"contract", "bare", "--environments", bare}, 0, "little could be tried: declare the effect of each tool", "what to declare"},
		{[]string{"tools", "library", "--config", settings}, 0, "lend", "declared in the file of settings"},
		{[]string{"schema"}, 0, "https://json-schema.org/draft/2020-12/schema", "for editors"},
		{[]string{"tools", "retail-mini", "--environments", "no.yaml"}, 3, "name an existing file", "a file that is not there"},
		{[]string{"tools", "shoop", "--environments", file}, 3, "shop", "the nearest names are the remedy"},
	} {
		if strings.HasPrefix(row.want, "WEAKER") && os.Geteuid() != 0 {
			continue // only root has that weakness
		}
		status, stdout, stderr := sandboxRun(t, "", row.args...)
		if status != row.status || !strings.Contains(stdout+stderr, row.want) {
			t.Errorf("%s: understudy sandbox %v: status %d\n%s%swant %q", row.reason, row.args, status, stdout, stderr, row.want)
		}
	}
}

// A declared environment can be tried by hand: one that takes no snapshots has no
// undo, and what a class breaks on is said.
func TestShellOfDeclaredEnvironments(t *testing.T) {
	dir := t.TempDir()
	class := "class Odd:\n    def stumble(self):\n        raise KeyError('over its own feet')\n"
	if err := os.WriteFile(dir+"/odd.py", []byte(class), 0o600); err != nil {
		t.Fatal(err)
	}
	odd := dir + "/odd.yaml"
	text := "environments: {odd: {adapter: python-class, kind: bfcl, class: Odd, file: odd.py, tools: {stumble: {input: {type: object}}}}}"
	if err := os.WriteFile(odd, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		name, file, lines string
		want              []string
	}{
		{"shop", declarations(t), "cancel_order order_id=W1 reason=mistake\nundo\n", []string{`"pending" → "cancelled"`, "shop has no snapshot"}},
		{"odd", odd, "stumble\n", []string{"fault: KeyError: 'over its own feet'"}},
	} {
		status, stdout, stderr := sandboxRun(t, row.lines, "shell", row.name, "--environments", row.file)
		for _, want := range row.want {
			if status != 0 || !strings.Contains(stdout, want) {
				t.Errorf("%s: status %d\n%s%swant %q", row.name, status, stdout, stderr, want)
			}
		}
	}
}

// An MCP client plays in a built-in domain, over stdin and stdout and over HTTP.
func TestServeMCP(t *testing.T) {
	dir := folder(t)
	client := sdk.NewClient(&sdk.Implementation{Name: "any"}, nil)
	play := func(name string, transport sdk.Transport) {
		session, err := client.Connect(t.Context(), transport, nil)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		defer func() { _ = session.Close() }()
		res, err := session.CallTool(t.Context(), &sdk.CallToolParams{Name: "get_user", Arguments: map[string]any{"user": "U1"}})
		if err != nil || res.IsError {
			t.Errorf("%s: %+v, %v", name, res, err)
		}
	}
	play("stdio", &sdk.CommandTransport{Command: program(t, dir, nil, "sandbox", "serve-mcp", "retail-mini@2")})
	piped := program(t, dir, nil, "sandbox", "serve-mcp", "retail-mini")
	piped.Stdin = strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"sh","version":"1"}}}
{"jsonrpc":"2.0","method":"notifications/initialized"}
{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"get_user","arguments":{"user":"U1"}}}
`)
	if out, err := piped.Output(); err != nil || !strings.Contains(string(out), `"id":2,"result"`) {
		t.Errorf("lines from a pipe that ends: got %q, %v, want the answer to the call", out, err)
	}
	cmd := program(t, dir, nil, "sandbox", "serve-mcp", "retail-mini", "--http", "127.0.0.1:0")
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var url string
	if _, err := fmt.Fscanf(stdout, "retail-mini as an MCP server: %s\n", &url); err != nil {
		t.Fatal(err)
	}
	idle := &http.Client{Transport: &http.Transport{}}
	play("http", &sdk.StreamableClientTransport{Endpoint: url, HTTPClient: idle})
	idle.CloseIdleConnections()
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("an interrupted server: %v", err)
	}
}

// Over HTTP this machine needs no token, by its own name and without a proxy; others need
// one of an auditor's, from the ledger that serve asks.
func TestServeMCPAsksForTokens(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	var env []string
	for name, value := range d.env {
		env = append(env, name+"="+value)
	}
	var stops []func()
	defer func() {
		for _, stop := range stops {
			stop()
		}
	}()
	start := func(first string, args ...string) (port, token string) {
		t.Helper()
		cmd := program(t, d.dir, env, append([]string{"sandbox", "serve-mcp", "retail-mini", "--http"}, args...)...)
		stdout, err := cmd.StdoutPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		stops = append(stops, func() {
			if err := errors.Join(cmd.Process.Signal(os.Interrupt), cmd.Wait()); err != nil {
				t.Errorf("serve-mcp %v, interrupted: %v", args, err)
			}
		})
		lines := bufio.NewScanner(stdout)
		if first != "" && lines.Scan() {
			if token, _ = strings.CutPrefix(lines.Text(), first); token == lines.Text() {
				t.Fatalf("serve-mcp %v begins with %q, want %q", args, lines.Text(), first)
			}
		}
		lines.Scan()
		_, port, err = net.SplitHostPort(lines.Text()[strings.LastIndex(lines.Text(), "/")+1:])
		if err != nil {
			t.Fatalf("serve-mcp %v says %q: %v", args, lines.Text(), err)
		}
		return port, token
	}
	initialize := func(port string, header map[string]string) int {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://127.0.0.1:"+port, strings.NewReader(
			`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`))
		if err != nil {
			t.Fatal(err)
		}
		req.Close = true
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Accept", "application/json, text/event-stream")
		for name, value := range header {
			req.Header.Set(name, value)
		}
		if host := header["Host"]; host != "" {
			req.Host = host
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
		return resp.StatusCode
	}
	here, _ := start("", "127.0.0.1:0")
	beyond, first := start("the first token, an admin's, shown this once: ", "0.0.0.0:0", "--behind-proxy")
	reader, _, _ := strings.Cut(d.do(0, "token", "add", "ro", "--role", "reader"), "\n")
	proxied, _ := start("", "127.0.0.1:0", "--behind-proxy")
	bearer := func(token string) map[string]string { return map[string]string{"Authorization": "Bearer " + token} }
	for _, row := range []struct {
		port   string
		header map[string]string
		want   int
		reason string
	}{
		{here, nil, http.StatusOK, "this machine needs no token"},
		{here, map[string]string{"Host": "evil.example"}, http.StatusForbidden, "a name that resolves to this machine"},
		{here, map[string]string{"X-Forwarded-For": "203.0.113.9"}, http.StatusForbidden, "somebody else, by a proxy"},
		{beyond, nil, http.StatusUnauthorized, "no token, from this machine too: there is one by now"},
		{beyond, bearer("wrong"), http.StatusUnauthorized, "a token that is none"},
		{beyond, bearer(reader), http.StatusForbidden, "a reader's token: calls are made"},
		{beyond, bearer(first), http.StatusOK, "the first token, an admin's"},
		{proxied, map[string]string{"X-Forwarded-For": "203.0.113.9"}, http.StatusUnauthorized, "behind a proxy on this machine"},
		{proxied, bearer(first), http.StatusOK, "with a token behind a proxy"},
	} {
		if got := initialize(row.port, row.header); got != row.want {
			t.Errorf("%s: status %d, want %d", row.reason, got, row.want)
		}
	}
}
