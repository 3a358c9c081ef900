package mcp

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"sync"
	"syscall"
	"time"

	"understudy/sandbox/adapter"
)

// process is one running server with everything that it started: a process
// group, which ends as a whole.
type process struct {
	cmd   *exec.Cmd
	stdin *input
	lines *lines // of its stdout
	log   *adapter.Tail

	once sync.Once
	gone chan struct{} // closed when the leader was reaped
	err  error         // how it ended; read after gone
}

// input is a server's stdin.
type input struct {
	io.WriteCloser

	once sync.Once
	deaf chan struct{} // closed when nobody reads it any more
}

// Write implements io.Writer.
func (i *input) Write(text []byte) (int, error) {
	n, err := i.WriteCloser.Write(text)
	if errors.Is(err, syscall.EPIPE) {
		i.once.Do(func() { close(i.deaf) })
	}
	return n, err
}

// start runs a command. It sees the declared environment and what any program
// needs to run (PATH, HOME, LANG), and nothing else of ours: no secret of this
// process is its business.
func start(spec Spec, t *tap) (*process, error) {
	cmd := exec.Command(spec.Command[0], spec.Command[1:]...) //nolint:noctx // an episode outlives the call that opens it; close ends it
	cmd.Dir = spec.Dir
	for _, name := range []string{"PATH", "HOME", "LANG", "TMPDIR"} {
		if value, ok := os.LookupEnv(name); ok {
			cmd.Env = append(cmd.Env, name+"="+value)
		}
	}
	for _, name := range slices.Sorted(keys(spec.Env)) {
		cmd.Env = append(cmd.Env, name+"="+spec.Env[name])
	}
	adapter.Group(cmd)
	p := &process{cmd: cmd, log: &adapter.Tail{}, gone: make(chan struct{})}
	cmd.Stderr = p.log
	cmd.WaitDelay = time.Second // for grandchildren that hold stderr open
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	p.stdin = &input{WriteCloser: stdin, deaf: make(chan struct{})}
	read, write, err := os.Pipe() // ours, so that Wait does not close it before the last line is read
	if err != nil {
		return nil, err
	}
	cmd.Stdout = write
	p.lines = newLines(read, t)
	err = cmd.Start()
	_ = write.Close() // the child has its own
	if err != nil {
		_ = read.Close()
		return nil, fmt.Errorf("start %s: %w", spec.Command[0], err)
	}
	go func() {
		p.err = cmd.Wait()
		close(p.gone)
	}()
	return p, nil
}

// grace is how long a server may take to end by itself when its stdin closes.
const grace = time.Second

// end closes stdin, waits a moment, and kills what is left of the group.
func (p *process) end() {
	p.once.Do(func() {
		_ = p.stdin.Close()
		select {
		case <-p.gone:
		case <-time.After(grace):
		}
		p.kill()
	})
}

// kill ends the group at once and reaps its leader.
func (p *process) kill() {
	adapter.KillGroup(p.cmd)
	<-p.gone
	_ = p.lines.Close()
}

// dying is how long a server that closed its stdin or stdout is waited for: it ends,
// which takes a while on a busy machine, unless it lives on without ears or mouth.
const dying = 30 * time.Second

// lastWords say how a server ended, for people; "" while it runs.
func (p *process) lastWords() string {
	wait := grace
	select {
	case <-p.stdin.deaf:
		wait = dying
	default:
	}
	select {
	case <-p.lines.end:
	case <-p.gone:
	case <-time.After(wait):
		return ""
	}
	select {
	case <-p.gone:
	case <-time.After(dying):
		return ""
	}
	how := "the server ended"
	if exit, ok := errors.AsType[*exec.ExitError](p.err); ok {
		how = "the server ended with " + exit.String()
	}
	if words := p.log.String(); words != "" {
		how += ": " + words
	}
	return how
}
