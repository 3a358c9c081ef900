package main_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	main "understudy/cmd/understudy"
)

func TestListenNeedsTLSOrThisMachine(t *testing.T) {
	t.Parallel()
	dir := folder(t)
	certificate(t, dir, "first")
	certificate(t, filepath.Join(dir, "other"), "other")
	for _, row := range []struct {
		args               []string
		status             int
		want, hint, reason string
	}{
		{[]string{"serve", "--listen", "0.0.0.0:0"}, 3, "listen on 0.0.0.0:0 without TLS", "--behind-proxy", "tokens in the clear"},
		{[]string{"serve", "--listen", ":0"}, 3, "without TLS", "--tls-cert", "an empty host is every address"},
		{[]string{"serve", "--listen", "[::]:0"}, 3, "without TLS", "--tls-cert", "so is ::"},
		{[]string{"serve", "--listen", "0.0.0.0:0", "--tls-cert", "tls.crt"}, 3, "tls-cert and tls-key are needed together", "understudy help config", "half a pair"},
		{[]string{"serve", "--listen", "0.0.0.0:0", "--tls-cert", "nowhere.crt", "--tls-key", "tls.key"}, 3, "nowhere.crt: no such file", "PEM files", "a file that is not there"},
		{[]string{"serve", "--listen", "0.0.0.0:0", "--tls-cert", "tls.crt", "--tls-key", "other/tls.key"}, 3, "private key does not match", "belong together", "a key of another certificate"},
		{[]string{"sandbox", "serve-mcp", "retail", "--http", "0.0.0.0:0"}, 3, "without TLS", "--tls-cert", "a sandbox that anybody may call"},
	} {
		refuses(t, run(t, program(t, dir, nil, row.args...)), row.status, row.want, row.hint, row.reason)
	}
}

// certificate writes a pair for 127.0.0.1 into a folder and returns who trusts it.
func certificate(t *testing.T, dir, name string) *x509.CertPool {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(
		os.MkdirAll(dir, 0o700),
		os.WriteFile(filepath.Join(dir, "tls.crt"), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600),
		os.WriteFile(filepath.Join(dir, "tls.key"), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}), 0o600),
	); err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool.AddCert(cert)
	return pool
}

// TestServesTLSAndDrains serves by HTTPS, shows a renewed certificate without a
// restart, and says that it is not ready while it drains.
func TestServesTLSAndDrains(t *testing.T) {
	t.Parallel()
	dir := folder(t)
	roots := certificate(t, dir, "first")
	cfg := main.Default()
	cfg.DataDir, cfg.Listen = filepath.Join(dir, "data"), "127.0.0.1:0"
	cfg.TLSCert, cfg.TLSKey = filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
	cfg.DrainDelay, cfg.StopTimeout = time.Second, patience
	m := &main.Main{Config: cfg, Logger: slog.New(slog.NewTextHandler(t.Output(), nil))}
	drained := make(chan time.Time)
	main.DrainUntil(m, drained)
	if err := m.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	ask := func(roots *x509.CertPool, path string) (status int, who string, err error) {
		client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}}}
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, m.URL()+path, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		res, err := client.Do(req)
		if err != nil {
			return 0, "", err
		}
		return res.StatusCode, res.TLS.PeerCertificates[0].Subject.CommonName, res.Body.Close()
	}
	if status, who, err := ask(roots, "/readyz"); err != nil || status != http.StatusOK || who != "first" {
		t.Errorf("got %d of %q, %v, want 200 by HTTPS", status, who, err)
	}
	renewed := certificate(t, dir, "renewed")
	future := time.Now().Add(time.Minute) // where the file system's clock is coarse
	if err := os.Chtimes(cfg.TLSCert, future, future); err != nil {
		t.Fatal(err)
	}
	if status, who, err := ask(renewed, "/readyz"); err != nil || status != http.StatusOK || who != "renewed" {
		t.Errorf("got %d of %q, %v, want the renewed certificate", status, who, err)
	}
	stopped := make(chan error, 1)
	go func() { stopped <- m.Close(context.WithoutCancel(t.Context())) }()
	deadline := time.Now().Add(patience)
	for status := 0; status != http.StatusServiceUnavailable; {
		var err error
		if status, _, err = ask(renewed, "/readyz"); err != nil || time.Now().After(deadline) {
			t.Errorf("got %d, %v from a draining service, want 503", status, err)
			break
		}
	}
	if status, _, err := ask(renewed, "/healthz"); err != nil || status != http.StatusOK {
		t.Errorf("health of a draining service: got %d, %v, want 200: it is not broken", status, err)
	}
	close(drained)
	if err := <-stopped; err != nil {
		t.Error(err)
	}
}
