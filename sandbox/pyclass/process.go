package pyclass

import (
	"bufio"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"understudy/audit"
	"understudy/sandbox/adapter"
)

//go:embed runner.py
var runnerSource string

// jail is one way of starting the runner.
type jail struct {
	holds string // what it keeps the class from, in words for people
	apply func(*exec.Cmd)
}

// process is one live runner. Requests are answered one after the other.
type process struct {
	cmd   *exec.Cmd
	stdin io.WriteCloser
	lines *bufio.Reader
	log   *adapter.Tail
	holds string

	mu   sync.Mutex // one request at a time
	last uint64     // id of the last request
	dead error      // why the runner can no longer be asked

	reaped atomic.Bool // its number may be another's
}

// errDied and errTimeout say how a runner was lost.
var (
	errDied    = errors.New("the Python runner died")
	errTimeout = errors.New("the Python runner did not answer in time and was killed")
)

// start runs the strongest jail that works here and loads the class.
func start(ctx context.Context, spec Spec) (*process, error) {
	var failures []error
	for _, jail := range jails(spec.reads()) {
		for _, python := range interpreters(spec.Python) {
			p, err := launch(spec, jail, python)
			if err != nil {
				failures = append(failures, err)
				continue
			}
			err = p.load(ctx, spec)
			if err == nil {
				return p, nil
			}
			p.kill()
			if !errors.Is(err, errDied) {
				return nil, err
			}
			failures = append(failures, fmt.Errorf("%s: %w", python, err))
		}
	}
	return nil, &audit.Error{
		Code: audit.CodeInfrastructure, Message: "start the Python runner",
		Hint: "install python3 (3.9 or later) or name the interpreter", Err: errors.Join(failures...),
	}
}

// waitDelay is how long a dead runner's stderr may stay open: where a jail has no
// process namespace, what a class or a dry run left behind may hold it for ever.
const waitDelay = time.Second

func launch(spec Spec, jail jail, python string) (*process, error) {
	// The runner outlives any one call's context; Close and kill end it.
	cmd := exec.Command(python, "-B", "-s", "-u", "-c", runnerSource, strconv.Itoa(spec.Memory)) //nolint:noctx // see above
	cmd.Env = []string{"PYTHONHASHSEED=0", "LC_ALL=C.UTF-8", "PATH=/usr/bin:/bin"}
	cmd.Dir = "/"
	jail.apply(cmd)
	adapter.Group(cmd)
	log := &adapter.Tail{}
	cmd.Stderr = log
	cmd.WaitDelay = waitDelay
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", python, err)
	}
	return &process{cmd: cmd, stdin: stdin, lines: bufio.NewReaderSize(stdout, 1<<16), log: log, holds: jail.holds}, nil
}

// loadTimeout is longer than any class seen takes to import. A class whose calls may
// take longer may take as long to import.
const loadTimeout = 30 * time.Second

func (p *process) load(ctx context.Context, spec Spec) error {
	names := make([]string, len(spec.Tools))
	for i, tool := range spec.Tools {
		names[i] = tool.Name
	}
	classes := []map[string]any{}
	for _, c := range spec.classes() {
		classes = append(classes, map[string]any{"class": c.Name, "source": c.Source, "file": c.File, "tools": append([]string{}, c.Tools...)})
	}
	loaded := map[string]any{
		"kind": spec.Kind, "classes": classes, "keyed": len(spec.Classes) > 0, "path": append([]string{}, spec.Path...), "tools": names,
	}
	err := p.ask(ctx, max(loadTimeout, spec.Timeout), "load", map[string]any{"spec": loaded}, nil)
	if fault, ok := errors.AsType[*faultError](err); ok {
		return &audit.Error{
			Code: audit.CodeInvalid, Message: "load Python class " + spec.label(),
			Hint: "the class must import with the standard library alone, and one class must define every declared tool", Err: fault,
		}
	}
	return err
}

// faultError is what the runner itself says went wrong; the runner lives on.
type faultError struct{ message string }

func (e *faultError) Error() string { return e.message }

// ask makes one request. A runner that does not answer within timeout is killed:
// it may be anywhere in foreign code.
func (p *process) ask(ctx context.Context, timeout time.Duration, op string, fields map[string]any, into any) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.dead != nil {
		return p.dead
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	p.last++
	fields["id"], fields["op"] = p.last, op
	request, err := json.Marshal(fields)
	if err != nil {
		return fmt.Errorf("encode %s: %w", op, err)
	}
	var expired bool
	timer := time.AfterFunc(timeout, func() { p.end() })
	line, err := p.exchange(append(request, '\n'))
	expired = !timer.Stop()
	if err != nil {
		p.dead = p.lost(expired)
		return p.dead
	}
	return p.answer(line, into)
}

// maxReply bounds one reply: a state may be large, an endless line is an attack.
const maxReply = 256 << 20

func (p *process) exchange(request []byte) ([]byte, error) {
	if _, err := p.stdin.Write(request); err != nil {
		return nil, err
	}
	var line []byte
	for {
		part, err := p.lines.ReadSlice('\n')
		line = append(line, part...)
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, err
		}
		if len(line) > maxReply {
			p.end()
			return nil, errors.New("reply over the limit")
		}
	}
}

func (p *process) answer(line []byte, into any) error {
	var reply struct {
		ID    uint64          `json:"id"`
		OK    json.RawMessage `json:"ok"`
		Fault *string         `json:"fault"`
	}
	if err := json.Unmarshal(line, &reply); err != nil || reply.ID != p.last {
		p.end() // out of step: nothing it says can be trusted any more
		p.dead = p.lost(false)
		return p.dead
	}
	if reply.Fault != nil {
		return &faultError{*reply.Fault}
	}
	if into == nil {
		return nil
	}
	return json.Unmarshal(reply.OK, into)
}

// end kills the runner with all that it started.
func (p *process) end() {
	if !p.reaped.Load() {
		adapter.KillGroup(p.cmd)
	}
}

// reap waits for the runner's end; how it ended is in its last words.
func (p *process) reap() {
	_ = p.cmd.Wait()
	p.reaped.Store(true)
}

func (p *process) lost(expired bool) error {
	p.end() // it may have ended by itself, and left something behind
	p.reap()
	if expired {
		return errTimeout
	}
	if words := p.log.String(); words != "" {
		return fmt.Errorf("%w: %s", errDied, words)
	}
	return errDied
}

func (p *process) kill() {
	p.end()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.dead == nil {
		p.dead = errDied
		_ = p.stdin.Close()
		p.reap()
	}
}
