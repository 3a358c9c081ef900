// Package queue carries episodes from the ledger to workers and announcements
// back to readers, over JetStream. It is transport only: whatever a stream
// loses is sent again from the ledger, whatever it delivers twice is absorbed by
// the ledger.
//
//	           (1) claim    (2) publish    (3) mark
//	ledger ──────────────► Relay ──────────────► stream of jobs
//	  ▲  ▲                                            │ (4) fetch
//	  │  └──── (10) resend ◄── Sweeper                ▼
//	  │                                             Worker ── InProgress every AckWait/3
//	  │                                               │ (5) handle: rehearse, execute, compare
//	  └────────── (6) insert (7) COMMIT ◄─────────────┤
//	                                                  │ (8) ack
//	              (9) bury, COMMIT, then terminate ◄──┘ after the last attempt
//
// A crash at any arrow loses nothing and counts nothing twice:
//
//   - before (3) the message is published again under the same id; inside the
//     stream's window it is dropped there, later the ledger absorbs the result
//   - between (4) and (8) it is delivered again after AckWait
//   - a stream that came back empty has no message for an open job: (10) sends it
//     under its next attempt, because the old id may still count as a duplicate
//   - what is finished while another commit is under way shares one (6) and (7);
//     a group that fails is committed job by job
//   - an ack is no proof of ownership: two workers may finish one job, and the
//     first result counts
//
// Announcements go the same way to feeds, which are no record and are not synced. Each
// is published at least once, with an id (Nats-Msg-Id) that stays the same however
// often, and by one relay in the order in which the outbox took them in, but for what
// it repeats. A feed drops what is repeated soon (feedWindow); for the rest a reader
// remembers ids, or does what changes nothing the second time.
//
// The consumer has no MaxDeliver: a message that reached it would fall silent in
// the stream. Workers count deliveries themselves and write a dead letter. Read
// Worker.Run next.
package queue
