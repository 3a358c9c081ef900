package cluster

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	osuser "os/user"
	"path/filepath"
	"strconv"
	"syscall"

	"understudy/audit"
)

// owner is the system user that the server runs as: ours, except for root,
// which PostgreSQL refuses to run as.
type owner struct {
	name     string
	uid, gid int
	dropped  bool // we are root and run the server as somebody else
}

// Reachable returns nil when a private cluster could live in dir: the server's
// user can enter every folder above it. For anybody but root that is always so.
func Reachable(dir string) error {
	own, err := ownerOf(filepath.Join(dir, "postgres"))
	if err != nil {
		return err
	}
	return own.reach(dir)
}

// ownerOf decides who runs the cluster in data. Root takes the user that owns
// it already, else postgres, else nobody.
func ownerOf(data string) (owner, error) {
	uid := os.Geteuid()
	if uid != 0 {
		return owner{name: "uid " + strconv.Itoa(uid), uid: uid, gid: os.Getegid()}, nil
	}
	if info, err := os.Stat(data); err == nil {
		if stat, ok := info.Sys().(*syscall.Stat_t); ok && stat.Uid != 0 {
			return owner{name: "uid " + strconv.Itoa(int(stat.Uid)), uid: int(stat.Uid), gid: int(stat.Gid), dropped: true}, nil
		}
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := osuser.Lookup(name)
		if err != nil {
			continue
		}
		uid, err1 := strconv.Atoi(u.Uid)
		gid, err2 := strconv.Atoi(u.Gid)
		if err := errors.Join(err1, err2); err != nil {
			return owner{}, fmt.Errorf("user %s: %w", name, err)
		}
		return owner{name: name, uid: uid, gid: gid, dropped: true}, nil
	}
	return owner{}, &audit.Error{
		Code:    audit.CodeInfrastructure,
		Message: "PostgreSQL refuses to run as root, and this machine has neither a user postgres nor nobody",
		Hint:    "run as an ordinary user, or name a server with --database-url",
	}
}

// reach returns an error that names the first folder on the way to dir, or dir
// itself, that the owner cannot enter. Folders that do not exist yet are ours to make.
func (o owner) reach(dir string) error {
	if !o.dropped {
		return nil
	}
	for folder := filepath.Clean(dir); ; folder = filepath.Dir(folder) {
		info, err := os.Stat(folder)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("look at %s: %w", folder, err)
		}
		if err == nil && !o.enters(info) {
			return &audit.Error{
				Code:    audit.CodeInfrastructure,
				Message: fmt.Sprintf("root runs PostgreSQL as user %s, which cannot enter %s", o.name, folder),
				Hint:    "choose a folder that everybody may enter, such as --data-dir /var/lib/understudy",
			}
		}
		if folder == filepath.Dir(folder) {
			return nil
		}
	}
}

func (o owner) enters(info os.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return true // not a system that we know; the server will say it
	}
	switch {
	case int(stat.Uid) == o.uid:
		return info.Mode()&0o100 != 0
	case int(stat.Gid) == o.gid:
		return info.Mode()&0o010 != 0
	}
	return info.Mode()&0o001 != 0
}

// mkdir makes a folder that only the owner may enter.
func (o owner) mkdir(path string) error {
	if err := os.Mkdir(path, 0o700); err != nil {
		return notWritable(path, err)
	}
	if !o.dropped {
		return nil
	}
	if err := os.Chown(path, o.uid, o.gid); err != nil {
		return notWritable(path, err)
	}
	return nil
}

// command runs a program of PostgreSQL as the owner, with an environment of its
// own: PGOPTIONS, PGDATA or a locale of the caller must not reach it. The
// program has its own process group, so that Ctrl-C in a terminal reaches us
// alone and the server is stopped last.
func (o owner) command(ctx context.Context, dir, path string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(context.WithoutCancel(ctx), path, args...)
	cmd.Dir = dir
	cmd.Env = []string{"PATH=" + filepath.Dir(path) + ":/usr/bin:/bin", "LC_ALL=C", "HOME=" + dir}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	dieWithParent(cmd.SysProcAttr)
	if o.dropped {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(o.uid), Gid: uint32(o.gid)}
	}
	return cmd
}
