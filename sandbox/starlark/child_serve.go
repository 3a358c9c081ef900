package starlark

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"strconv"
	"testing/fstest"

	"understudy/audit"
)

// ChildMain makes this process a sandbox child if it was started as one, and then
// never returns. The program's main and the TestMain of packages that start
// children call it before anything else.
func ChildMain() {
	if len(os.Args) != 3 || os.Args[1] != childArgument {
		return
	}
	if limit, err := strconv.ParseInt(os.Args[2], 10, 64); err == nil && limit > 0 {
		debug.SetMemoryLimit(limit * 3 / 4) // collect harder before the hard limit
		if err := limitData(uint64(limit)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	if err := confine(); err != nil && !unconfined(err) {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	if err := serve(context.Background(), os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// server answers requests, one after the other.
type server struct {
	env      *Environment
	sessions map[int]*Session
	next     int
}

// serve answers the requests of in on out until in ends.
func serve(ctx context.Context, in io.Reader, out io.Writer) error {
	s := &server{sessions: map[int]*Session{}}
	requests, answers := bufio.NewReaderSize(in, 1<<16), bufio.NewWriterSize(out, 1<<16)
	var buf []byte
	for {
		var err error
		if buf, err = readFrame(requests, buf); errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read request: %w", err)
		}
		req, err := decodeRequest(buf)
		if err != nil {
			return fmt.Errorf("read request: %w", err)
		}
		message, err := encodeResponse(s.answer(ctx, req))
		if err == nil {
			err = writeFrame(answers, message)
		}
		if err != nil {
			return fmt.Errorf("write answer: %w", err)
		}
	}
}

// answer is handle with its panics contained: a defect costs one request, and not
// the child with the sessions of everybody else.
func (s *server) answer(ctx context.Context, req request) (body any, err error) {
	err = contain(func() (err error) {
		body, err = s.handle(ctx, req)
		return err
	})
	return body, err
}

func (s *server) handle(ctx context.Context, req request) (any, error) {
	switch req.Op {
	case opLoad:
		return s.load(ctx, req)
	case opTasks:
		return s.env.Tasks(ctx, req.Seed, req.N)
	case opOpen:
		session, err := s.env.Open(ctx, *req.Start)
		if err != nil {
			return nil, err
		}
		return s.add(session), nil
	}
	session := s.sessions[req.Session]
	if session == nil {
		return nil, fmt.Errorf("no session %d", req.Session)
	}
	return s.act(ctx, session, req)
}

// act performs an operation of one session.
func (s *server) act(ctx context.Context, session *Session, req request) (any, error) {
	switch req.Op {
	case opCall:
		return session.Call(ctx, *req.Call)
	case opDryRun:
		return session.DryRun(ctx, *req.Call)
	case opSnapshot:
		return session.Snapshot(ctx)
	case opRestore:
		return nil, session.Restore(ctx, audit.SnapshotID(req.Name))
	case opDrop:
		session.Drop(audit.SnapshotID(req.Name))
		return nil, nil
	case opFork:
		fork, err := session.Fork(ctx)
		if err != nil {
			return nil, err
		}
		return s.add(fork), nil
	case opDigest:
		return session.StateDigest(ctx)
	case opState:
		return session.State(ctx, req.Name)
	case opProbes:
		return session.Probes(*req.Call), nil //nolint:contextcheck // a Prober has no context: its calls have limits
	case opCheck:
		return session.Check(ctx, req.Name)
	case opViolations:
		return session.Violations(ctx)
	case opClose:
		delete(s.sessions, req.Session)
		return nil, session.Close()
	}
	return nil, fmt.Errorf("unknown operation %q", req.Op)
}

func (s *server) load(ctx context.Context, req request) (any, error) {
	fsys := fstest.MapFS{}
	for name, text := range req.Files {
		fsys[name] = &fstest.MapFile{Data: text}
	}
	d, err := Load(fsys, req.Name, *req.Options)
	if err != nil {
		return nil, err
	}
	s.env = NewEnvironment(d)
	tools, err := s.env.Tools(ctx)
	return loaded{Info: s.env.Info(), Tools: tools}, err
}

func (s *server) add(session audit.Session) int {
	s.next++
	s.sessions[s.next] = session.(*Session)
	return s.next
}
