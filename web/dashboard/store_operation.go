package dashboard

import (
	"context"
	"time"

	"understudy/audit"
)

// Operations is what the pages beside single calls read and write: comparisons,
// trainings, gates, environments, jobs, settings.
type Operations interface {
	Samples
	Trainings
	Decisions
	Worlds
	Jobs
	Settings
}

// Samples reads calls of runs, bounded.
type Samples interface {
	// SampleCalls reads the calls of as many prompt groups as a page can bear.
	SampleCalls(ctx context.Context, run string) (*audit.GroupSample, error)
	// Pair reads one pair with its bodies.
	Pair(ctx context.Context, run string, key audit.Digest) (audit.Pair, error)
}

// Trainings reads what trainers wrote.
type Trainings interface {
	// Experiments lists experiments, the newest first.
	Experiments(ctx context.Context) ([]string, error)
	// ExperimentOf finds the newest experiment that trains a policy; "" = none does.
	ExperimentOf(ctx context.Context, policy string) (string, error)
	// Trainings lists the trainings of an experiment by arm and seed.
	Trainings(ctx context.Context, experiment string) ([]audit.Training, error)
	// MetricNames lists the metrics of an experiment.
	MetricNames(ctx context.Context, experiment string) ([]string, error)
	// Series reads one metric of every arm, seed and role, thinned to so many points.
	Series(ctx context.Context, experiment, metric string, points int) ([]audit.MetricSeries, error)
}

// Decisions reads what gates decided.
type Decisions interface {
	// Gates lists decisions without their documents, newest first.
	Gates(ctx context.Context, filter audit.GateFilter, page audit.Page) ([]audit.GateRecord, string, error)
	// Gate reads one decision with its document.
	Gate(ctx context.Context, run string, decided time.Time) (audit.GateRecord, error)
	// Alerts lists what a person should look at, newest first, at most limit of each kind.
	Alerts(ctx context.Context, limit int) ([]audit.Alert, error)
}

// Worlds reads what is known about environments and model servers.
type Worlds interface {
	audit.ContractSource
	// Worlds lists environment versions.
	Worlds(ctx context.Context) ([]audit.World, error)
	// World reads what is known about one of them.
	World(ctx context.Context, environment, version string) (audit.WorldDetail, error)
	// VersionAudits lists policies on versions beside the one they know, newest first.
	VersionAudits(ctx context.Context, limit int) ([]audit.VersionAudit, error)
	// Endpoints lists model servers that were probed, newest first.
	Endpoints(ctx context.Context, limit int) ([]audit.Endpoint, error)
}

// Jobs reads what waits and what was given up, and sends it again.
type Jobs interface {
	// RunJobs lists runs with open or dead jobs, newest first.
	RunJobs(ctx context.Context, limit int) ([]audit.RunJobs, error)
	// DeadLetters lists jobs that were given up, newest first.
	DeadLetters(ctx context.Context, filter audit.JobFilter, page audit.Page) ([]audit.DeadLetter, string, error)
	// Revive sends all of a run's dead jobs again and returns how many.
	Revive(ctx context.Context, run string) (int, error)
	// ReviveJob sends one again; CodeConflict when it is not dead any more.
	ReviveJob(ctx context.Context, run string, episode audit.Digest) error
}

// Settings reads how the service is set up, and keeps its tokens.
type Settings interface {
	// Tokens lists tokens, newest first, revoked ones included.
	Tokens(ctx context.Context) ([]audit.Token, error)
	// AddToken keeps a token by the hash of its text; a name that is taken is CodeConflict.
	AddToken(ctx context.Context, t audit.Token, hash audit.Digest) error
	// RevokeToken ends a token and its sessions.
	RevokeToken(ctx context.Context, name string) error
	// RunSizes lists what the newest runs occupy.
	RunSizes(ctx context.Context, limit int) ([]audit.RunSize, error)
	// Configurations lists effective configurations, newest first.
	Configurations(ctx context.Context, limit int) ([]audit.Configuration, error)
}
