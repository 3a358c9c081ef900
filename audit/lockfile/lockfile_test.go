package lockfile_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"understudy/audit/lockfile"
)

func TestSecondHolderIsToldWhoTheFirstIs(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "lock")
	first, err := lockfile.Acquire(path)
	if err != nil {
		t.Fatal(err)
	}
	_, err = lockfile.Acquire(path)
	held, ok := errors.AsType[*lockfile.HeldError](err)
	if !ok {
		t.Fatalf("got error %v, want a HeldError", err)
	}
	if held.PID != os.Getpid() {
		t.Errorf("got holder %d, want %d", held.PID, os.Getpid())
	}
	if err := first.Release(); err != nil {
		t.Fatal(err)
	}
	takeAgain(t, path)
}

func TestAcquireInMissingFolder(t *testing.T) {
	t.Parallel()
	_, err := lockfile.Acquire(filepath.Join(t.TempDir(), "missing", "lock"))
	if !errors.Is(err, os.ErrNotExist) {
		t.Fatalf("got %v, want not-exist: Acquire must not invent folders", err)
	}
}

func TestReleaseWhileACopyOfTheDescriptorIsOpen(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "lock")
	first, err := lockfile.Acquire(path)
	if err != nil {
		t.Fatal(err)
	}
	inherited, err := unix.Dup(first.FD()) // as a child has it between fork and exec
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(inherited)
	if err := first.Release(); err != nil {
		t.Fatal(err)
	}
	takeAgain(t, path)
}

func takeAgain(t *testing.T, path string) {
	t.Helper()
	second, err := lockfile.Acquire(path)
	if err != nil {
		t.Fatalf("after release: %v", err)
	}
	if err := second.Release(); err != nil {
		t.Fatal(err)
	}
}
