// Package ledger keeps what was audited, in Postgres: the only writer of
// results, and the only truth. Queues, caches and counters can all be rebuilt
// from it.
//
//	Enqueue ──► episode (open) + outbox ──► a queue's relay ──► a worker
//	                                                              │
//	          ┌──────────────── Finish, Commit ◄──────────────────┘
//	          ▼  one transaction
//	  action ► pair ► run_pair ► rollup, counter, cell, leaf, audit_conflict
//	          └► episode (done) + outbox
//
// A pair is stored under its key and the digest of its result: the same result
// is stored once, however many runs hold it; another result under the same key
// is a conflict, which is kept and shown. A run holds a key once (run_pair), an
// action's place in an episode holds one pair (action), and counters move by
// exactly the rows that run_pair gained. Verify recounts everything.
//
// It is not a queue and not a report: package queue moves its outbox, packages
// gate and web read it through the ports of package audit. Read Ledger.Commit
// next, then the schema in folder migrations.
package ledger
