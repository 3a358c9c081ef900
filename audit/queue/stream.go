package queue

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"understudy/audit"
)

const (
	// consumerName is the one durable consumer that all workers share.
	consumerName = "workers"
	// maxAckPending bounds what all workers hold together; beyond it JetStream
	// stops delivering without an error, so it is far above any real sum.
	maxAckPending = 4096
	// resultsKept bounds the feed of announcements, which readers may miss: the
	// truth is in the ledger.
	resultsKept = 24 * time.Hour
	resultBytes = 256 << 20
)

// callTimeout bounds one request to the server. A request that a lost
// connection took with it is never answered, so it is no longer than a few
// times the wait for an ack.
func (c Config) callTimeout() time.Duration { return min(10*time.Second, 5*c.AckWait) }

// feedWindow is how long a feed drops announcements that it has seen. A relay that
// lives repeats one within this time: an acknowledgement that did not come is given
// up after a call, and the next try begins after the longest pause. Whatever is
// repeated later (the relay was killed and nobody took its place, the ledger was away)
// is in the feed twice, under one id by which a reader knows it. No longer, because
// the server keeps the ids of up to three windows in memory, and announcements come by
// the thousand a second. 100 ms is the least that a server takes.
func (c Config) feedWindow() time.Duration {
	return max(min(c.Duplicates, c.callTimeout()+c.BackoffCap), 100*time.Millisecond)
}

// streams knows the names of one ledger's streams and makes them.
type streams struct {
	js     jetstream.JetStream
	config Config
}

// open checks the configuration. Relay, Worker and Sweeper make streams and
// consumer where they are missing.
func open(js jetstream.JetStream, config Config) (*streams, error) {
	if err := config.Validate(); err != nil {
		return nil, err
	}
	return &streams{js: js, config: config.withDefaults()}, nil
}

func (s *streams) name(topic audit.Topic) string {
	return strings.ToUpper(s.config.Prefix) + "_" + strings.ToUpper(string(topic)) + "S"
}

func (s *streams) subject(topic audit.Topic, suffix string) string {
	return s.config.Prefix + "." + string(topic) + "." + suffix
}

// ensure makes what is missing. It changes nothing that is as it should be.
func (s *streams) ensure(ctx context.Context) (jetstream.Stream, jetstream.Consumer, error) {
	ctx, cancel := context.WithTimeout(ctx, s.config.callTimeout())
	defer cancel()
	jobs, err := s.makeStream(ctx, jetstream.StreamConfig{
		Name:        s.name(audit.TopicJob),
		Description: "episodes to audit; the ledger sends again what is lost here",
		Subjects:    []string{s.subject(audit.TopicJob, ">")},
		Storage:     jetstream.FileStorage,
		Retention:   jetstream.WorkQueuePolicy,
		Discard:     jetstream.DiscardNew, // the default drops the oldest job without an error
		MaxMsgs:     s.config.MaxMessages,
		MaxBytes:    s.config.MaxBytes,
		MaxMsgSize:  maxMessageSize,
		Duplicates:  s.config.Duplicates,
		Replicas:    s.config.Replicas,
		AllowDirect: true, // the sweeper looks messages up by sequence
	})
	if err != nil {
		return nil, nil, unusable("make the stream of jobs", err)
	}
	for topic, description := range map[audit.Topic]string{
		audit.TopicResult: "announcements of committed episodes: a feed, not a record",
		audit.TopicScore:  "what trainers were paid: a feed, not a record",
	} {
		if _, err := s.makeStream(ctx, s.feed(topic, description)); err != nil {
			return nil, nil, unusable("make the stream of "+string(topic)+"s", err)
		}
	}
	consumer, err := jobs.CreateOrUpdateConsumer(ctx, jetstream.ConsumerConfig{
		Durable:       consumerName,
		AckPolicy:     jetstream.AckExplicitPolicy,
		AckWait:       s.config.AckWait,
		MaxAckPending: maxAckPending,
		MaxDeliver:    -1, // workers count; at a limit of the server a message falls silent
	})
	if err != nil {
		return nil, nil, unusable("make the consumer of jobs", err)
	}
	return jobs, consumer, nil
}

// feed is a stream that readers may miss a part of, so that none of its messages is
// synced to disk by itself: a server in process would take a millisecond for each, less
// often than a trainer is paid. Replicated streams do not have that choice.
func (s *streams) feed(topic audit.Topic, description string) jetstream.StreamConfig {
	persist := jetstream.AsyncPersistMode
	if s.config.Replicas > 1 {
		persist = jetstream.DefaultPersistMode
	}
	return jetstream.StreamConfig{
		Name:        s.name(topic),
		Description: description,
		Subjects:    []string{s.subject(topic, ">")},
		Storage:     jetstream.FileStorage,
		Retention:   jetstream.LimitsPolicy,
		Discard:     jetstream.DiscardOld,
		MaxAge:      resultsKept,
		MaxBytes:    resultBytes,
		MaxMsgSize:  maxMessageSize,
		Duplicates:  s.config.feedWindow(),
		Replicas:    s.config.Replicas,
		PersistMode: persist,
	}
}

// makeStream leaves a stream of the same settings alone: several services ask at
// once, and a server that updates a stream while another of us makes its consumer
// races with itself (seen in nats-server 2.15.2).
func (s *streams) makeStream(ctx context.Context, want jetstream.StreamConfig) (jetstream.Stream, error) {
	stream, err := s.js.Stream(ctx, want.Name)
	if err != nil {
		return s.js.CreateOrUpdateStream(ctx, want)
	}
	have := stream.CachedInfo().Config
	if have.PersistMode == jetstream.AsyncPersistMode && want.Replicas > 1 {
		return nil, &audit.Error{
			Code: audit.CodeInvalid, Message: "stream " + want.Name + " was made for one server and cannot be replicated",
			Hint: "delete it (nats stream rm " + want.Name + "): it is a feed, and is made again with replicas",
		}
	}
	want.PersistMode = have.PersistMode // nothing changes that of a stream that is there
	if sameSettings(have, want) {
		return stream, nil
	}
	return s.js.UpdateStream(ctx, want)
}

// sameSettings compares what we set; a server fills in the rest.
func sameSettings(have, want jetstream.StreamConfig) bool {
	return slices.Equal(have.Subjects, want.Subjects) && have.Storage == want.Storage && have.Retention == want.Retention &&
		have.Discard == want.Discard && have.MaxAge == want.MaxAge && have.MaxBytes == want.MaxBytes &&
		have.MaxMsgSize == want.MaxMsgSize && have.Duplicates == want.Duplicates && have.Replicas == want.Replicas &&
		have.AllowDirect == want.AllowDirect && (have.MaxMsgs == want.MaxMsgs || have.MaxMsgs < 0 && want.MaxMsgs == 0)
}

// closed reports whether the connection is gone for good.
func (s *streams) closed() bool { return s.js.Conn().IsClosed() }

// connected reports whether the server can be asked just now.
func (s *streams) connected() bool { return s.js.Conn().Status() == nats.CONNECTED }

func unusable(what string, err error) error {
	if _, known := errors.AsType[*audit.Error](err); known {
		return err
	}
	if e, ok := errors.AsType[*jetstream.APIError](err); ok && (e.ErrorCode == replicasNotSupported || e.ErrorCode == notEnoughPeers) {
		return &audit.Error{
			Code: audit.CodeInvalid, Message: what, Err: err,
			Hint: "ask for no more replicas than the NATS cluster has servers with JetStream (stream_replicas); a lone server keeps one",
		}
	}
	return &audit.Error{
		Code: audit.CodeInfrastructure, Message: what, Err: err,
		Hint: "check that the NATS server runs with JetStream and has free space; no work is lost meanwhile",
	}
}

// What JetStream answers to a stream of more replicas than it has servers.
const (
	notEnoughPeers       jetstream.ErrorCode = 10005
	replicasNotSupported jetstream.ErrorCode = 10074
)

// errClosed is returned when the caller closed the connection under a service.
var errClosed = errors.New("the connection to NATS is closed")

// pause waits for about d, less when ctx ends.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// jitter is a random wait before try n (from 1): full jitter, so that many
// workers that failed together do not come back together.
func (c Config) jitter(n int) time.Duration {
	most := c.BackoffCap
	if n < 16 { // beyond that the shift alone exceeds any cap
		most = min(c.Backoff<<max(n-1, 0), c.BackoffCap)
	}
	return rand.N(max(most, 1))
}

// steady runs step until ctx ends. A step that fails is logged and tried again
// after a growing pause; only a crash and a closed connection end it.
func (s *streams) steady(ctx context.Context, what string, step func(ctx context.Context) error) error {
	failures := 0
	for ctx.Err() == nil {
		err := step(ctx)
		crash, _ := crashed(err)
		switch {
		case err == nil:
			failures = 0
		case crash != nil:
			return crash
		case ctx.Err() == nil && s.closed():
			return fmt.Errorf("%s: %w", what, errClosed)
		case ctx.Err() == nil:
			failures++
			logFailure(ctx, s.config.Logger, what, failures, err)
			pause(ctx, s.config.jitter(failures))
		}
	}
	return nil
}
