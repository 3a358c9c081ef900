package queue_test

import (
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"understudy/audit"
)

// newCluster starts three servers with JetStream and returns them with a connection
// that knows all of them.
func newCluster(t *testing.T) ([]*server.Server, *nats.Conn) {
	t.Helper()
	var (
		servers []*server.Server
		urls    []string
		ports   = freePorts(t, 3)
		routes  []*url.URL // a server of a JetStream cluster wants to know them before it starts
	)
	for _, port := range ports {
		routes = append(routes, &url.URL{Scheme: "nats", Host: net.JoinHostPort("127.0.0.1", strconv.Itoa(port))})
	}
	for i, port := range ports {
		s, err := server.NewServer(&server.Options{
			ServerName: fmt.Sprint("n", i), Host: "127.0.0.1", Port: -1, NoSigs: true, JetStream: true, StoreDir: t.TempDir(),
			Cluster: server.ClusterOpts{Name: "c", Host: "127.0.0.1", Port: port, PoolSize: -1}, Routes: routes,
		})
		if err != nil {
			t.Fatal(err)
		}
		s.Start()
		t.Cleanup(func() {
			s.Shutdown()
			s.WaitForShutdown()
		})
		servers = append(servers, s)
	}
	for _, s := range servers {
		if !s.ReadyForConnections(time.Minute) {
			t.Fatal("a server of the cluster does not start")
		}
		urls = append(urls, s.ClientURL())
	}
	await(t, "one of them leads all three", func() bool {
		return slices.ContainsFunc(servers, func(s *server.Server) bool { return s.JetStreamIsLeader() && len(s.JetStreamClusterPeers()) == 3 })
	})
	conn, err := nats.Connect(strings.Join(urls, ","), nats.MaxReconnects(-1), nats.ReconnectWait(5*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	return servers, conn
}

// freePorts are ports that were free a moment ago.
func freePorts(t *testing.T, n int) []int {
	t.Helper()
	var ports []int
	for range n {
		l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	return ports
}

// With three replicas work goes on when the server that leads the stream is lost.
func TestReplicasOutliveAServer(t *testing.T) {
	t.Parallel()
	b := setup(t)
	servers, conn := newCluster(t)
	var err error
	if b.js, err = jetstream.New(conn); err != nil {
		t.Fatal(err)
	}
	b.config.Replicas = 3
	start(t, b.relay(t), b.worker(t, rehearsed), b.sweeper(t))
	b.enqueue(t, newEpisodes("before", 4)...)
	await(t, "the first episodes are done", func() bool { return b.progress(t).Done == 4 })
	stream, err := b.js.Stream(t.Context(), "AUDIT_JOBS")
	if err != nil {
		t.Fatal(err)
	}
	info := stream.CachedInfo()
	if info.Config.Replicas != 3 || info.Cluster == nil || len(info.Cluster.Replicas) != 2 {
		t.Fatalf("stream %+v in %+v, want a leader and two replicas", info.Config, info.Cluster)
	}
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
	var err error
	if b.js, err = jetstream.New(conn); err != nil {
		t.Fatal(err)
	}
	if err := b.relay(t).Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.config.Replicas = 3
	if err := b.relay(t).Flush(t.Context()); !strings.Contains(audit.ErrorHint(err), "nats stream rm AUDIT_") {
		t.Fatalf("feeds of one server, then three replicas: %v (%s); want what to delete", err, audit.ErrorHint(err))
	}
	for _, name := range []string{"AUDIT_RESULTS", "AUDIT_SCORES"} {
		if err := b.js.DeleteStream(t.Context(), name); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.relay(t).Flush(t.Context()); err != nil {
		t.Errorf("after they were deleted: %v", err)
	}
}

func TestALoneServerKeepsOneReplica(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.config.Replicas = 3
	_, err := b.sweeper(t).SweepOnce(t.Context())
	if audit.ErrorCode(err) != audit.CodeInvalid || !strings.Contains(audit.ErrorHint(err), "stream_replicas") {
		t.Errorf("three replicas on one server: %v (%s); want the setting named", err, audit.ErrorHint(err))
	}
}
