package main

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"os"
	"sync"
	"time"

	"understudy/audit"
	"understudy/web/access"
)

// listen opens an address: with TLS, or on this machine alone, unless the
// operator says that a proxy ends TLS.
func listen(ctx context.Context, address string, cfg Config, log *slog.Logger) (net.Listener, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, usageError("listen: "+err.Error(), "write host:port, such as 127.0.0.1:8080")
	}
	if cfg.TLSCert == "" && !cfg.BehindProxy && !access.IsLoopback(host) {
		return nil, usageError("listen on "+address+" without TLS: tokens and what is audited would cross the network in the clear",
			"give --tls-cert and --tls-key; or --behind-proxy, where a proxy of yours ends TLS; or listen on 127.0.0.1")
	}
	listener, err := listenTCP(ctx, address)
	if err != nil || cfg.TLSCert == "" {
		return listener, err
	}
	keys := &keyPair{cert: cfg.TLSCert, key: cfg.TLSKey, log: log}
	if _, err := keys.current(); err != nil {
		_ = listener.Close()
		return nil, usageError("TLS certificate "+cfg.TLSCert+": "+err.Error(), "give PEM files that belong together: --tls-cert with the chain, --tls-key")
	}
	return tls.NewListener(listener, &tls.Config{
		MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"},
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return keys.current() },
	}), nil
}

func listenTCP(ctx context.Context, address string) (net.Listener, error) {
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", address)
	if err != nil {
		return nil, &audit.Error{
			Code: audit.CodeInfrastructure, Err: rootCause(err),
			Message: "cannot listen on " + address,
			Hint:    "choose another address with --listen (port 0 takes a free one)",
		}
	}
	return listener, nil
}

// keyPair is a certificate in files, read again when they change: certificates
// are renewed while the service runs.
type keyPair struct {
	cert, key string
	log       *slog.Logger

	mu     sync.Mutex
	pair   *tls.Certificate
	loaded [2]time.Time // when the files were changed last
}

// current is the certificate as it stands in the files; where they cannot be
// read any more, the one before.
func (k *keyPair) current() (*tls.Certificate, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	changed, err := k.changed()
	if err == nil && changed == k.loaded {
		return k.pair, nil
	}
	var pair tls.Certificate
	if err == nil {
		pair, err = tls.LoadX509KeyPair(k.cert, k.key)
	}
	switch {
	case err == nil:
		k.pair, k.loaded = &pair, changed
	case k.pair == nil:
		return nil, err
	case changed != k.loaded: // say it once a change
		k.loaded = changed
		k.log.Error("the renewed certificate cannot be read; the one before is shown", slog.Any("error", err))
	}
	return k.pair, nil
}

func (k *keyPair) changed() (at [2]time.Time, err error) {
	for i, path := range []string{k.cert, k.key} {
		info, err := os.Stat(path)
		if err != nil {
			return at, err
		}
		at[i] = info.ModTime()
	}
	return at, nil
}

// scheme begins the URL of what listen opened.
func scheme(cfg Config) string {
	if cfg.TLSCert == "" {
		return "http://"
	}
	return "https://"
}
