package audit

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"math"
)

// EncodeEpisode is the form in which an episode is stored and sent: JSON, with
// the raw fields beside it, because they may hold what JSON cannot (malformed
// arguments, bytes that are not UTF-8) and must arrive as they were written.
// The digest of the text is the episode's identity (Job.ID).
func EncodeEpisode(e *Episode) ([]byte, Digest, error) {
	w := wireEpisode{Episode: *e}
	w.Episode.Actions = make([]Action, len(e.Actions))
	for i, a := range e.Actions {
		if a.Rehearsal != nil {
			r := *a.Rehearsal
			a.Rehearsal = &r
			dropNonFinite(&r)
		}
		if math.IsNaN(a.Inclusion) || math.IsInf(a.Inclusion, 0) {
			a.Inclusion = 0
		}
		w.Episode.Actions[i] = a
	}
	for _, raw := range w.Episode.raws() {
		w.Raw = append(w.Raw, *raw)
		*raw = nil
	}
	text, err := json.Marshal(&w)
	if err != nil {
		return nil, Digest{}, fmt.Errorf("encode episode %q: %w", e.ID, err)
	}
	return text, sha256.Sum256(text), nil
}

// DecodeEpisode reads what EncodeEpisode wrote.
func DecodeEpisode(text []byte) (*Episode, error) {
	var w wireEpisode
	if err := json.Unmarshal(text, &w); err != nil {
		return nil, &Error{Code: CodeInvalid, Message: "stored episode cannot be read", Err: err}
	}
	return w.episode()
}

// JobVersion is the version of job messages that this program writes, and the
// newest that it reads. It grows when an older program would misread a message;
// members that an older program may pass over need no new version. Run, ID,
// Attempt and Version stay readable for ever. Messages from before there was a
// version have none and are version 1.
const JobVersion = 1

// NewerJobError says that a newer program wrote a job's message. The job is known
// all the same, without its episode.
type NewerJobError struct {
	Job     Job
	Version int
}

// Error names both versions.
func (e *NewerJobError) Error() string {
	return fmt.Sprintf("job %s has a message of version %d, this program knows versions up to %d", e.Job.ID, e.Version, JobVersion)
}

// EncodeJob is a job's message. The episode is EncodeEpisode's text, or nil for
// a message that is only a reference.
func EncodeJob(job Job, episode []byte) ([]byte, error) {
	text, err := json.Marshal(wireJob{Version: JobVersion, Run: job.Run, ID: job.ID, Attempt: job.Attempt})
	if err != nil {
		return nil, fmt.Errorf("encode job %s: %w", job.ID, err)
	}
	if episode == nil {
		return text, nil
	}
	// As it is: a json.RawMessage would be read through and copied once more.
	text = append(text[:len(text)-1], `,"episode":`...)
	return append(append(text, episode...), '}'), nil
}

// DecodeJob reads what EncodeJob wrote, also that of an older program. A newer
// program's message is a *NewerJobError.
func DecodeJob(text []byte) (Job, error) {
	var w struct {
		wireJob
		Episode *wireEpisode `json:"episode"`
	}
	err := json.Unmarshal(text, &w) // reads all members that it can, also where one is not as expected
	if w.Version > JobVersion {
		return Job{}, &NewerJobError{Job: Job{Run: w.Run, ID: w.ID, Attempt: w.Attempt}, Version: w.Version}
	}
	if err != nil {
		return Job{}, &Error{Code: CodeInvalid, Message: "message is not a job", Err: err}
	}
	job := Job{Run: w.Run, ID: w.ID, Attempt: w.Attempt}
	if w.Episode == nil {
		return job, nil
	}
	job.Episode, err = w.Episode.episode()
	return job, err
}

type wireJob struct {
	Version int    `json:"version,omitempty"` // none = 1
	Run     string `json:"run"`
	ID      Digest `json:"id"`
	Attempt int    `json:"attempt"`
}

type wireEpisode struct {
	Episode Episode  `json:"episode"`
	Raw     [][]byte `json:"raw"` // in the order of Episode.raws
}

func (w *wireEpisode) episode() (*Episode, error) {
	raws := w.Episode.raws()
	if len(raws) != len(w.Raw) {
		return nil, &Error{Code: CodeInvalid, Message: fmt.Sprintf("episode %q has %d raw fields, want %d", w.Episode.ID, len(w.Raw), len(raws))}
	}
	for i, raw := range raws {
		*raw = w.Raw[i]
	}
	return &w.Episode, nil
}

// raws lists the fields that hold bytes from outside, in a fixed order.
func (e *Episode) raws() []*json.RawMessage {
	fields := []*json.RawMessage{&e.Start.State}
	for i := range e.Actions {
		a := &e.Actions[i]
		fields = append(fields, &a.Call.Arguments, &a.Prompt)
		if a.Rehearsal != nil {
			fields = append(fields, &a.Rehearsal.StateDelta)
		}
	}
	return fields
}

// dropNonFinite removes numbers that JSON cannot say.
func dropNonFinite(r *Rehearsal) {
	for _, f := range []**float64{&r.Confidence, &r.Agreement} {
		if *f != nil && (math.IsNaN(**f) || math.IsInf(**f, 0)) {
			*f = nil
		}
	}
	for _, v := range r.LogProbs {
		if f := float64(v); math.IsNaN(f) || math.IsInf(f, 0) {
			r.LogProbs = nil
			return
		}
	}
}
