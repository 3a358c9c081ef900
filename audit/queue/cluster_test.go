package queue_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"understudy/audit"
)

// newCluster starts three servers with JetStream and returns them with a connection
// that knows all of them.
func newCluster(t *testing.T) ([]*server.Server, *nats.Conn) {
	t.Helper()
	var (
		servers []*server.Server
		urls    []string
		doors   = []*door{newDoor(t), newDoor(t), newDoor(t)}
		routes  []*url.URL // a server of a JetStream cluster wants to know them before it starts
	)
	for _, d := range doors {
		routes = append(routes, &url.URL{Scheme: "nats", Host: d.Addr().String()})
	}
	for i, d := range doors {
		s, err := server.NewServer(&server.Options{
			ServerName: fmt.Sprint("n", i), Host: "127.0.0.1", Port: -1, NoSigs: true, JetStream: true, StoreDir: t.TempDir(),
			Cluster: server.ClusterOpts{Name: "c", Host: "127.0.0.1", Port: -1, PoolSize: -1, NoAdvertise: true}, Routes: routes,
		})
		if err != nil {
			t.Fatal(err)
		}
		s.Start()
		t.Cleanup(func() {
			s.Shutdown()
			s.WaitForShutdown()
		})
		d.leadTo(s)
		servers = append(servers, s)
	}
	for _, s := range servers {
		if !s.ReadyForConnections(patience) {
			t.Fatal("a server of the cluster does not start")
		}
		urls = append(urls, s.ClientURL())
	}
	await(t, "one of them leads all three", func() bool {
		return slices.ContainsFunc(servers, func(s *server.Server) bool { return s.JetStreamIsLeader() && len(s.JetStreamClusterPeers()) == 3 })
	})
	conn, err := nats.Connect(strings.Join(urls, ","), reconnecting()...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	return servers, conn
}

// door is an address that leads to a server's routes. It is known, and taken, before the
// server chooses its own.
type door struct {
	net.Listener
	inside errgroup.Group
}

func newDoor(t *testing.T) *door {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	d := &door{Listener: l}
	t.Cleanup(func() {
		_ = l.Close()
		_ = d.inside.Wait() // its connections end with the servers, whose clean-up comes before this one
	})
	return d
}

// leadTo opens the door: whoever comes in is led to the server.
func (d *door) leadTo(s *server.Server) {
	d.inside.Go(func() error {
		for {
			from, err := d.Accept()
			if err != nil {
				return err
			}
			d.inside.Go(func() error { return lead(from, s) })
		}
	})
}

// lead carries one connection to a server's routes. Before the server listens, and when
// it is gone, there is none: the other side tries again.
func lead(from net.Conn, s *server.Server) error {
	defer from.Close()
	address := s.ClusterAddr()
	if address == nil {
		return nil
	}
	to, err := net.DialTCP("tcp", nil, address)
	if err != nil {
		return err
	}
	defer to.Close()
	var both errgroup.Group
	for _, ends := range [][2]net.Conn{{from, to}, {to, from}} {
		both.Go(func() error {
			_, err := io.Copy(ends[0], ends[1])
			return errors.Join(err, ends[0].Close(), ends[1].Close()) // either end hangs up for both
		})
	}
	return both.Wait()
}

// With three replicas work goes on when the server that leads the stream is lost.
func TestReplicasOutliveAServer(t *testing.T) {
	t.Parallel()
	b := setup(t)
	servers, conn := newCluster(t)
	b.js = withPatience(t, conn)
	b.config.Replicas = 3
	b.config.AckWait, b.config.Attempts = 2*time.Second, many // what the lost server had handed out
	start(t, b.relay(t), b.worker(t, rehearsed), b.sweeper(t))
	b.enqueue(t, newEpisodes("before", 4)...)
	await(t, "the first episodes are done", func() bool { return b.progress(t).Done == 4 })
	var info *jetstream.StreamInfo
	settle(t, "the stream has a leader and two replicas", func() error {
		stream, err := b.js.Stream(t.Context(), "AUDIT_JOBS")
		if err != nil {
			return err
		}
		if info = stream.CachedInfo(); info.Config.Replicas != 3 {
			t.Fatalf("stream %+v, want three replicas", info.Config)
		}
		if info.Cluster == nil || info.Cluster.Leader == "" || len(info.Cluster.Replicas) != 2 {
			return fmt.Errorf("the cluster is %+v", info.Cluster)
		}
		return nil
	})
	for _, s := range servers {
		if s.Name() == info.Cluster.Leader {
			s.Shutdown()
			s.WaitForShutdown()
		}
	}
	b.enqueue(t, newEpisodes("after", 4)...)
	await(t, "the episodes after the loss are done", func() bool { return b.progress(t).Done == 8 })
	b.verify(t)
}

// A feed that was made for one server is no longer one when replicas are asked for.
func TestAFeedOfOneServerIsNotReplicated(t *testing.T) {
	t.Parallel()
	b := setup(t)
	_, conn := newCluster(t)
	b.js = withPatience(t, conn)
	b.flush(t)
	b.config.Replicas = 3
	relay := b.relay(t)
	refused := answer(t, func() error { return relay.Flush(t.Context()) })
	if !strings.Contains(audit.ErrorHint(refused), "nats stream rm AUDIT_") {
		t.Fatalf("feeds of one server, then three replicas: %v (%s); want what to delete", refused, audit.ErrorHint(refused))
	}
	for _, name := range []string{"AUDIT_RESULTS", "AUDIT_SCORES"} {
		settle(t, name+" is deleted", func() error {
			if err := b.js.DeleteStream(t.Context(), name); !errors.Is(err, jetstream.ErrStreamNotFound) {
				return err
			}
			return nil
		})
	}
	b.flush(t)
}

func TestALoneServerKeepsOneReplica(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.config.Replicas = 3
	sweeper := b.sweeper(t)
	err := answer(t, func() error {
		_, err := sweeper.SweepOnce(t.Context())
		return err
	})
	if audit.ErrorCode(err) != audit.CodeInvalid || !strings.Contains(audit.ErrorHint(err), "stream_replicas") {
		t.Errorf("three replicas on one server: %v (%s); want the setting named", err, audit.ErrorHint(err))
	}
}
