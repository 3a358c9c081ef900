package main_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	main "understudy/cmd/understudy"
)

func TestPrecedence(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "settings.yaml")
	if err := os.WriteFile(file, []byte("# a comment\nlisten: file:1\nstop_timeout: 5s\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		flags, env map[string]string
		listen     string
		stop       time.Duration
		reason     string
	}{
		{map[string]string{"listen": "flag:3", "config": file}, map[string]string{"UNDERSTUDY_LISTEN": "env:2"}, "flag:3", 5 * time.Second, "a flag wins over everything, the file speaks for what it alone sets"},
		{map[string]string{"config": file}, map[string]string{"UNDERSTUDY_LISTEN": "env:2"}, "env:2", 5 * time.Second, "the environment wins over the file"},
		{nil, map[string]string{"UNDERSTUDY_CONFIG": file}, "file:1", 5 * time.Second, "the file wins over the default, and the environment may name it"},
		{nil, nil, "127.0.0.1:8080", 20 * time.Second, "nothing said: the defaults"},
	} {
		cfg, err := main.LoadConfig(test.flags, test.env)
		if err != nil {
			t.Errorf("%s: %v", test.reason, err)
			continue
		}
		if cfg.Listen != test.listen || cfg.StopTimeout != test.stop {
			t.Errorf("%s: got %s and %s, want %s and %s", test.reason, cfg.Listen, cfg.StopTimeout, test.listen, test.stop)
		}
	}
}

func TestDataDirWithoutHome(t *testing.T) {
	t.Parallel()
	closed := t.TempDir()
	if err := os.Chmod(closed, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, env := range []map[string]string{nil, {"HOME": ""}, {"HOME": "relative"}, {"HOME": closed}} {
		cfg, err := main.LoadConfig(nil, env)
		if err != nil {
			t.Fatal(err)
		}
		want := "/var/lib/understudy"
		if os.Geteuid() != 0 {
			want = filepath.Join(os.TempDir(), fmt.Sprintf("understudy-%d", os.Getuid()))
			if env["HOME"] == closed {
				want = filepath.Join(closed, ".local", "share", "understudy") // our own home is open to us
			}
		}
		if cfg.DataDir != want {
			t.Errorf("HOME %q: got %s, want %s", env["HOME"], cfg.DataDir, want)
		}
	}
}

func TestSecretsAreNeverPrinted(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ flag, value, want, reason string }{
		{"database-url", "postgres://u:geheim@db:5/x", "postgres://u:xxxxx@db:5/x", "a password in a URL"},
		{"database-url", "postgres:///x?host=/run&user=u&password=geheim", "password=xxxxx", "a password in the query"},
		{"database-url", "host=db user=u password=geheim", "xxxxx", "keywords: the whole text may be secret"},
		{"nats-url", "nats://geheim@one:4222,nats://u:geheim@two:4222", "nats://xxxxx@one:4222,nats://u:xxxxx@two:4222", "a token in the user's place, and a second server"},
	} {
		cfg, err := main.LoadConfig(map[string]string{test.flag: test.value}, nil)
		if err != nil {
			t.Fatalf("%s: %v", test.reason, err)
		}
		var log bytes.Buffer
		slog.New(slog.NewJSONHandler(&log, nil)).Info("start", slog.Any("config", cfg))
		printed := log.String() + string(cfg.Effective()) + fmt.Sprint(cfg.DatabaseURL, cfg.NATSURL)
		printed += fmt.Sprintf("%v %+v", cfg, cfg)
		if strings.Contains(printed, "geheim") || !strings.Contains(printed, test.want) {
			t.Errorf("%s: got %s, want %s in it and no secret", test.reason, printed, test.want)
		}
	}
}

func TestDigestNamesTheConfiguration(t *testing.T) {
	t.Parallel()
	a, b := main.Default(), main.Default()
	if a.Digest() != b.Digest() {
		t.Error("equal configurations have two digests")
	}
	b.DatabaseConnections++
	if a.Digest() == b.Digest() {
		t.Error("two configurations have one digest")
	}
}

func TestSuggest(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ given, want, reason string }{
		{"verfy", "did you mean verify?", "a letter is missing"},
		{"mgirate", "did you mean migrate?", "two letters are swapped"},
		{"xxxxxxxx", "one of verify, migrate, serve", "nothing is near: a few words are all named"},
	} {
		if got := main.Suggest(test.given, "verify", "migrate", "serve"); got != test.want {
			t.Errorf("%s: got %q, want %q (%s)", test.given, got, test.want, test.reason)
		}
	}
}

func TestProgress(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	clock := time.Unix(0, 0)
	add, end := main.Progress(&out, true, 100, func() time.Time { return clock })
	clock = clock.Add(10 * time.Second)
	add(20)
	if got, want := out.String(), "audits: 20/100, 2/s, 40s left"; !strings.Contains(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	clock = clock.Add(100 * time.Millisecond)
	out.Reset()
	if add(1); out.Len() != 0 {
		t.Errorf("got %q a tenth of a second later, want nothing", out.String())
	}
	if end(); !strings.HasSuffix(out.String(), "\n") {
		t.Errorf("got %q at the end, want a whole line", out.String())
	}
	out.Reset()
	add, end = main.Progress(&out, false, 100, time.Now)
	add(100)
	end()
	if out.Len() != 0 {
		t.Errorf("got %q where nobody watches, want nothing", out.String())
	}
}

func TestAStartLogsWhatIsNotAsItComes(t *testing.T) {
	t.Parallel()
	cfg := main.Default()
	cfg.Listen = "127.0.0.1:9999"
	if got := slog.AnyValue(cfg).Resolve().String(); got != "[listen=127.0.0.1:9999]" {
		t.Errorf("got %s, want the one setting that differs", got)
	}
}

func TestHelpHasAnExampleOfEachCommand(t *testing.T) {
	t.Parallel()
	dir := folder(t)
	list := run(t, program(t, dir, nil, "--help"))
	if list.status != 0 {
		t.Fatalf("got %+v, want status 0", list)
	}
	for _, name := range []string{"demo", "serve", "worker", "audit", "import", "train", "eval", "rehearse", "gate", "report", "probe", "sandbox", "verify", "drop", "migrate", "bench", "version"} {
		got := run(t, program(t, dir, nil, name, "--help"))
		if strings.Contains(got.stdout, "  [flags]") || !strings.Contains(got.stdout, " --data-dir") {
			t.Errorf("%s: got %q, want a usage line and the settings' names", name, got.stdout)
		}
		if !strings.Contains(list.stdout, "\n  "+name+" ") || got.status != 0 || !strings.Contains(got.stdout, "example: understudy "+name) {
			t.Errorf("%s: got %+v, want it listed, status 0 and an example", name, got)
		}
	}
}
