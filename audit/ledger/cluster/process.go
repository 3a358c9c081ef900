package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
)

// process is a child that is watched until it ends.
type process struct {
	cmd  *exec.Cmd
	done chan struct{}
	err  error // of Wait; read it after done
}

// launch starts cmd from a thread of its own. The parent-death signal follows
// the thread that started the child, not the program: on a shared thread the
// server would be stopped whenever the runtime retires that thread.
func launch(cmd *exec.Cmd) (*process, error) {
	p := &process{cmd: cmd, done: make(chan struct{})}
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		defer close(p.done)
		err := cmd.Start()
		started <- err
		if err == nil {
			p.err = cmd.Wait()
		}
	}()
	return p, <-started
}

// run runs cmd to its end, or kills it when ctx ends first.
func run(ctx context.Context, cmd *exec.Cmd) error {
	p, err := launch(cmd)
	if err != nil {
		return err
	}
	select {
	case <-p.done:
		return p.err
	case <-ctx.Done():
		return errors.Join(context.Cause(ctx), p.signal(syscall.SIGKILL))
	}
}

// stop asks for a fast shutdown, then for an immediate one, then kills; each of
// them keeps what was committed.
func (p *process) stop(ctx context.Context) error {
	if err := p.signal(syscall.SIGINT); err != nil {
		return err
	}
	select {
	case <-p.done:
		return nil
	case <-ctx.Done():
	}
	if err := p.signal(syscall.SIGKILL); err != nil {
		return err
	}
	<-p.done
	return fmt.Errorf("PostgreSQL %d did not stop in time and was killed; the next start recovers it", p.cmd.Process.Pid)
}

func (p *process) signal(sig os.Signal) error {
	if p.cmd.Process == nil {
		return nil
	}
	if err := p.cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("stop PostgreSQL %d: %w", p.cmd.Process.Pid, err)
	}
	return nil
}
