package fetch

import (
	"maps"
	"slices"
	"sync"
	"time"
)

const (
	// maxDeferrals caps the documents recorded as deferred, each of which a Source
	// may name.
	maxDeferrals = 1000

	// MaxDeferral caps how long a server may defer requests.
	MaxDeferral = 24 * time.Hour
)

// A Deferral is a document whose server requested a longer wait than
// [MaxRetryAfter].
type Deferral struct {
	URI       string    `json:"uri"` // without user and password
	NotBefore time.Time `json:"not_before"`
	Cause     string    `json:"cause"` // the server's answer
}

// A DeferralError reports a document that was not requested, because its server
// has deferred requests until a time.
type DeferralError struct{ Deferral }

func (e *DeferralError) Error() string {
	return "not requested yet: " + e.Cause // which has the time
}

// DeferralsOf returns the documents that c does not request yet, by URI.
func DeferralsOf(c *Client) []Deferral { return c.deferrals.list(time.Now()) }

// Defer makes c not request documents before their time, as if their server had
// just said so. Times further away than [MaxDeferral] are ignored.
func Defer(c *Client, ds []Deferral) {
	now := time.Now()
	for _, d := range ds {
		c.deferrals.put(d, now)
	}
}

// deferrals are the documents that are not requested yet.
type deferrals struct {
	mu sync.Mutex // guards of
	of map[string]Deferral
}

func (ds *deferrals) put(d Deferral, now time.Time) {
	d.URI = WithoutUser(d.URI)
	if !d.NotBefore.After(now) || d.NotBefore.After(now.Add(MaxDeferral)) {
		return
	}
	ds.mu.Lock()
	defer ds.mu.Unlock()
	if ds.of == nil {
		ds.of = map[string]Deferral{}
	}
	if len(ds.of) >= maxDeferrals {
		maps.DeleteFunc(ds.of, func(_ string, d Deferral) bool { return !d.NotBefore.After(now) })
	}
	if _, known := ds.of[d.URI]; known || len(ds.of) < maxDeferrals {
		ds.of[d.URI] = d
	}
}

// check returns an error if uri must not be requested yet.
func (ds *deferrals) check(uri string, now time.Time) error {
	ds.mu.Lock()
	defer ds.mu.Unlock()
	if len(ds.of) == 0 {
		return nil
	}
	uri = WithoutUser(uri)
	d, ok := ds.of[uri]
	switch {
	case !ok:
		return nil
	case !d.NotBefore.After(now):
		delete(ds.of, uri)
		return nil
	}
	return &DeferralError{d}
}

func (ds *deferrals) list(now time.Time) []Deferral {
	ds.mu.Lock()
	defer ds.mu.Unlock()
	var all []Deferral
	for _, uri := range slices.Sorted(maps.Keys(ds.of)) {
		if d := ds.of[uri]; d.NotBefore.After(now) {
			all = append(all, d)
		}
	}
	return all
}
