package sandbox_test

import (
	"io/fs"
	"sync/atomic"
	"testing"
	"time"

	"understudy/audit"
	"understudy/sandbox"
	"understudy/sandbox/domains"
)

// slowDomain is a file system whose one domain's code is not read before gate closes.
type slowDomain struct {
	fs.FS
	path  string
	gate  chan struct{}
	reads atomic.Int32
	begun chan struct{}
}

func (s *slowDomain) Open(name string) (fs.File, error) {
	if name == s.path {
		if s.reads.Add(1) == 1 {
			close(s.begun)
		}
		<-s.gate
	}
	return s.FS.Open(name)
}

// While one domain loads, another opens; who asks for the one that loads gets the same.
func TestDomainsDoNotWaitForEachOther(t *testing.T) {
	t.Parallel()
	slow := &slowDomain{FS: domains.FS(), path: "retail/domain.star", gate: make(chan struct{}), begun: make(chan struct{})}
	r := sandbox.New(slow)
	t.Cleanup(func() { _ = r.Close() })
	found := make(chan audit.Environment, 2)
	for range cap(found) {
		go func() {
			env, err := r.Environment(t.Context(), "retail")
			if err != nil {
				t.Error(err)
			}
			found <- env
		}()
	}
	<-slow.begun
	other := make(chan error, 1)
	go func() {
		_, err := r.Environment(t.Context(), "retail-mini")
		other <- err
	}()
	select {
	case err := <-other:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(time.Minute):
		t.Error("another domain does not open while one loads")
	}
	close(slow.gate)
	if a, b := <-found, <-found; a != b || slow.reads.Load() != 1 {
		t.Errorf("two environments of one name, loaded %d times", slow.reads.Load())
	}
}
