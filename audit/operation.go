package audit

import "time"

// RunJobs is how far the jobs of one run are.
type RunJobs struct {
	Run          string    `json:"run"`
	State        RunState  `json:"state"`
	Queued       int       `json:"queued"`       // episodes that wait to be published
	Sent         int       `json:"sent"`         // published, without a result yet
	Oldest       time.Time `json:"oldest"`       // first of these publications; zero = none
	Dead         int       `json:"dead"`         // given up
	Undetermined int       `json:"undetermined"` // no answer can be had
}

// Backlog is how much waits in the whole ledger.
type Backlog struct {
	Queued, Sent, Dead, Undetermined int           // as in RunJobs
	Outbox                           int           // messages of all kinds that wait to be published
	Oldest                           time.Duration // age of the oldest of Sent; 0 = none
}

// DeadLetter is a job that was given up.
type DeadLetter struct {
	Run        string    `json:"run"`
	ID         Digest    `json:"id"` // of the episode
	Episode    string    `json:"episode"`
	Attempt    int       `json:"attempt"`
	Fault      string    `json:"fault"`  // transient, permanent or undetermined
	Reason     string    `json:"reason"` // may hold anything that a server said
	Deliveries int       `json:"deliveries"`
	Buried     time.Time `json:"buried"`
	Revived    time.Time `json:"revived,omitzero"` // a late result arrived, or somebody sent it again
}

// JobFilter narrows a list of dead letters; empty fields do not.
type JobFilter struct {
	Run     string `json:"run,omitempty"`
	Revived bool   `json:"revived,omitempty"` // those that were sent again as well
}

// AlertKind says what an alert is about.
type AlertKind string

// The kinds of alerts.
const (
	AlertConflict AlertKind = "audit_conflict"  // one key, two results: something is not deterministic
	AlertGate     AlertKind = "gate_regression" // a gate that had passed does not any more
	AlertDead     AlertKind = "dead_letter"     // jobs were given up
	AlertAlarm    AlertKind = "alarm"           // a training run drifts: its rehearsals get worse, or game the reward
	AlertTraining AlertKind = "training"        // a training failed or wrote numbers that are not finite
)

// AlertKinds lists every kind.
func AlertKinds() []AlertKind {
	return []AlertKind{AlertConflict, AlertGate, AlertAlarm, AlertDead, AlertTraining}
}

// Alert is something that a person should look at.
type Alert struct {
	Kind    AlertKind `json:"kind"`
	Run     string    `json:"run,omitempty"` // or the experiment
	Subject string    `json:"subject"`       // what it is about: a tool, a gate policy, an arm
	Text    string    `json:"text"`          // one sentence
	N       int       `json:"n"`             // how many events it stands for
	Key     Digest    `json:"key,omitzero"`  // of a pair
	At      time.Time `json:"at"`            // the last of them
	Decided time.Time `json:"decided,omitzero"`
}

// World is an environment version that runs have audited.
type World struct {
	EnvironmentInfo
	Runs    []string `json:"runs"` // newest first, at most a few
	Noisy   int      `json:"noisy"`
	Defects int      `json:"defects"`
	Canary  int      `json:"canaries"`
}

// NoisyPath is a path on which an environment's own twins were seen to disagree.
type NoisyPath struct {
	Tool      string `json:"tool"`
	Pattern   string `json:"pattern"`
	Twins     int64  `json:"twins"` // pairs of executions
	Disagreed int64  `json:"disagreed"`
}

// KnownDefect is a fault of a sandbox that verdicts are not charged for.
type KnownDefect struct {
	Version string    `json:"version,omitempty"` // "" = every version
	Tool    string    `json:"tool"`
	Pattern string    `json:"pattern"`
	Reason  string    `json:"reason"`
	Expires time.Time `json:"expires,omitzero"` // zero = never
}

// CanaryCount is how many canaries of one tool there are.
type CanaryCount struct {
	Tool   string `json:"tool"`
	Schema int    `json:"schema"`
	Domain int    `json:"domain"`
}

// WorldDetail is what is known about one environment version apart from runs.
type WorldDetail struct {
	Noise    []NoisyPath   `json:"noise"`  // most often first
	Marked   []Mark        `json:"marked"` // noise that people named
	Defects  []KnownDefect `json:"defects"`
	Canaries []CanaryCount `json:"canaries"`
}

// VersionAudit is one policy on one version of an environment, with the run
// that holds its pairs and the version that it is taken to know.
type VersionAudit struct {
	VersionFigures
	Run     string    `json:"run"`
	Policy  string    `json:"policy"`
	Base    string    `json:"base"`
	Created time.Time `json:"created"`
}

// Endpoint is what a model server was found able to do.
type Endpoint struct {
	URL     string      `json:"url"`
	Model   string      `json:"model"`
	Answers [][3]string `json:"answers"` // feature, yes or no, what its absence costs
	Probed  time.Time   `json:"probed"`
}

// RunSize is what one run occupies in the ledger.
type RunSize struct {
	Run     string    `json:"run"`
	Started time.Time `json:"started"`
	Bytes   int64     `json:"bytes"` // of its own tables; results that runs share are not in it
}

// Configuration is an effective configuration that results name.
type Configuration struct {
	Digest    Digest            `json:"digest"`
	Version   string            `json:"version"`
	Effective map[string]string `json:"effective"` // secrets redacted
	FirstUsed time.Time         `json:"first_used"`
}
