package starlark

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// errChildDied is returned when a child ended before it answered: it ran out of
// memory, or was killed at the wall clock.
var errChildDied = errors.New("the sandbox's process ended")

// process is one running child. It answers one request at a time.
type process struct {
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	writer *bufio.Writer
	reader *bufio.Reader
	buf    []byte // of the last answer
	stderr *tail
	killed atomic.Pointer[string] // why, once we killed it
}

// startProcess re-executes this binary as a child with a memory limit in bytes.
func startProcess(memory int64) (*process, error) {
	binary, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this binary: %w", err)
	}
	//nolint:noctx // a child outlives the call that starts it; Close and the deadline of each request end it.
	cmd := exec.Command(binary, childArgument, strconv.FormatInt(memory, 10))
	cmd.Env = []string{} // a domain inherits nothing
	cmd.Dir = os.TempDir()
	p := &process{cmd: cmd, stderr: &tail{}}
	cmd.Stderr = p.stderr
	if p.stdin, err = cmd.StdinPipe(); err != nil {
		return nil, fmt.Errorf("start sandbox child: %w", err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("start sandbox child: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start sandbox child: %w", err)
	}
	p.writer = bufio.NewWriterSize(p.stdin, 1<<16)
	p.reader = bufio.NewReaderSize(out, 1<<16)
	return p, nil
}

// ask sends a request and decodes the body of its answer into body. It kills the
// child when the answer takes longer than wall or the caller cancels.
func (p *process) ask(ctx context.Context, wall time.Duration, req request, body any) error {
	timer := time.AfterFunc(wall, func() { p.kill(fmt.Sprintf("no answer within %v", wall)) })
	defer timer.Stop()
	stop := context.AfterFunc(ctx, func() { p.kill("the caller cancelled") })
	defer stop()
	message, err := encodeRequest(req)
	if err != nil {
		return fmt.Errorf("write request: %w", err)
	}
	if err = writeFrame(p.writer, message); err == nil {
		p.buf, err = readFrame(p.reader, p.buf)
	}
	if err == nil {
		err = decodeResponse(p.buf, body)
	}
	if e, ok := errors.AsType[*wireError](err); ok {
		return e.err()
	}
	if err != nil {
		return p.died(err)
	}
	return nil
}

func (p *process) kill(why string) {
	if p.killed.CompareAndSwap(nil, &why) {
		_ = p.cmd.Process.Kill() // it may have ended by itself
	}
}

// died reaps the child and says why it ended.
func (p *process) died(cause error) error {
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait() // its status says no more than what follows
	if why := p.killed.Load(); why != nil {
		return fmt.Errorf("%w: %s", errChildDied, *why)
	}
	if reason := p.stderr.reason(); reason != "" {
		return fmt.Errorf("%w: %s", errChildDied, reason)
	}
	return fmt.Errorf("%w: %w", errChildDied, cause)
}

// close ends the child by closing its input; a child that lingers is killed.
func (p *process) close() {
	_ = p.stdin.Close()
	timer := time.AfterFunc(2*time.Second, func() { p.kill("closed") })
	defer timer.Stop()
	_ = p.cmd.Wait()
}

// tail keeps the first bytes that a child wrote to its standard error. Only one
// goroutine writes, and it has ended when the child was waited for.
type tail struct{ bytes.Buffer }

func (t *tail) Write(b []byte) (int, error) {
	if room := 4096 - t.Len(); room > 0 {
		t.Buffer.Write(b[:min(room, len(b))])
	}
	return len(b), nil
}

// reason is the line that says why a Go program died.
func (t *tail) reason() string {
	for line := range strings.Lines(t.String()) {
		if strings.Contains(line, "out of memory") || strings.HasPrefix(line, "fatal error") || strings.HasPrefix(line, "panic") {
			return strings.TrimSpace(line)
		}
	}
	first, _, _ := strings.Cut(t.String(), "\n")
	return first
}
