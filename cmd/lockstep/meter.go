package main

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"lockstep/destination"
)

// A meter sums up the events of a Destination as one line for people. The zero
// value is ready to use.
type meter struct {
	mu    sync.Mutex // guards what follows
	set   string
	doc   string // being read, before there is a plan
	now   destination.Progress
	since time.Time // when fetching began
}

// event takes in what an event says.
func (m *meter) event(e destination.Event) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if e.Set != "" {
		m.set = e.Set
	}
	switch e.Kind {
	case destination.EventDocument:
		m.doc = e.URI
	case destination.EventPlan:
		m.doc, m.now, m.since = "", e.Progress, time.Now()
	case destination.EventProgress:
		m.now = e.Progress
	}
}

const barWidth = 20

// line describes how far the run is.
func (m *meter) line() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	p := m.now
	if m.doc != "" && p.Total == 0 {
		return "reading " + m.doc
	}
	if p.Total == 0 {
		return ""
	}
	var b strings.Builder
	if m.set != "" {
		b.WriteString(m.set + "  ")
	}
	done := min(p.Done, p.Total)
	full := int(done * barWidth / p.Total)
	fmt.Fprintf(&b, "[%s%s] %d%%  %s of %s", strings.Repeat("=", full), strings.Repeat(" ", barWidth-full),
		done*100/p.Total, thousands(done), thousands(p.Total))
	spent := time.Since(m.since)
	if p.Bytes > 0 {
		fmt.Fprintf(&b, "  %s", size(p.Bytes))
		if spent > time.Second {
			fmt.Fprintf(&b, "  %s/s", size(int64(float64(p.Bytes)/spent.Seconds())))
		}
	}
	if done > 0 && spent > 2*time.Second && done < p.Total {
		left := time.Duration(float64(spent) * float64(p.Total-done) / float64(done))
		fmt.Fprintf(&b, "  %s left", left.Round(time.Second))
	}
	if p.Failed > 0 {
		fmt.Fprintf(&b, "  %s failed", thousands(p.Failed))
	}
	return b.String()
}
