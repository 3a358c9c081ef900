// Package embedded runs a JetStream server inside the program: no port, no
// process, streams on disk, every write synced before it is acknowledged unless its
// stream asks for less. It is the default transport; a program that was given a NATS
// URL does not need it.
package embedded

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"understudy/audit"
	"understudy/audit/lockfile"
)

const (
	// startTimeout is for reading large streams back after a crash. It and stopTimeout
	// guard against a server that hangs, and are nothing that a busy machine reaches.
	startTimeout = 5 * time.Minute
	stopTimeout  = time.Minute
	// connectTimeout is for a machine that is busy: the server is there, and the two
	// seconds of a client that looks for one on a network are none of its promises.
	connectTimeout = time.Minute
)

// Config says where the server keeps its streams. Dir is required.
type Config struct {
	Dir    string       // made where missing
	Logger *slog.Logger // nothing is logged by default
}

// Server is a running JetStream server.
type Server struct {
	nats *server.Server
	lock *lockfile.Lock
}

// Start runs JetStream over cfg.Dir and returns when it accepts connections.
// Errors are *audit.Error with a hint. SyncAlways is on: without it JetStream
// acknowledges first and syncs every two minutes.
func Start(ctx context.Context, cfg Config) (*Server, error) {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if err := os.MkdirAll(cfg.Dir, 0o700); err != nil {
		return nil, unusable(cfg.Dir, err)
	}
	lock, err := lockfile.Acquire(filepath.Join(cfg.Dir, "lock"))
	if err != nil {
		return nil, unusable(cfg.Dir, err)
	}
	s := &Server{lock: lock}
	s.nats, err = server.NewServer(&server.Options{
		ServerName: "understudy",
		DontListen: true,
		JetStream:  true,
		StoreDir:   cfg.Dir,
		SyncAlways: true,
		NoSigs:     true, // signals belong to the program
	})
	if err != nil {
		return nil, errors.Join(unusable(cfg.Dir, err), s.Stop(ctx))
	}
	s.nats.SetLoggerV2(logger{cfg.Logger}, false, false, false)
	s.nats.Start()
	if !s.nats.ReadyForConnections(startTimeout) || !s.nats.JetStreamEnabled() {
		return nil, errors.Join(unusable(cfg.Dir, errors.New("JetStream did not start in "+startTimeout.String())), s.Stop(ctx))
	}
	return s, nil
}

// Connect opens a connection within the process; it needs no address. The
// caller closes it before Stop.
func (s *Server) Connect(options ...nats.Option) (*nats.Conn, error) {
	options = append([]nats.Option{nats.Name("understudy"), nats.Timeout(connectTimeout), nats.InProcessServer(s.nats)}, options...)
	conn, err := nats.Connect("", options...)
	if err != nil {
		return nil, fmt.Errorf("connect to the embedded JetStream: %w", err)
	}
	return conn, nil
}

// Stop ends the server; what it acknowledged is on disk. It outlives ctx's
// cancellation and may be called twice.
func (s *Server) Stop(ctx context.Context) error {
	if s.lock == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer cancel()
	if s.nats != nil {
		s.nats.Shutdown()
		stopped := make(chan struct{})
		go func() {
			s.nats.WaitForShutdown()
			close(stopped)
		}()
		select {
		case <-stopped:
		case <-ctx.Done():
			return errors.New("the embedded JetStream did not stop in " + stopTimeout.String())
		}
	}
	err := s.lock.Release()
	s.lock = nil
	return err
}

func unusable(dir string, err error) error {
	if held, ok := errors.AsType[*lockfile.HeldError](err); ok {
		return &audit.Error{
			Code:    audit.CodeInfrastructure,
			Message: fmt.Sprintf("the stream folder %s is in use by process %d", dir, held.PID),
			Hint:    "stop that program, or give this one a folder of its own with --data-dir",
		}
	}
	return &audit.Error{
		Code: audit.CodeInfrastructure, Err: err,
		Message: "JetStream cannot use the folder " + dir,
		Hint:    "check its owner, mode and free space; streams are rebuilt from the ledger, so it may also be moved away",
	}
}

// logger hands the server's lines to slog. Its notices are about itself, not
// about audits, so they are for debugging.
type logger struct{ log *slog.Logger }

var _ server.Logger = logger{}

func (l logger) Noticef(format string, v ...any) { l.write(slog.LevelDebug, format, v) }
func (l logger) Warnf(format string, v ...any)   { l.write(slog.LevelWarn, format, v) }
func (l logger) Errorf(format string, v ...any)  { l.write(slog.LevelError, format, v) }
func (l logger) Fatalf(format string, v ...any)  { l.write(slog.LevelError, format, v) }
func (l logger) Debugf(format string, v ...any)  { l.write(slog.LevelDebug, format, v) }
func (l logger) Tracef(format string, v ...any)  { l.write(slog.LevelDebug, format, v) }

func (l logger) write(level slog.Level, format string, v []any) {
	l.log.Log(context.Background(), level, "nats server", slog.String("text", fmt.Sprintf(format, v...)))
}
