package service

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"weft/fault"
	"weft/jobs"
)

// metrics are the figures of one server. Those of videos are counted from the queue's events, so
// that every process that serves tells the same of all workers; those of requests are its own.
type metrics struct {
	registry *prometheus.Registry

	created  prometheus.Counter
	refusals *prometheus.CounterVec   // by the code of the first violation
	ended    *prometheus.CounterVec   // by state
	waited   prometheus.Histogram     // from creation to the first program
	took     prometheus.Histogram     // from the first program to the end
	phases   *prometheus.HistogramVec // by phase
	steps    prometheus.Counter
	memory   *prometheus.GaugeVec // by worker
	streams  prometheus.Gauge
	requests *prometheus.HistogramVec // by route and status
}

// seconds are the bounds of histograms of work, from a tiny model's to a day.
var seconds = []float64{0.1, 0.3, 1, 3, 10, 30, 60, 120, 300, 600, 1200, 3600, 7200, 14400, 86400}

func newMetrics(store Store) *metrics {
	m := &metrics{
		registry: prometheus.NewRegistry(),
		created:  prometheus.NewCounter(prometheus.CounterOpts{Name: "weft_videos_created_total", Help: "Videos that this process made jobs of."}),
		refusals: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "weft_videos_refused_total",
			Help: "Requests for videos that this process refused, by the code of the first violation."}, []string{"code"}),
		ended: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "weft_videos_ended_total", Help: "Videos of all workers that ended since this process began, by state."},
			[]string{"state"}),
		waited: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "weft_video_wait_seconds", Help: "From the creation of a video to its first program.", Buckets: seconds}),
		took: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "weft_video_seconds", Help: "From a video's first program to its end, of completed ones.",
			Buckets: seconds}),
		phases: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "weft_phase_seconds", Help: "What a phase of a video took.", Buckets: seconds}, []string{"phase"}),
		steps:  prometheus.NewCounter(prometheus.CounterOpts{Name: "weft_denoise_steps_total", Help: "Steps of denoising of all workers since this process began."}),
		memory: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "weft_worker_memory_bytes", Help: "The most that a worker's process had resident during its last video."},
			[]string{"worker"}),
		streams: prometheus.NewGauge(prometheus.GaugeOpts{Name: "weft_event_streams", Help: "Streams of events that are open."}),
		requests: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "weft_http_request_seconds", Help: "What requests took, by route and status.",
			Buckets: []float64{0.001, 0.003, 0.01, 0.03, 0.05, 0.1, 0.3, 1, 3, 10, 60}}, []string{"route", "status"}),
	}
	m.registry.MustRegister(m.created, m.refusals, m.ended, m.waited, m.took, m.phases, m.steps, m.memory, m.streams, m.requests,
		queueFigures{store}, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// refused counts a request that was refused.
func (m *metrics) refused(err error) {
	m.refusals.WithLabelValues(fault.Describe(fault.Violations(err)[0]).Kind).Inc()
}

// answered counts an answer.
func (m *metrics) answered(route string, status int, took time.Duration) {
	m.requests.WithLabelValues(route, strconv.Itoa(status)).Observe(took.Seconds())
}

func (s *Server) serveMetrics(w http.ResponseWriter, r *http.Request) error {
	promhttp.HandlerFor(s.metrics.registry, promhttp.HandlerOpts{}).ServeHTTP(w, r)
	return nil
}

// queueFigures are asked of the queue whenever they are read.
type queueFigures struct{ store Store }

var (
	jobsFigure    = prometheus.NewDesc("weft_jobs", "Jobs that have not ended, by state.", []string{"state"}, nil)
	secondsFigure = prometheus.NewDesc("weft_queue_seconds", "What plans expect of all that waits and runs; workers share it.", nil, nil)
	workersFigure = prometheus.NewDesc("weft_workers", "Workers that live.", nil, nil)
	pausedFigure  = prometheus.NewDesc("weft_queue_paused", "1 where the queue is paused.", nil, nil)
)

// Describe lists the figures.
func (queueFigures) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{jobsFigure, secondsFigure, workersFigure, pausedFigure} {
		to <- d
	}
}

// Collect asks the queue. A queue that does not answer is an error of the whole answer, so that
// nobody takes no figures for zeros.
func (q queueFigures) Collect(to chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), readyTime)
	defer cancel()
	c, err := q.store.Counts(ctx)
	if err != nil {
		to <- prometheus.NewInvalidMetric(jobsFigure, err)
		return
	}
	gauge := func(d *prometheus.Desc, x float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, x, labels...)
	}
	gauge(jobsFigure, float64(c.Queued), string(jobs.Queued))
	gauge(jobsFigure, float64(c.Paused), string(jobs.Paused))
	gauge(jobsFigure, float64(c.Running), string(jobs.Running))
	gauge(secondsFigure, c.Seconds)
	gauge(workersFigure, float64(c.Workers))
	paused := 0.0
	if c.QueuePaused {
		paused = 1
	}
	gauge(pausedFigure, paused)
}

// watched is what was seen last of a job that runs.
type watched struct {
	phase    string
	began    time.Time
	furthest int
	started  bool
}

// watch counts what events tell, until ctx ends.
func (m *metrics) watch(ctx context.Context, store Store) {
	since := time.Now()
	seen := map[string]*watched{}
	for ctx.Err() == nil {
		events, err := store.Events(ctx, "", 0)
		if err == nil {
			for e := range events {
				m.count(seen, e, since)
			}
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Second): // the queue's server may be away
		}
	}
}

// count takes one event. Those of the time before since are only remembered.
func (m *metrics) count(seen map[string]*watched, e jobs.Event, since time.Time) {
	j := e.Job
	if e.Deleted {
		delete(seen, j.ID)
		return
	}
	w := seen[j.ID]
	if j.State.Ended() {
		m.countEnd(w, j, e.At, since)
		delete(seen, j.ID)
		return
	}
	if w == nil {
		w = &watched{furthest: j.Furthest, started: !j.Started.IsZero() && !j.Started.After(since)}
		seen[j.ID] = w
	}
	if !w.started && !j.Started.IsZero() {
		w.started = true
		m.waited.Observe(j.Started.Sub(j.Created).Seconds())
	}
	m.steps.Add(float64(max(0, j.Furthest-w.furthest)))
	w.furthest = max(w.furthest, j.Furthest)
	if j.State != jobs.Running {
		w.phase = ""
		return
	}
	if p := j.Progress.Phase; p != w.phase {
		m.countPhase(w, e.At)
		w.phase, w.began = p, e.At
	}
	if j.Worker != "" && j.Progress.Memory > 0 {
		m.memory.WithLabelValues(j.Worker).Set(float64(j.Progress.Memory))
	}
}

// countPhase counts the phase that has ended.
func (m *metrics) countPhase(w *watched, at time.Time) {
	if w.phase != "" {
		m.phases.WithLabelValues(w.phase).Observe(at.Sub(w.began).Seconds())
	}
}

// countEnd counts a job that has ended. One that was not seen running ended before this process
// began, or between two looks.
func (m *metrics) countEnd(w *watched, j jobs.Job, at, since time.Time) {
	if j.Ended.Before(since) {
		return
	}
	m.ended.WithLabelValues(string(j.State)).Inc()
	if w != nil {
		m.countPhase(w, at)
		m.steps.Add(float64(max(0, j.Furthest-w.furthest)))
	}
	if j.State == jobs.Completed {
		m.took.Observe(j.Ended.Sub(j.Started).Seconds())
	}
}
