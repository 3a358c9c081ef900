package queue

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/nats-io/nats.go/jetstream"

	"understudy/audit"
)

// Farm deals out pieces of work of one run to workers on other machines, and brings
// back what they return. What the pieces say is the caller's affair.
//
//	run ─► pieces (work queue) ─► worker ─► returns (work queue) ─► run
//	 └──► blobs (object store) ────┘ by name or by digest
//
// A piece is acknowledged after its return is stored, so that a worker that dies
// loses nothing: the piece is delivered to another. What comes back twice counts once,
// and what was made for another version of the run's data is dropped.
type Farm struct {
	streams
	name string
}

// Piece is one piece of work. Its ID is unique in the run.
type Piece struct {
	ID      string `json:"id"`
	Version string `json:"version"` // of what it is to be done with
	Data    []byte `json:"data"`
}

// returned is what a worker sends back of a piece.
type returned struct {
	ID      string `json:"id"`
	Version string `json:"version"`
	Data    []byte `json:"data,omitempty"`
	Blob    string `json:"blob,omitempty"`  // the data, where it is too large for a message
	Fault   string `json:"fault,omitempty"` // it cannot be done
}

// maxInline is the most data of a message; larger data travels as a blob. Base64 makes
// a third more of it, and the message has other fields.
const maxInline = maxMessageSize / 2

// ErrStale is returned, wrapped, by a worker's handler for a piece of a version that
// is gone: it is dropped.
var ErrStale = errors.New("the piece is of a version that is gone")

// NewFarm returns the farm of a run. Runs of different names do not see each other.
func NewFarm(js jetstream.JetStream, name string, config Config) (*Farm, error) {
	s, err := open(js, config)
	if err != nil {
		return nil, err
	}
	token := strings.Map(func(r rune) rune {
		if strings.ContainsRune(".*> \t\r\n/\\", r) {
			return '-'
		}
		return r
	}, name)
	if token == "" {
		return nil, &audit.Error{Code: audit.CodeInvalid, Message: "a farm without a name", Hint: "name the run"}
	}
	return &Farm{streams: *s, name: token}, nil
}

func (f *Farm) pieces() string  { return f.config.Prefix + ".piece." + f.name }
func (f *Farm) returns() string { return f.config.Prefix + ".return." + f.name }

// lines makes the two streams where they are missing.
func (f *Farm) lines(ctx context.Context) (pieces, returns jetstream.Stream, err error) {
	ctx, cancel := context.WithTimeout(ctx, f.config.callTimeout())
	defer cancel()
	stream := func(name, subject, description string) (jetstream.Stream, error) {
		return f.makeStream(ctx, jetstream.StreamConfig{
			Name: strings.ToUpper(f.config.Prefix) + "_" + name, Description: description, Subjects: []string{f.config.Prefix + "." + subject + ".>"},
			Storage: jetstream.FileStorage, Retention: jetstream.WorkQueuePolicy, Discard: jetstream.DiscardNew,
			MaxMsgs: f.config.MaxMessages, MaxBytes: f.config.MaxBytes, MaxMsgSize: maxMessageSize, Duplicates: f.config.Duplicates, Replicas: f.config.Replicas,
		})
	}
	if pieces, err = stream("PIECES", "piece", "pieces of work for workers elsewhere"); err == nil {
		returns, err = stream("RETURNS", "return", "what workers elsewhere returned")
	}
	if err != nil {
		return nil, nil, unusable("make the streams of pieces", err)
	}
	return pieces, returns, nil
}

func (f *Farm) consumer(ctx context.Context, stream jetstream.Stream, name, subject string) (jetstream.Consumer, error) {
	ctx, cancel := context.WithTimeout(ctx, f.config.callTimeout())
	defer cancel()
	c, err := stream.CreateOrUpdateConsumer(ctx, jetstream.ConsumerConfig{
		Durable: name + "-" + f.name, FilterSubject: subject, AckPolicy: jetstream.AckExplicitPolicy,
		AckWait: f.config.AckWait, MaxAckPending: maxAckPending, MaxDeliver: -1, // workers count
	})
	if err != nil {
		return nil, unusable("make the consumer of "+subject, err)
	}
	return c, nil
}

// store is the object store of blobs.
func (f *Farm) store(ctx context.Context) (jetstream.ObjectStore, error) {
	bucket := strings.ToUpper(f.config.Prefix) + "_BLOBS"
	store, err := f.js.ObjectStore(ctx, bucket)
	if errors.Is(err, jetstream.ErrBucketNotFound) || errors.Is(err, jetstream.ErrStreamNotFound) {
		store, err = f.js.CreateObjectStore(ctx, jetstream.ObjectStoreConfig{
			Bucket: bucket, Description: "weights and large results of runs", Storage: jetstream.FileStorage, Replicas: f.config.Replicas,
		})
		if errors.Is(err, jetstream.ErrBucketExists) { // somebody else was quicker
			store, err = f.js.ObjectStore(ctx, bucket)
		}
	}
	if err != nil {
		return nil, unusable("open the object store", err)
	}
	return store, nil
}

// blobName keeps the blobs of runs apart; equal content of one run is one blob.
func (f *Farm) blobName(digest string) string { return f.name + "/" + digest }

// Put stores a blob, in chunks, and returns its digest. One that is there is left.
func (f *Farm) Put(ctx context.Context, content io.ReadSeeker) (string, error) {
	h := sha256.New()
	if _, err := io.Copy(h, content); err != nil {
		return "", fmt.Errorf("read a blob: %w", err)
	}
	if _, err := content.Seek(0, io.SeekStart); err != nil {
		return "", fmt.Errorf("read a blob again: %w", err)
	}
	digest := hex.EncodeToString(h.Sum(nil))
	store, err := f.store(ctx)
	if err != nil {
		return "", err
	}
	if _, err := store.GetInfo(ctx, f.blobName(digest)); err == nil {
		return digest, nil
	}
	if _, err := store.Put(ctx, jetstream.ObjectMeta{Name: f.blobName(digest)}, content); err != nil {
		return "", unusable("store a blob", err)
	}
	return digest, nil
}

// Get copies a blob and fails unless it has the digest. One that is gone is ErrStale.
func (f *Farm) Get(ctx context.Context, digest string, into io.Writer) (err error) {
	store, err := f.store(ctx)
	if err != nil {
		return err
	}
	blob, err := store.Get(ctx, f.blobName(digest))
	if errors.Is(err, jetstream.ErrObjectNotFound) {
		return fmt.Errorf("blob %.12s: %w", digest, ErrStale)
	}
	if err != nil {
		return unusable("fetch a blob", err)
	}
	defer func() { err = errors.Join(err, blob.Close()) }()
	h := sha256.New()
	if _, err := io.Copy(io.MultiWriter(into, h), blob); err != nil {
		return unusable("fetch a blob", err)
	}
	if got := hex.EncodeToString(h.Sum(nil)); got != digest {
		return &audit.Error{Code: audit.CodeConflict, Message: fmt.Sprintf("blob %.12s has the content of %.12s", digest, got), Hint: "something else wrote it: delete it from the object store"}
	}
	return nil
}

// Drop deletes a blob; one that is gone already is no error.
func (f *Farm) Drop(ctx context.Context, digest string) error {
	store, err := f.store(ctx)
	if err != nil {
		return err
	}
	if err := store.Delete(ctx, f.blobName(digest)); err != nil && !errors.Is(err, jetstream.ErrObjectNotFound) {
		return unusable("delete a blob", err)
	}
	return nil
}

// Post says what the run is, for workers to compare with what they are.
func (f *Farm) Post(ctx context.Context, notice []byte) error {
	store, err := f.store(ctx)
	if err != nil {
		return err
	}
	if _, err := store.PutBytes(ctx, f.blobName("notice"), notice); err != nil {
		return unusable("post the run", err)
	}
	return nil
}

// Posted is what the run said that it is; a run that has not is an *audit.Error with
// CodeNotFound.
func (f *Farm) Posted(ctx context.Context) ([]byte, error) {
	store, err := f.store(ctx)
	if err != nil {
		return nil, err
	}
	notice, err := store.GetBytes(ctx, f.blobName("notice"))
	if errors.Is(err, jetstream.ErrObjectNotFound) {
		return nil, &audit.Error{Code: audit.CodeNotFound, Message: "no run of the name " + f.name + " deals out work", Hint: "start the run first, on the same NATS server"}
	}
	if err != nil {
		return nil, unusable("read what the run is", err)
	}
	return notice, nil
}

// message is a return as it travels; large data is stored first.
func (f *Farm) message(ctx context.Context, r returned) ([]byte, error) {
	if len(r.Data) > maxInline {
		digest, err := f.Put(ctx, bytes.NewReader(r.Data))
		if err != nil {
			return nil, err
		}
		r.Data, r.Blob = nil, digest
	}
	text, err := json.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("encode a return: %w", err)
	}
	return text, nil
}
