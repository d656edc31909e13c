// Package recent remembers what a process did recently: how much, and how long that took, by
// the minute for the last hour and by the quarter of an hour for the last day; and which errors
// it had. The packages that do the work only count it: [History.Run] reads their counters from time
// to time. The memory is of a fixed size, survives a restart, and is written once a minute at most,
// and only if there was something to remember.
package recent

import (
	"path/filepath"
	"sync"
	"time"
)

// A Total is what a process has done since it was started.
type Total struct {
	Count   int64 // things that were done
	Failed  int64 // attempts that failed
	Bytes   int64
	Latency Latency // of those things for which it is known
}

// since returns what was done after before. Totals can become smaller: they may be the sum of
// several parts, of which one is gone.
func (t *Total) since(before *Total) Total {
	d := Total{Count: max(t.Count-before.Count, 0), Failed: max(t.Failed-before.Failed, 0), Bytes: max(t.Bytes-before.Bytes, 0)}
	for i := range d.Latency {
		d.Latency[i] = max(t.Latency[i]-before.Latency[i], 0)
	}
	return d
}

// Add adds what is in d.
func (t *Total) Add(d *Total) {
	t.Count, t.Failed, t.Bytes = t.Count+d.Count, t.Failed+d.Failed, t.Bytes+d.Bytes
	for i := range t.Latency {
		t.Latency[i] += d.Latency[i]
	}
}

// A Span is a time that is remembered, in steps.
type Span struct {
	Step  time.Duration
	Steps int
}

// Hour and Day return the spans that are remembered.
func Hour() Span { return Span{time.Minute, 60} }

// Day returns the last day, by the quarter of an hour.
func Day() Span { return Span{15 * time.Minute, 96} }

// A Point is what was done in one step of a span.
type Point struct {
	At time.Time // when the step began
	Total
}

// A Counter is something that a process does.
type Counter struct {
	Name  string       // in the state: it must not change
	Total func() Total // since the process was started
}

// A History is the memory of one process. It is safe for concurrent use.
type History struct {
	counters []Counter
	problems func() []Problem // at present; nil: none
	path     string           // of the file in which it is saved; "": it is not

	loading  sync.Once // when it is looked at, or Run begins
	unusable error     // why what was saved is not; set by loading

	mu      sync.Mutex // guards the rest
	last    []Total    // of each counter, when it was last read
	hours   []track    // of each counter
	days    []track
	errors  errorLog
	changed bool // since it was last saved
}

// New returns the History of what is counted, which knows of nothing yet. It is saved in the
// directory state, unless that is "". problems returns the errors that a process has at present;
// it may be nil.
func New(state string, problems func() []Problem, counters ...Counter) *History {
	h := &History{counters: counters, problems: problems, last: make([]Total, len(counters))}
	if state != "" {
		h.path = filepath.Join(state, FileName)
	}
	for range counters {
		h.hours, h.days = append(h.hours, newTrack(Hour())), append(h.days, newTrack(Day()))
	}
	return h
}

// Points returns what was done in each step of a span until now, the oldest first. It is empty
// if nothing of that name is counted.
func (h *History) Points(name string, s Span, now time.Time) []Point {
	_ = h.load() // Run logs what is wrong
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := range h.counters {
		if h.counters[i].Name == name && s == Hour() {
			return h.hours[i].until(now)
		} else if h.counters[i].Name == name {
			return h.days[i].until(now)
		}
	}
	return nil
}

// Errors returns the errors that the process has, and had in the last days, the newest first.
func (h *History) Errors() []Problem {
	_ = h.load() // as in Points
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.errors.all()
}

// Observe reads the counters, and which errors there are.
func (h *History) Observe(now time.Time) {
	h.count(now)
	if h.problems == nil {
		return
	}
	problems := h.problems()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.changed = h.errors.note(problems, now) || h.changed
}

// count reads the counters.
func (h *History) count(now time.Time) {
	totals := make([]Total, len(h.counters))
	for i := range h.counters {
		totals[i] = h.counters[i].Total()
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := range totals {
		d := totals[i].since(&h.last[i])
		if d.Count == 0 && d.Failed == 0 && d.Latency == (Latency{}) {
			h.last[i].Count, h.last[i].Failed, h.last[i].Latency = totals[i].Count, totals[i].Failed, totals[i].Latency
			continue // bytes alone, as of a Source that is polled, count with what comes next
		}
		h.last[i] = totals[i]
		h.changed = true
		h.hours[i].add(now, &d)
		h.days[i].add(now, &d)
	}
}

// A track is a ring of points: that of a time is at a place which only depends on the time.
type track struct {
	span   Span
	points []Point
}

func newTrack(s Span) track { return track{s, make([]Point, s.Steps)} }

// at returns the point of the step that contains t.
func (k *track) at(t time.Time) (p *Point, began time.Time) {
	began = t.UTC().Truncate(k.span.Step)
	n := began.Unix() / int64(k.span.Step/time.Second) % int64(len(k.points))
	return &k.points[max(n, 0)], began
}

func (k *track) add(t time.Time, d *Total) {
	p, began := k.at(t)
	if !p.At.Equal(began) {
		*p = Point{At: began}
	}
	p.Total.Add(d)
}

// until returns the points of the span that ends at t.
func (k *track) until(t time.Time) []Point {
	all := make([]Point, 0, len(k.points))
	for i := range len(k.points) {
		p, began := k.at(t.Add(-time.Duration(len(k.points)-1-i) * k.span.Step))
		if p.At.Equal(began) {
			all = append(all, *p)
		} else {
			all = append(all, Point{At: began})
		}
	}
	return all
}
