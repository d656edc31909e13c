package admin

import (
	"net/http"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Metrics are the figures of one process for monitors, in the text format of
// Prometheus. The packages that do the work count it and know nothing of
// metrics: a function reads their counters at each scrape.
type Metrics struct{ registry *prometheus.Registry }

// NewMetrics returns metrics of the process itself: memory, processor, Go's
// runtime.
func NewMetrics() *Metrics {
	m := &Metrics{prometheus.NewRegistry()}
	m.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// Metrics returns those of [NewMetrics], and of the TLS certificate of the process. a may
// be nil.
func (a *Access) Metrics() *Metrics {
	m := NewMetrics()
	if a != nil && a.tls != nil {
		m.Register(func(out *Figures) {
			out.Gauge("lockstep_tls_certificate_expires_timestamp_seconds", "When the TLS certificate in use expires.", float64(a.tls.Expires().Unix()))
		})
	}
	return m
}

// Register adds figures. collect is called for each request, perhaps several
// times at once, and must be quick: it reads what is in memory. A name and its
// labels must come once in all.
func (m *Metrics) Register(collect func(*Figures)) { m.registry.MustRegister(Sampler(collect)) }

// Handler serves the figures. Should one of them be wrong, it leaves that out
// and serves the others.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{
		ErrorHandling: promhttp.ContinueOnError, MaxRequestsInFlight: maxScrapes,
	})
}

// maxScrapes bounds how many scrapes may run at a time: no monitoring needs
// more.
const maxScrapes = 10

// Figures collects the figures of one moment. Names follow Prometheus' rules:
// lockstep_ROLE_WHAT_UNIT, _total at the end of what only grows. Labels are
// pairs of name and value, with values of which there are few: never a URL that
// a stranger chose.
type Figures struct {
	out    chan<- prometheus.Metric
	labels []string // of all figures
}

// With returns Figures that add labels to each figure.
func (s *Figures) With(labels ...string) *Figures {
	return &Figures{s.out, append(slices.Clip(s.labels), labels...)}
}

// Gauge adds a figure that goes up and down.
func (s *Figures) Gauge(name, help string, value float64, labels ...string) {
	s.add(name, help, prometheus.GaugeValue, value, labels)
}

// Counter adds a figure that only grows while the process runs.
func (s *Figures) Counter(name, help string, value float64, labels ...string) {
	s.add(name, help, prometheus.CounterValue, value, labels)
}

// Histogram adds how values are distributed: how many there were, their sum,
// and for each upper bound how many were not above it.
func (s *Figures) Histogram(name, help string, count uint64, sum float64, upTo map[float64]uint64, labels ...string) {
	desc, values := describe(name, help, append(slices.Clip(s.labels), labels...))
	m, err := prometheus.NewConstHistogram(desc, count, sum, upTo, values...)
	if err != nil {
		m = prometheus.NewInvalidMetric(desc, err)
	}
	s.out <- m
}

func (s *Figures) add(name, help string, kind prometheus.ValueType, value float64, labels []string) {
	desc, values := describe(name, help, append(slices.Clip(s.labels), labels...))
	m, err := prometheus.NewConstMetric(desc, kind, value, values...)
	if err != nil {
		m = prometheus.NewInvalidMetric(desc, err)
	}
	s.out <- m
}

// describe converts pairs of labels into the form the library needs.
func describe(name, help string, labels []string) (*prometheus.Desc, []string) {
	var names, values []string
	for i := 0; i+1 < len(labels); i += 2 {
		names, values = append(names, labels[i]), append(values, labels[i+1])
	}
	return prometheus.NewDesc(name, help, names, nil), values
}

// A Sampler is a [prometheus.Collector] that does not say beforehand what it
// collects.
type Sampler func(*Figures)

// Describe implements [prometheus.Collector].
func (Sampler) Describe(chan<- *prometheus.Desc) {}

// Collect implements [prometheus.Collector].
func (f Sampler) Collect(out chan<- prometheus.Metric) { f(&Figures{out: out}) }

// Truth is 1 if so is true, and 0 otherwise, as a figure.
func Truth(so bool) float64 {
	if so {
		return 1
	}
	return 0
}
