// Package metric counts what the service does, for Prometheus. Each name and
// each label's values are in this file and bounded: no run, policy, tool, token
// or address is ever a label, so that a scrape stays small whatever is audited.
//
//	label     values
//	severity  S0 to S5, masked
//	result    ok, transient, permanent, undetermined
//	state     queued, sent, dead, undetermined
//	status    scored, masked, pending; of HTTP 1xx to 5xx
//	route     the service's own routes, as patterns; "none" for all others
//	method    GET, HEAD, POST, and "other"
package metric

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"understudy/audit"
)

// Backlog is what waits in the ledger, which every process sees alike.
type Backlog interface {
	// Backlog counts jobs that are queued, sent, dead and undetermined.
	Backlog(ctx context.Context) (audit.Backlog, error)
}

// Set is the metrics of one process. A nil Set counts nothing.
type Set struct {
	registry *prometheus.Registry
	actions  *prometheus.CounterVec
	episodes *prometheus.HistogramVec
	scores   *prometheus.CounterVec
	scoring  prometheus.Histogram
	requests *prometheus.HistogramVec
	viewers  prometheus.Gauge
}

// masked is the severity of an action without a verdict.
const masked = "masked"

// New makes a process's metrics. Backlog may be nil: then it is not shown.
func New(backlog Backlog) *Set {
	s := &Set{
		registry: prometheus.NewRegistry(),
		actions: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "understudy_actions_audited_total", Help: "Actions audited by this process, by the severity of their verdict.",
		}, []string{"severity"}),
		episodes: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "understudy_episode_audit_seconds", Help: "Time from taking an episode to its verdicts, before the commit.",
			Buckets: prometheus.ExponentialBuckets(0.001, 4, 10), // 1 ms to 4 min: the timeout is 10 min
		}, []string{"result"}),
		scores: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "understudy_rewards_total", Help: "Answers to trainers, by status: scored ones are payments.",
		}, []string{"status"}),
		scoring: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "understudy_score_seconds", Help: "Time to answer one batch of a trainer.",
			Buckets: prometheus.ExponentialBuckets(0.001, 4, 10),
		}),
		requests: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "understudy_http_request_seconds", Help: "Time to answer a request; a live page's counts when it ends.",
			Buckets: prometheus.ExponentialBuckets(0.001, 4, 10),
		}, []string{"route", "method", "status"}),
		viewers: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "understudy_live_viewers", Help: "Live pages that are open.",
		}),
	}
	for severity := range audit.Severity(6) {
		s.actions.WithLabelValues(severity.String()) // a rate needs the 0 before the first
	}
	s.actions.WithLabelValues(masked)
	s.registry.MustRegister(s.actions, s.episodes, s.scores, s.scoring, s.requests, s.viewers,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	if backlog != nil {
		s.registry.MustRegister(newWaiting(backlog))
	}
	return s
}

// Handler shows the metrics in Prometheus's text format.
func (s *Set) Handler() http.Handler {
	return promhttp.HandlerFor(s.registry, promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError, Timeout: scrapeTimeout})
}

// scrapeTimeout is shorter than Prometheus's own, 10 s.
const scrapeTimeout = 8 * time.Second

// Audited counts one episode's audit.
func (s *Set) Audited(pairs []audit.Pair, err error, took time.Duration) {
	if s == nil {
		return
	}
	result := "ok"
	if err != nil {
		result = string(audit.FaultOf(err))
	}
	s.episodes.WithLabelValues(result).Observe(took.Seconds())
	for i := range pairs {
		severity := masked
		if pairs[i].Verdict.Masked == "" {
			severity = pairs[i].Verdict.Severity.String()
		}
		s.actions.WithLabelValues(severity).Inc()
	}
}

// Viewer counts one live page until the returned function is called.
func (s *Set) Viewer() (leave func()) {
	if s == nil {
		return func() {}
	}
	s.viewers.Inc()
	return s.viewers.Dec
}

// Requests measures each request; a nil Set measures nothing.
func (s *Set) Requests(c *gin.Context) {
	if s == nil {
		return
	}
	began := time.Now()
	c.Next()
	route, method := c.FullPath(), c.Request.Method
	if route == "" {
		route = "none"
	}
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodPost:
	default:
		method = "other"
	}
	s.requests.WithLabelValues(route, method, strconv.Itoa(c.Writer.Status()/100)+"xx").Observe(time.Since(began).Seconds()) //nolint:mnd // 200 is 2xx
}

// Scorer counts what another one answers.
func (s *Set) Scorer(next audit.Scorer) audit.Scorer {
	if s == nil {
		return next
	}
	return scorer{s, next}
}

type scorer struct {
	set  *Set
	next audit.Scorer
}

// Score implements audit.Scorer.
func (s scorer) Score(ctx context.Context, batch audit.ScoreBatch) (audit.ScoredBatch, error) {
	began := time.Now()
	scored, err := s.next.Score(ctx, batch)
	s.set.scoring.Observe(time.Since(began).Seconds())
	s.count(scored)
	return scored, err
}

// Scores implements audit.Scorer.
func (s scorer) Scores(ctx context.Context, id audit.Digest, wait time.Duration) (audit.ScoredBatch, error) {
	return s.next.Scores(ctx, id, wait) // pulled again, paid once: not counted
}

func (s scorer) count(batch audit.ScoredBatch) {
	for i := range batch.Scores {
		s.set.scores.WithLabelValues(string(batch.Scores[i].Status)).Inc()
	}
}
