package metric

import (
	"context"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"understudy/audit"
)

// waiting asks the ledger when it is scraped, at most every few seconds, so that
// many scrapers cost what one does.
type waiting struct {
	backlog Backlog
	jobs    *prometheus.Desc
	outbox  *prometheus.Desc
	oldest  *prometheus.Desc
	up      *prometheus.Desc

	mu    sync.Mutex
	last  audit.Backlog
	err   error
	asked time.Time
}

const (
	askedEvery = 5 * time.Second
	askTimeout = 5 * time.Second
)

func newWaiting(b Backlog) *waiting {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, labels, nil)
	}
	return &waiting{
		backlog: b,
		jobs:    desc("understudy_jobs", "Episodes that wait to be published (queued) or for a result (sent), and dead letters that nobody sent again (dead, undetermined).", "state"),
		outbox:  desc("understudy_outbox_messages", "Messages that wait to be published."),
		oldest:  desc("understudy_oldest_job_seconds", "Age of the oldest published episode without a result; 0 = none."),
		up:      desc("understudy_ledger_up", "1 while the ledger answers."),
	}
}

// Describe implements prometheus.Collector.
func (w *waiting) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{w.jobs, w.outbox, w.oldest, w.up} {
		to <- d
	}
}

// Collect implements prometheus.Collector.
func (w *waiting) Collect(to chan<- prometheus.Metric) {
	b, err := w.ask()
	gauge := func(d *prometheus.Desc, value float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
	}
	if err != nil {
		gauge(w.up, 0)
		return
	}
	gauge(w.up, 1)
	gauge(w.jobs, float64(b.Queued), "queued")
	gauge(w.jobs, float64(b.Sent), "sent")
	gauge(w.jobs, float64(b.Dead), "dead")
	gauge(w.jobs, float64(b.Undetermined), "undetermined")
	gauge(w.outbox, float64(b.Outbox))
	gauge(w.oldest, b.Oldest.Seconds())
}

func (w *waiting) ask() (audit.Backlog, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if now := time.Now(); now.Sub(w.asked) >= askedEvery {
		ctx, cancel := context.WithTimeout(context.Background(), askTimeout) // a collector is given none
		defer cancel()
		w.last, w.err = w.backlog.Backlog(ctx)
		w.asked = now
	}
	return w.last, w.err
}
