package serve

import (
	"crypto/sha256"
	"strings"
	"sync"
	"time"
)

// maxModified caps the readers whose last content is remembered. A service that checks
// passwords may know any number.
const maxModified = 10_000

// A modified knows since when each reader has been answered with the same bytes. What a
// reader sees changes with the sets and with the credentials, whose times are not stored.
type modified struct {
	mu      sync.Mutex          // guards answers
	answers map[string]answered // by name of the reader
}

type answered struct {
	sum   [sha256.Size]byte
	since time.Time
}

// of returns the time of modification of what a reader is answered with now: the first
// time it is, or about. It is a whole second that is not in the future, and later than that of
// other bytes before, unless these changed more than twice within a second.
func (m *modified) of(name string, v view, sum [sha256.Size]byte, now time.Time) time.Time {
	if name == "" { // an application has granted this
		name = "\x00" + strings.Join(v, "\x00")
	}
	now = now.Truncate(time.Second)
	m.mu.Lock()
	defer m.mu.Unlock()
	last, known := m.answers[name]
	if !known || last.sum != sum {
		since := lastModified(now, now)
		if next := last.since.Add(time.Second); next.After(since) {
			since = next
		}
		if m.answers == nil || len(m.answers) >= maxModified {
			m.answers = make(map[string]answered)
		}
		last = answered{sum, since}
		m.answers[name] = last
	}
	if last.since.After(now) {
		return now
	}
	return last.since
}
