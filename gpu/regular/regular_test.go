package regular_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"understudy/gpu/regular"
)

// What is no file is refused at once, with its name, its kind and a remedy.
func TestRead(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file, pipe, link := filepath.Join(dir, "file"), filepath.Join(dir, "pipe"), filepath.Join(dir, "link")
	if err := errors.Join(os.WriteFile(file, []byte("text"), 0o600), syscall.Mkfifo(pipe, 0o600), os.Symlink(pipe, link)); err != nil {
		t.Fatal(err)
	}
	if data, err := regular.Read(file, 4); err != nil || string(data) != "text" {
		t.Errorf("a file: %q, %v", data, err)
	}
	for _, test := range []struct{ path, names, reason string }{
		{pipe, "named pipe", "opening it would wait for a writer"},
		{link, "named pipe", "a link is what it leads to"},
		{dir, "folder", "not to be read"},
		{"/dev/zero", "device", "never ends"},
	} {
		_, err := regular.Read(test.path, 100)
		var irregular *regular.Error
		if !errors.As(err, &irregular) || !strings.Contains(err.Error(), test.names) || !strings.Contains(err.Error(), test.path) {
			t.Errorf("%s: %v; want it refused as a %s: %s", test.path, err, test.names, test.reason)
		}
	}
	if _, err := regular.Read(file, 3); err == nil || !strings.Contains(err.Error(), "longer than 3 bytes") {
		t.Errorf("a long file: %v", err)
	}
	if _, err := regular.Read(filepath.Join(dir, "none"), 3); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
}
