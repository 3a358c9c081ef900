package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// demoStream carries the placeholder's one message.
const demoStream = "understudy_demo"

func demoCommand() command {
	return command{
		name: "demo", summary: "start everything and run it once (a placeholder in this build)",
		example: "understudy demo",
		setup:   func(*flag.FlagSet) runFunc { return demo },
	}
}

// demo opens the ledger and the transport and takes one message through both:
// published and synced, fetched, committed, acknowledged. It stands here until
// the audit itself fills it, and says so.
func demo(ctx context.Context, inv *invocation) (err error) {
	began := time.Now()
	r, err := openResources(ctx, inv.config, inv.log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.close(ctx)) }()
	fmt.Fprintf(inv.stdout, "PostgreSQL  %s, schema version %d\nJetStream   %s\nopen after  %v\n",
		r.postgresName(), r.schema.To, r.natsName(), time.Since(began).Round(time.Millisecond))

	began = time.Now()
	if err := roundTrip(ctx, r, inv.config); err != nil {
		return err
	}
	fmt.Fprintf(inv.stdout, "one message published, fetched, committed and acknowledged in %v\n"+
		"This is a placeholder: the build has no audit to demonstrate yet.\n", time.Since(began).Round(time.Microsecond))
	return nil
}

func roundTrip(ctx context.Context, r *resources, cfg Config) error {
	js, err := jetstream.New(r.nats)
	if err != nil {
		return fmt.Errorf("open JetStream: %w", err)
	}
	stream, err := js.CreateOrUpdateStream(ctx, jetstream.StreamConfig{Name: demoStream, Subjects: []string{demoStream}, Retention: jetstream.WorkQueuePolicy})
	if err != nil {
		return fmt.Errorf("make stream %s: %w", demoStream, err)
	}
	if _, err := js.Publish(ctx, demoStream, cfg.Effective()); err != nil {
		return fmt.Errorf("publish: %w", err)
	}
	consumer, err := stream.CreateOrUpdateConsumer(ctx, jetstream.ConsumerConfig{Durable: "demo", AckPolicy: jetstream.AckExplicitPolicy})
	if err != nil {
		return fmt.Errorf("make consumer: %w", err)
	}
	msg, err := consumer.Next(jetstream.FetchMaxWait(10 * time.Second))
	if err != nil {
		return fmt.Errorf("fetch: %w", err)
	}
	if err := recordConfiguration(ctx, r.pool, cfg); err != nil {
		return err
	}
	if err := msg.DoubleAck(ctx); err != nil { // work, commit, and only then acknowledge
		return fmt.Errorf("acknowledge: %w", err)
	}
	return nil
}
