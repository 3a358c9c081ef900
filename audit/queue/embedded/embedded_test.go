package embedded_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/goleak"

	"understudy/audit"
	"understudy/audit/leaktest"
	"understudy/audit/queue/embedded"
)

func TestMain(m *testing.M) {
	// nats-server's one clock goroutine ends some time after its last store.
	leaktest.Main(m, goleak.IgnoreTopFunction("github.com/nats-io/nats-server/v2/server/ats.Register.func1"))
}

func start(t *testing.T, dir string) *embedded.Server {
	t.Helper()
	s, err := embedded.Start(t.Context(), embedded.Config{Dir: dir})
	if err != nil {
		t.Fatalf("start: %v", err)
	}
	t.Cleanup(func() {
		if err := s.Stop(t.Context()); err != nil {
			t.Errorf("stop: %v", err)
		}
	})
	return s
}

func stream(t *testing.T, s *embedded.Server) (jetstream.JetStream, jetstream.Stream, func()) {
	t.Helper()
	conn, err := s.Connect()
	if err != nil {
		t.Fatal(err)
	}
	js, err := jetstream.New(conn)
	if err != nil {
		t.Fatal(err)
	}
	st, err := js.CreateOrUpdateStream(t.Context(), jetstream.StreamConfig{Name: "work", Subjects: []string{"work.>"}})
	if err != nil {
		t.Fatal(err)
	}
	return js, st, conn.Close
}

func TestMessagesSurviveRestart(t *testing.T) {
	dir := t.TempDir()
	first := start(t, dir)
	js, _, closeConn := stream(t, first)
	for range 10 {
		if _, err := js.Publish(t.Context(), "work.a", []byte("x")); err != nil {
			t.Fatal(err)
		}
	}
	closeConn()
	if err := first.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	_, st, closeConn := stream(t, start(t, dir))
	defer closeConn()
	info, err := st.Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if info.State.Msgs != 10 {
		t.Errorf("got %d messages after a restart, want 10", info.State.Msgs)
	}
}

func TestStartRefuses(t *testing.T) {
	used := t.TempDir()
	start(t, used)
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		dir, want, reason string
	}{
		{used, "in use by process", "two servers on one folder would corrupt the streams"},
		{file, "cannot use the folder", "a file stands where the folder should"},
	} {
		_, err := embedded.Start(t.Context(), embedded.Config{Dir: test.dir})
		if e, ok := errors.AsType[*audit.Error](err); !ok || e.Code != audit.CodeInfrastructure || e.Hint == "" {
			t.Errorf("%s: got %v, want an infrastructure error with a hint", test.reason, err)
		} else if !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got %q, want it to say %q", test.reason, err, test.want)
		}
	}
}
