package main_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"understudy/audit/ledger/cluster"
)

// asNATS, when set to "folder address", makes this test binary a NATS server.
const asNATS = "UNDERSTUDY_TEST_NATS"

// serveNATS runs a NATS server with JetStream, as operators are told to, until it
// is killed.
func serveNATS(arguments string) error {
	dir, address, _ := strings.Cut(arguments, " ")
	host, text, err := net.SplitHostPort(address)
	if err != nil {
		return err
	}
	port, err := strconv.Atoi(text)
	if err != nil {
		return err
	}
	ns, err := server.NewServer(&server.Options{
		Host: host, Port: port, JetStream: true, StoreDir: dir, SyncAlways: true, NoSigs: true,
		JetStreamMaxStore: 16 << 30, // else it refuses streams that a small disk could not hold when full
	})
	if err != nil {
		return err
	}
	ns.Start()
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM)
	<-stop
	ns.Shutdown()
	ns.WaitForShutdown()
	return nil
}

// disk is a folder on a small file system of its own, which can be filled.
type disk struct {
	dir     string
	mounted bool // false: this system does not let us mount, and the disk is never full
}

// newDisk mounts a tmpfs where that is permitted.
func newDisk(t *testing.T, name string, mib int) *disk {
	t.Helper()
	d := &disk{dir: filepath.Join(folder(t), name)}
	if err := os.Mkdir(d.dir, 0o711); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), "mount", "-t", "tmpfs", "-o", fmt.Sprintf("size=%dm,mode=0711", mib), "tmpfs", d.dir).CombinedOutput()
	if err != nil {
		t.Logf("%s is no disk of its own and is never full: mount: %s", name, strings.TrimSpace(string(out)))
		return d
	}
	d.mounted = true
	t.Cleanup(func() {
		if out, err := exec.CommandContext(context.WithoutCancel(t.Context()), "umount", "-l", d.dir).CombinedOutput(); err != nil {
			t.Errorf("umount: %v: %s", err, out)
		}
	})
	return d
}

func (d *disk) ballast() string { return filepath.Join(d.dir, "ballast") }

// fill takes all the room there is.
func (d *disk) fill() error {
	f, err := os.Create(d.ballast())
	if err != nil {
		if errors.Is(err, syscall.ENOSPC) {
			return nil
		}
		return err
	}
	defer f.Close()
	for block := make([]byte, 256<<10); len(block) > 0; {
		if _, err := f.Write(block); errors.Is(err, syscall.ENOSPC) {
			block = block[:len(block)/2]
		} else if err != nil {
			return err
		}
	}
	return nil
}

// free gives the room back.
func (d *disk) free() error {
	if err := os.Remove(d.ballast()); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// natsProcess is a NATS server that can be killed.
type natsProcess struct {
	disk    *disk
	address string

	mu   sync.Mutex
	cmd  *exec.Cmd     // nil: it was killed
	gone chan struct{} // closed when the process has ended
}

func startNATS(t *testing.T) *natsProcess {
	t.Helper()
	n := &natsProcess{disk: newDisk(t, "nats", 64), address: freeAddress(t)}
	if err := n.start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = n.kill() })
	return n
}

// given are the addresses that freeAddress has returned.
var given sync.Map

// freeAddress is an address of this machine for a program that is not there yet, or
// comes and goes: nobody else is given it, nor takes it meanwhile for an address of
// his own, because on Linux this process has a part of 127.0.0.0/8 to itself.
func freeAddress(t *testing.T) string {
	t.Helper()
	host := "127.0.0.1"
	if pid := os.Getpid(); runtime.GOOS == "linux" {
		host = fmt.Sprintf("127.%d.%d.%d", pid>>14&0xff, pid>>7&0x7f, pid&0x7f+1)
	}
	var config net.ListenConfig
	for {
		l, err := config.Listen(t.Context(), "tcp", net.JoinHostPort(host, "0"))
		if err != nil {
			t.Fatal(err)
		}
		address := l.Addr().String()
		_ = l.Close()
		if _, taken := given.LoadOrStore(address, true); !taken {
			return address
		}
	}
}

func (n *natsProcess) url() string { return "nats://" + n.address }

func (n *natsProcess) store() string { return filepath.Join(n.disk.dir, "store") }

// start starts a server that was killed; one that ended by itself is an error.
func (n *natsProcess) start(ctx context.Context) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.cmd != nil {
		select {
		case <-n.gone:
			return fmt.Errorf("the NATS server ended by itself: %v", n.cmd.ProcessState)
		default:
			return nil
		}
	}
	cmd := exec.CommandContext(context.WithoutCancel(ctx), os.Args[0])
	cmd.Env = []string{asNATS + "=" + n.store() + " " + n.address}
	cmd.SysProcAttr = dieWithTest()
	started, gone := make(chan error, 1), make(chan struct{})
	go func() {
		runtime.LockOSThread() // a child dies with the thread that started it
		defer close(gone)
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // it is killed
		}
	}()
	if err := <-started; err != nil {
		return err
	}
	n.cmd, n.gone = cmd, gone
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		conn, err := net.Dial("tcp", n.address) //nolint:noctx // it is there, or it is not
		if err == nil {
			return conn.Close()
		}
	}
	return errors.New("the NATS server does not start")
}

// kill ends the server as kill -9 does.
func (n *natsProcess) kill() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.cmd == nil {
		return nil
	}
	err := n.cmd.Process.Kill()
	if errors.Is(err, os.ErrProcessDone) {
		err = nil
	}
	<-n.gone
	n.cmd = nil
	return err
}

// wipe empties the store of a server that is dead.
func (n *natsProcess) wipe() error { return os.RemoveAll(n.store()) }

// postgresServer is a PostgreSQL that can be killed.
type postgresServer struct {
	disk *disk

	mu      sync.Mutex
	cluster *cluster.Cluster
}

func startPostgres(t *testing.T) *postgresServer {
	t.Helper()
	p := &postgresServer{disk: newDisk(t, "pg", 512)}
	if err := p.start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.cluster.Stop(t.Context()); err != nil {
			t.Error(err)
		}
	})
	return p
}

// start starts a server that is gone; one that runs is left alone.
func (p *postgresServer) start(ctx context.Context) (err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	ctx = context.WithoutCancel(ctx)
	if p.cluster != nil {
		select {
		case <-p.cluster.Done():
		default:
			return nil
		}
		_ = p.cluster.Stop(ctx) // lets go of the lock; the server is dead
	}
	p.cluster, err = cluster.Start(ctx, cluster.Config{Dir: p.disk.dir, Settings: map[string]string{
		"max_connections": "100", "min_wal_size": "32MB", "max_wal_size": "64MB", "shared_buffers": "32MB",
	}})
	return err
}

// kill ends the server as kill -9 of its first process does.
func (p *postgresServer) kill() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	text, err := os.ReadFile(filepath.Join(p.disk.dir, "postgres", "postmaster.pid"))
	if errors.Is(err, os.ErrNotExist) {
		return nil // it is dead
	}
	var pid int
	if _, err := fmt.Sscan(string(text), &pid); err != nil {
		return err
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
		return err
	}
	<-p.cluster.Done()
	return nil
}

// supervised is a program that is started again whenever it ends, as an
// operator's supervisor does.
type supervised struct {
	t    *testing.T
	make func() *exec.Cmd
	said *tail

	mu       sync.Mutex
	cmd      *exec.Cmd
	starts   int
	stopping bool
	status   int // of the last end
	done     chan struct{}
}

func supervise(t *testing.T, command func() *exec.Cmd) *supervised {
	t.Helper()
	s := &supervised{t: t, make: command, said: &tail{}, done: make(chan struct{})}
	go s.run()
	return s
}

func (s *supervised) run() {
	defer close(s.done)
	runtime.LockOSThread() // a child dies with the thread that started it
	for {
		s.mu.Lock()
		if s.stopping && s.starts > 0 {
			s.mu.Unlock()
			return
		}
		s.cmd = s.make()
		s.cmd.Stderr, s.cmd.SysProcAttr = s.said, dieWithTest()
		err := s.cmd.Start()
		s.starts++
		s.mu.Unlock()
		if err != nil {
			s.t.Errorf("start %v: %v", s.cmd.Args, err)
			return
		}
		_ = s.cmd.Wait()
		s.mu.Lock()
		s.status = s.cmd.ProcessState.ExitCode()
		s.mu.Unlock()
	}
}

// signal reaches the program that runs now, if one does.
func (s *supervised) signal(sig os.Signal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cmd != nil && s.cmd.Process != nil {
		_ = s.cmd.Process.Signal(sig) // it may be gone
	}
}

// dump ends the program with a trace of its goroutines, which is in said then.
func (s *supervised) dump() {
	s.mu.Lock()
	starts := s.starts
	s.mu.Unlock()
	s.signal(syscall.SIGQUIT)
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		s.mu.Lock()
		again := s.starts > starts
		s.mu.Unlock()
		if again {
			return
		}
	}
}

// stop asks the program to end in order and returns its exit status.
func (s *supervised) stop() int {
	s.mu.Lock()
	s.stopping = true
	s.mu.Unlock()
	s.signal(syscall.SIGCONT)
	s.signal(syscall.SIGTERM)
	<-s.done
	return s.status
}

// tail keeps the end of what is written.
type tail struct {
	mu   sync.Mutex
	text []byte
}

// maxTail is enough for the trace of all goroutines.
const maxTail = 256 << 10

func (t *tail) Write(text []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, text...)
	if cut := len(t.text) - maxTail; cut > 0 {
		t.text = append(t.text[:0], t.text[cut:]...)
	}
	return len(text), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.text)
}

var _ io.Writer = (*tail)(nil)
