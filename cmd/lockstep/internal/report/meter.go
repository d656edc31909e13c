package report

import (
	"fmt"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"lockstep/cmd/lockstep/internal/term"
	"lockstep/destination"
)

// A Meter sums up the events of a Destination: as one line for people, and set
// by set for programs. The zero value is ready to use.
type Meter struct {
	Fetched func() int64     // bytes off the network so far; nil: those that events report
	clock   func() time.Time // nil: the real one

	mu      sync.Mutex // guards what follows
	sets    []setMeter // those begun; the last is under way
	total   int        // sets there are; 0: not known yet
	doc     string     // being read, before there is a plan
	samples []sample   // of the set under way, over the last rateSpan
}

// A setMeter is the progress of one set.
type setMeter struct {
	name    string
	number  int // in the run
	now     destination.Progress
	planned bool
	base    int64 // of fetched when it was planned
}

// A sample is where things stood at one moment.
type sample struct {
	at          time.Time
	done, bytes int64
	part        float64
}

const (
	// rateSpan is the time over which rates are taken: long enough to be calm,
	// short enough to be of now.
	rateSpan  = 10 * time.Second
	rateLeast = 2 * time.Second

	// itemBytes is what dealing with one resource costs besides its bytes, as
	// bytes: what a part of the work is.
	itemBytes = 50_000
)

// Event records an event.
func (m *Meter) Event(e destination.Event) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch e.Kind {
	case destination.EventDocument:
		m.doc = e.URI
	case destination.EventSet:
		m.total = e.Progress.Sets
		m.sets, m.samples = append(m.sets, setMeter{name: e.Set, number: e.Progress.Set}), nil
	case destination.EventPlan:
		s := m.current(e.Set)
		s.now, s.planned, s.base = e.Progress, true, m.bytes()
		m.doc, m.samples = "", []sample{{at: m.time()}}
	case destination.EventProgress:
		m.current(e.Set).now = e.Progress
	}
}

// current returns the set in progress. A run that reports no sets has one, too.
func (m *Meter) current(name string) *setMeter {
	if len(m.sets) == 0 {
		m.sets = append(m.sets, setMeter{name: name})
	}
	s := &m.sets[len(m.sets)-1]
	if name != "" {
		s.name = name
	}
	return s
}

// Several reports whether the run is over more than one set.
func (m *Meter) Several() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.total > 1
}

func (m *Meter) bytes() int64 {
	if m.Fetched == nil {
		return 0
	}
	return m.Fetched()
}

func (m *Meter) time() time.Time {
	if m.clock != nil {
		return m.clock()
	}
	return time.Now()
}

// Line describes the progress of the run, at any length.
func (m *Meter) Line() string { return m.Fit(0) }

// reading describes what is read before there is a plan, which of a long feed or
// a large repository may take hours.
func (m *Meter) reading(columns int) string {
	text := "reading " + m.doc
	if m.Fetched == nil {
		return text
	}
	if n := m.Fetched(); n > 0 {
		if more := text + "  " + term.Size(n); columns <= 0 || utf8.RuneCountInString(more) < columns {
			return more
		}
	}
	return text
}

// Fit describes the progress of the run in at most columns columns; 0 is any
// number. What matters least is left out first.
func (m *Meter) Fit(columns int) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.sets) == 0 || !m.sets[len(m.sets)-1].planned || m.sets[len(m.sets)-1].now.Total == 0 {
		if m.doc == "" {
			return ""
		}
		return m.reading(columns)
	}
	v := m.view()
	text := ""
	for frugality := range leastFrugal {
		if text = v.text(frugality); columns <= 0 || utf8.RuneCountInString(text) < columns {
			break
		}
	}
	return text
}

// Done says how much of the run was done when it ended; "" if that is not known.
func (m *Meter) Done() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.sets) == 0 {
		return ""
	}
	s := &m.sets[len(m.sets)-1]
	done := max(s.now.Done-s.now.Failed, 0) // those under way have failed when the run ended
	text := term.Thousands(done) + " of " + term.Count(s.now.Total, "resource") + " done"
	switch {
	case s.now.Done == 0 && s.now.Total == 0:
		return ""
	case s.now.Total < s.now.Done || !s.planned:
		text = term.Count(done, "resource") + " done, while the list was being read"
	}
	if m.total > 1 {
		text += fmt.Sprintf(", of set %d of %d (%s)", s.number, m.total, s.name)
	}
	if n := m.bytes(); n > 0 {
		text += "; " + term.Size(n) + " received"
	}
	return text
}

// A view is what a line shows.
type view struct {
	head, name string // which set of how many, and what it is called
	part       float64
	p          destination.Progress
	bytes      int64
	perSecond  float64 // resources
	byteRate   float64
	left       time.Duration // zero: not known
}

// view returns the state of the set in progress.
func (m *Meter) view() view {
	s := &m.sets[len(m.sets)-1]
	v := view{name: s.name, p: s.now, bytes: s.now.Bytes}
	if m.total > 1 {
		v.head = fmt.Sprintf("%d/%d", s.number, m.total)
	}
	if m.Fetched != nil {
		v.bytes = m.bytes() - s.base
	}
	v.p.Done = min(v.p.Done, v.p.Total)
	v.part = float64(v.p.Done) / float64(v.p.Total)
	if all := v.p.TotalBytes; all > 0 {
		v.part = (float64(v.p.Done)*itemBytes + float64(min(v.bytes, all))) / (float64(v.p.Total)*itemBytes + float64(all))
	}
	now := sample{m.time(), v.p.Done, v.bytes, v.part}
	m.samples = append(m.samples, now)
	for len(m.samples) > 2 && now.at.Sub(m.samples[1].at) >= rateSpan {
		m.samples = m.samples[1:]
	}
	first := m.samples[0]
	if span := now.at.Sub(first.at); span >= rateLeast {
		v.perSecond = float64(now.done-first.done) / span.Seconds()
		v.byteRate = float64(now.bytes-first.bytes) / span.Seconds()
		if grown := now.part - first.part; grown > 0 && now.part < 1 {
			v.left = time.Duration((1 - now.part) / grown * float64(span))
		}
	}
	return v
}

// leastFrugal is the frugality that leaves nothing more to leave out.
const leastFrugal = 8

// text writes a view with the less the greater the frugality.
func (v *view) text(frugality int) string {
	var parts []string
	add := func(upTo int, text string) {
		if frugality <= upTo && text != "" {
			parts = append(parts, text)
		}
	}
	add(9, v.head)
	add(4, v.name)
	add(0, bar(v.part, 20))
	if frugality > 0 {
		add(5, bar(v.part, 10))
	}
	add(9, fmt.Sprintf("%d%%", int(v.part*100)))
	add(9, fmt.Sprintf("%s of %s", term.Thousands(v.p.Done), term.Thousands(v.p.Total)))
	if v.perSecond >= 1 {
		add(2, term.Thousands(int64(v.perSecond))+"/s")
	}
	if v.bytes > 0 {
		text := term.Size(v.bytes)
		if v.p.TotalBytes > v.bytes && frugality < 2 {
			text += " of " + term.Size(v.p.TotalBytes)
		}
		add(3, text)
	}
	if v.byteRate >= 1 {
		add(6, term.Size(int64(v.byteRate))+"/s")
	}
	if v.left > 0 {
		add(6, span(v.left)+" left")
	}
	if v.p.Failed > 0 {
		add(9, term.Thousands(v.p.Failed)+" failed")
	}
	return strings.Join(parts, "  ")
}

// bar draws a part of one.
func bar(part float64, width int) string {
	full := min(int(part*float64(width)), width)
	return "[" + strings.Repeat("=", full) + strings.Repeat(" ", width-full) + "]"
}

// span writes a time to wait, no finer than it can be known.
func span(d time.Duration) string {
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%d s", int(d.Seconds())+1)
	case d < time.Hour:
		return fmt.Sprintf("%d min", int(d.Minutes())+1)
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h %d min", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%d days", int(d.Hours()/24))
}
