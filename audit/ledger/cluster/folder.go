package cluster

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"understudy/audit"
	"understudy/audit/atomicfile"
	"understudy/audit/lockfile"
)

const (
	// maxSocketPath is macOS's limit of a socket's path; Linux allows 107 bytes.
	maxSocketPath = 103
	// maxLog is the size at which the server's log is moved aside, once.
	maxLog = 16 << 20
)

// ErrInUse is returned when another program runs the cluster of the folder.
var ErrInUse = errors.New("one program a folder")

// errMemoryInUse is returned while processes of a killed server still run.
var errMemoryInUse = errors.New("processes of an earlier server still run")

// makeFolder makes the data folder where there is none, says whether it did, and
// shows that it can be written and that the cluster's owner can enter it.
func makeFolder(dir string, own owner) (fresh bool, err error) {
	if err := own.reach(dir); err != nil {
		return false, err
	}
	mode := os.FileMode(0o700)
	if own.dropped {
		mode = 0o711 // the server's user passes through; it reads only what is its own
	}
	_, err = os.Stat(dir)
	fresh = errors.Is(err, os.ErrNotExist)
	if err := os.MkdirAll(dir, mode); err != nil {
		return false, notWritable(dir, err)
	}
	probe, err := os.CreateTemp(dir, ".writable-")
	if err != nil {
		return false, notWritable(dir, err)
	}
	if err := errors.Join(probe.Close(), os.Remove(probe.Name())); err != nil {
		return false, notWritable(dir, err)
	}
	return fresh, nil
}

func notWritable(dir string, err error) error {
	return &audit.Error{
		Code: audit.CodeInfrastructure, Err: err,
		Message: "the data folder " + dir + " cannot be written",
		Hint:    "choose another with --data-dir, or change its owner or mode",
	}
}

func corrupt(data string, err error) error {
	return &audit.Error{
		Code: audit.CodeInfrastructure, Err: err,
		Message: "the cluster in " + data + " is damaged",
		Hint:    "restore that folder from a backup, or move it away to begin with an empty one; nothing in it was changed",
	}
}

func claim(path string) (*lockfile.Lock, error) {
	lock, err := lockfile.Acquire(path)
	if held, ok := errors.AsType[*lockfile.HeldError](err); ok {
		return nil, &audit.Error{
			Code: audit.CodeInfrastructure, Err: ErrInUse,
			Message: fmt.Sprintf("the data folder %s is in use by process %d", filepath.Dir(path), held.PID),
			Hint:    "stop that program, or give this one a folder of its own with --data-dir; import, report, gate, verify work beside it",
		}
	}
	if err != nil {
		return nil, notWritable(filepath.Dir(path), err)
	}
	return lock, nil
}

// initdb makes the cluster beside its place and renames it, so that a program
// that is killed half-way leaves no half of a cluster where the next one looks.
func (c *Cluster) initdb(ctx context.Context) error {
	fresh := c.data() + ".new"
	if err := os.RemoveAll(fresh); err != nil {
		return notWritable(c.cfg.Dir, err)
	}
	if err := c.owner.mkdir(fresh); err != nil {
		return err
	}
	args := []string{
		"-D", fresh, "-U", user, "--auth=trust", "--encoding=UTF8", "--locale=C",
		"--data-checksums", "--no-instructions",
	}
	if c.cfg.Ephemeral {
		args = append(args, "--no-sync")
	}
	var said bytes.Buffer
	cmd := c.owner.command(ctx, c.cfg.Dir, c.server.path("initdb"), args...)
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := run(ctx, cmd); err != nil {
		if ctx.Err() != nil {
			return errors.Join(context.Cause(ctx), os.RemoveAll(fresh))
		}
		return errors.Join(&audit.Error{
			Code: audit.CodeInfrastructure, Err: err,
			Message: "initdb could not make a cluster in " + c.cfg.Dir + ": " + lastLine(said.Bytes(), "error", "FATAL"),
			Hint:    "check the folder's free space and owner",
		}, os.RemoveAll(fresh))
	}
	if err := os.Remove(c.data()); err != nil && !errors.Is(err, os.ErrNotExist) {
		return notWritable(c.data(), err) // an empty folder may be there; a full one was refused before
	}
	if err := os.Rename(fresh, c.data()); err != nil {
		return notWritable(c.data(), err)
	}
	return atomicfile.SyncFolder(c.cfg.Dir)
}

// socketFolder is <dir>/run, or a folder under /tmp when the socket's path would
// be longer than the system allows. Only the owner may enter it: that, and no
// password, keeps other users out of the database.
func socketFolder(dir string, own owner) (string, error) {
	near := filepath.Join(dir, "run")
	if len(near)+len("/.s.PGSQL.")+len(port) <= maxSocketPath {
		if err := own.mkdir(near); err != nil && !errors.Is(err, os.ErrExist) {
			return "", err
		}
		return near, nil
	}
	sum := sha256.Sum256([]byte(dir))
	far := filepath.Join("/tmp", "understudy-"+hex.EncodeToString(sum[:8]))
	if err := own.mkdir(far); err == nil {
		return far, nil
	}
	info, err := os.Lstat(far) // left by a killed program, or put there by somebody else
	if err != nil {
		return "", notWritable("/tmp", err)
	}
	if stat, ok := info.Sys().(*syscall.Stat_t); !ok || !info.IsDir() || int(stat.Uid) != own.uid || info.Mode().Perm() != 0o700 {
		return "", &audit.Error{
			Code:    audit.CodeInfrastructure,
			Message: "the socket folder " + far + " belongs to somebody else",
			Hint:    "remove it, or choose a shorter --data-dir",
		}
	}
	return far, nil
}

func openLog(path string) (*os.File, error) {
	if info, err := os.Stat(path); err == nil && info.Size() > maxLog {
		if err := os.Rename(path, path+".old"); err != nil {
			return nil, notWritable(filepath.Dir(path), err)
		}
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, notWritable(filepath.Dir(path), err)
	}
	return f, nil
}

// startError reads in the log, from where this start began, why the server ended.
func startError(data, log string, from int64) error {
	f, err := os.Open(log)
	if err != nil {
		return fmt.Errorf("read the server's log: %w", err)
	}
	defer f.Close()
	said, err := io.ReadAll(io.NewSectionReader(f, from, maxLog))
	if err != nil {
		return fmt.Errorf("read %s: %w", log, err)
	}
	if bytes.Contains(said, []byte("pre-existing shared memory block")) {
		return errMemoryInUse
	}
	why := lastLine(withoutAnswers(said), "FATAL", "PANIC", "could not", "error")
	for _, sign := range []string{"Permission denied", "wrong ownership", "No space left", "could not bind", "could not create"} {
		if strings.Contains(why, sign) {
			return &audit.Error{
				Code:    audit.CodeInfrastructure,
				Message: "the private PostgreSQL in " + data + " did not start: " + why,
				Hint:    "look into " + log,
			}
		}
	}
	return corrupt(data, errors.New(why))
}

// withoutAnswers drops what a server told clients that came while it started: it
// says nothing about why the start failed.
func withoutAnswers(said []byte) []byte {
	var kept []byte
	for line := range bytes.Lines(said) {
		if !bytes.Contains(line, []byte("FATAL:  the database system is ")) {
			kept = append(kept, line...)
		}
	}
	return kept
}

// lastLine is the last line that holds one of the signs, or the last line.
func lastLine(text []byte, signs ...string) string {
	var last, signed string
	for scanner := bufio.NewScanner(bytes.NewReader(text)); scanner.Scan(); {
		line := strings.TrimSpace(scanner.Text())
		if line == "" {
			continue
		}
		last = line
		for _, sign := range signs {
			if strings.Contains(line, sign) {
				signed = line
			}
		}
	}
	if signed == "" {
		signed = last
	}
	for _, sign := range signs { // drop the time stamp before FATAL
		if at := strings.Index(signed, sign+":"); at >= 0 {
			return strings.TrimSpace(signed[at+len(sign)+1:])
		}
	}
	return signed
}

func readPID(path string) (int, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("read %s: %w", path, err)
	}
	line, _, _ := strings.Cut(string(text), "\n")
	pid, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil || pid <= 1 {
		return 0, os.Remove(path) // torn by a crash: it names nobody
	}
	return pid, nil
}
