package atomicfile_test

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"understudy/audit/atomicfile"
)

var errWanted = errors.New("wanted")

// names lists a folder.
func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, entry := range entries {
		all = append(all, entry.Name())
	}
	return all
}

func holds(t *testing.T, path, want string) {
	t.Helper()
	got, err := os.ReadFile(path)
	if err != nil || string(got) != want {
		t.Errorf("%s: got %q and %v, want %q", path, got, err, want)
	}
}

// TestReadersSeeTheOldOrTheNew has readers beside writers of long texts of one
// letter: a part, or a mix of two, would be neither.
func TestReadersSeeTheOldOrTheNew(t *testing.T) {
	t.Parallel()
	const size = 1 << 16
	path := filepath.Join(t.TempDir(), "file")
	text := func(i int) string { return strings.Repeat(string(rune('a'+i)), size) }
	if err := atomicfile.Write(path, []byte(text(0)), 0o644); err != nil {
		t.Fatal(err)
	}
	var group sync.WaitGroup
	for i := range 4 {
		group.Go(func() {
			for range 20 {
				if err := atomicfile.Write(path, []byte(text(i)), 0o644); err != nil {
					t.Error(err)
				}
			}
		})
		group.Go(func() {
			for range 100 {
				got, err := os.ReadFile(path)
				if err != nil || len(got) != size || strings.Trim(string(got), string(got[:1])) != "" {
					t.Errorf("got %d bytes that begin with %q, and %v", len(got), got[:min(len(got), 1)], err)
				}
			}
		})
	}
	group.Wait()
	if got := names(t, filepath.Dir(path)); len(got) != 1 {
		t.Errorf("left behind: %v", got)
	}
}

func TestFailureLeavesTheOldFileAlone(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	if err := atomicfile.Write(path, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := atomicfile.Stage(path, 0o600, func(w io.Writer) error {
		_, err := fmt.Fprint(w, "ne")
		return errors.Join(err, errWanted)
	})
	if !errors.Is(err, errWanted) || !strings.Contains(err.Error(), path) {
		t.Errorf("got %v, want the writer's error with the path", err)
	}
	if err := atomicfile.Write(filepath.Join(dir, "missing", "file"), nil, 0o600); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a missing folder: got %v", err)
	}
	folder := filepath.Join(dir, "folder")
	if err := os.MkdirAll(filepath.Join(folder, "full"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := atomicfile.Write(folder, []byte("text"), 0o600); err == nil {
		t.Error("a file took the place of a folder")
	}
	holds(t, path, "old")
	if got := names(t, dir); !slices.Equal(got, []string{"file", "folder"}) {
		t.Errorf("left behind: %v", got)
	}
}

func TestStagedIsInvisibleUntilCommit(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	write := func(text string) func(io.Writer) error {
		return func(w io.Writer) error { _, err := io.WriteString(w, text); return err }
	}
	first, err := atomicfile.Stage(path, 0o640, write("first"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("before Commit: got %v", err)
	}
	if err := errors.Join(first.Commit(), first.Discard()); err != nil {
		t.Fatal(err)
	}
	holds(t, path, "first")
	second, err := atomicfile.Stage(path, 0o640, write("second"))
	if err != nil {
		t.Fatal(err)
	}
	if err := second.Discard(); err != nil {
		t.Fatal(err)
	}
	holds(t, path, "first")
	if info, err := os.Stat(path); err != nil || info.Mode().Perm()&^0o640 != 0 {
		t.Errorf("got mode %v and %v, want 0640 at most", info.Mode(), err)
	}
	if got := names(t, dir); !slices.Equal(got, []string{"file"}) {
		t.Errorf("left behind: %v", got)
	}
}

func TestFolderIsCompleteOrOld(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "above", "folder")
	fill := func(text string, err error) func(string) error {
		return func(partial string) error {
			return errors.Join(os.WriteFile(filepath.Join(partial, text), []byte(text), 0o600), err)
		}
	}
	if err := atomicfile.Folder(path, fill("old", nil)); err != nil {
		t.Fatal(err)
	}
	if err := atomicfile.Folder(path, fill("broken", errWanted)); !errors.Is(err, errWanted) {
		t.Errorf("got %v, want the filler's error", err)
	}
	if got := names(t, path); !slices.Equal(got, []string{"old"}) {
		t.Errorf("after a failure: got %v", got)
	}
	if err := atomicfile.Folder(path, fill("new", nil)); err != nil { // over what the failure left
		t.Fatal(err)
	}
	if got := names(t, path); !slices.Equal(got, []string{"new"}) {
		t.Errorf("got %v, want the new content alone", got)
	}
	if got := names(t, filepath.Dir(path)); !slices.Equal(got, []string{"folder"}) {
		t.Errorf("left behind: %v", got)
	}
}
