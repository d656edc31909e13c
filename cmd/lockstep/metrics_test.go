package main

import (
	"net/http/httptest"
	"strings"
	"testing"

	"lockstep/cmd/lockstep/internal/admin"
)

// TestMetrics registers figures of every kind and reads them as a monitor does.
// One that breaks the rules is left out and takes no other with it.
func TestMetrics(t *testing.T) {
	t.Parallel()
	m := admin.NewMetrics()
	m.Register(func(s *admin.Figures) {
		s.Gauge("lockstep_test_lag_seconds", "How far behind.", 1.5, "set", "main")
		s.Gauge("lockstep_test_lag_seconds", "How far behind.", 0, "set", "other")
		s.Histogram("lockstep_test_latency_seconds", "How long.", 3, 0.75, map[float64]uint64{0.1: 1, 1: 3})
	})
	m.Register(func(s *admin.Figures) {
		s.Counter("lockstep_test_taken_total", "Taken.", 7)
		s.Counter("lockstep_test_wrong_total", "Wrong.", 1, "label", "\xff") // no UTF-8
	})
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/-/metrics", nil))
	got := w.Body.String()
	for _, want := range []string{
		"# HELP lockstep_test_lag_seconds How far behind.\n# TYPE lockstep_test_lag_seconds gauge\n",
		`lockstep_test_lag_seconds{set="main"} 1.5` + "\n",
		`lockstep_test_lag_seconds{set="other"} 0` + "\n",
		`lockstep_test_latency_seconds_bucket{le="0.1"} 1` + "\n",
		`lockstep_test_latency_seconds_bucket{le="+Inf"} 3` + "\n",
		"lockstep_test_latency_seconds_sum 0.75\n",
		"# TYPE lockstep_test_taken_total counter\nlockstep_test_taken_total 7\n",
		"process_resident_memory_bytes",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("not in the metrics: %s\n%s", want, got)
		}
	}
	if w.Code != 200 || strings.Contains(got, "wrong") || !strings.HasPrefix(w.Header().Get("Content-Type"), "text/plain; version=0.0.4") {
		t.Errorf("status %d, %v", w.Code, w.Header())
	}
}
