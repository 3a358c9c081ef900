package audit

import "time"

// Job is one episode that waits for its audit within a run. The ledger keeps
// it; a queue carries it. Its ID is the digest of the episode's content, so that
// the same episode enters a run once, however often it is sent.
type Job struct {
	Run     string
	ID      Digest
	Attempt int      // of publication, from 1: a republish must not look like the message it replaces
	Episode *Episode // nil in a message that is only a reference; load it from the ledger
}

// Finished is a job with the pairs that its audit gave.
type Finished struct {
	Job   Job
	Pairs []Pair
}

// Receipt says what became of an episode's pairs when they were committed.
type Receipt struct {
	Inserted  int  // pairs that were new to the run and moved its counters
	Known     int  // pairs that the run already had, with the same result
	Conflicts int  // pairs whose key or place the ledger holds with another result
	Duplicate bool // the job had been finished before
	Late      bool // the job was dead, or had been published again in the meantime
}

// Burial is why a job was given up.
type Burial struct {
	Fault    Fault
	Reason   string
	Delivery int // how many times the message had been delivered
}

// ClaimLimit bounds what a relay takes from the outbox at once.
type ClaimLimit struct {
	Jobs, Announcements int
	Bytes               int64 // of each kind, beyond which no further message begins
}

// Outgoing is one message that the ledger wants published. Its ID is the same each
// time it is published: a stream that has seen the ID drops the message, and says so.
type Outgoing struct {
	Row     int64 // of the outbox
	Topic   Topic
	ID      string
	Subject string // suffix of the topic's subject: safe characters only
	Payload []byte
	Trace   string // W3C traceparent of what queued it; "" = none
	Seq     uint64 // set by the publisher: the stream's sequence; 0 = not published
	Refused bool   // set by the publisher: no stream will ever take it, and it is no job
}

// Topic sorts messages into streams.
type Topic string

// The topics.
const (
	TopicJob    Topic = "job"    // episodes to audit: each is worked once
	TopicResult Topic = "result" // announcements of committed episodes: a feed for readers
	TopicScore  Topic = "score"  // what trainers were paid, as they were answered
)

// Sent is an open job that was published some time ago and has no result yet.
type Sent struct {
	Run     string
	ID      Digest
	Attempt int
	Message string // id of the message that carries it
	Seq     uint64 // where the stream stored it
	At      time.Time
}
