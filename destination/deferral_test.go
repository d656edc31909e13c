package destination_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"lockstep/destination"
)

// askForPatience makes the site answer requests for one document with a Retry-After
// of two hours.
func (s *site) askForPatience(path string) {
	s.setFault(func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path != path {
			return false
		}
		w.Header().Set("Retry-After", "7200")
		w.WriteHeader(http.StatusServiceUnavailable)
		return true
	})
}

// TestADocumentIsNotAskedForBeforeItsServerWishes: a Retry-After that is longer
// than a run waits is kept between runs, for documents as for resources.
func TestADocumentIsNotAskedForBeforeItsServerWishes(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"/.well-known/resourcesync", "/rs/capabilitylist.xml", "/rs/resourcelist.xml", "/rs/list-1", "/rs/changelist.xml", "/rs/resourcedump.xml"} {
		for name, old := range map[string]bool{"new mirror": false, "mirror": true} {
			if old && (strings.HasPrefix(path, "/rs/list") || strings.HasPrefix(path, "/rs/resource")) {
				continue // read for a new mirror only
			}
			t.Run(path+"/"+name, func(t *testing.T) {
				t.Parallel()
				st := style{listParts: 2}
				if path == "/rs/resourcedump.xml" {
					st = style{dumpStyle: dumpStyle{dump: true, noList: true}}
				}
				s := newSite(t, st)
				s.put("/a", "x")
				s.put("/b", "x")
				s.put("/c", "x")
				m := newMirror(t, s)
				if old {
					m.mustSync()
				}
				s.askForPatience(path)
				r, err := m.sync()
				if err == nil || s.got(path) != 1 || !inTwoHours(r.NotBefore) {
					t.Fatalf("Sync = %v by %d requests for the document, not before %s; want one request and the time", err, s.got(path), r.NotBefore)
				}
				s.setFault(nil)
				for range 2 {
					r, err = m.sync()
					if err == nil || s.got(path) != 0 || !inTwoHours(r.NotBefore) || r.Deleted != 0 {
						t.Fatalf("Sync again = %v by %d requests for the document, not before %s, %d deleted; want no request, and the time", err, s.got(path), r.NotBefore, r.Deleted)
					}
				}
				m.opts.AskNow = true
				m.mustSync()
				m.opts.AskNow = false
				m.mustSync()
			})
		}
	}
}

func inTwoHours(at time.Time) bool {
	d := time.Until(at)
	return d > time.Hour && d <= 2*time.Hour
}

func TestAFollowerWaitsUntilItsSourceMayBeAsked(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"/.well-known/resourcesync", "/rs/changelist.xml"} {
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, style{})
			s.put("/a", "x")
			m := newMirror(t, s)
			m.mustSync()
			s.reset()
			s.askForPatience(path)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			passes := make(chan destination.Report, 1000)
			f, err := m.destination().Follow(m.address(), destination.FollowOptions{
				Poll: time.Millisecond, Check: time.Hour, Pause: time.Millisecond,
				OnSync: func(r destination.Report, err error) { passes <- r },
			})
			if err != nil {
				t.Fatal(err)
			}
			ended := make(chan error, 1)
			go func() { ended <- f.Run(ctx) }()
			if r := <-passes; !inTwoHours(r.NotBefore) {
				t.Errorf("a pass may be repeated at %s, want in two hours", r.NotBefore)
			}
			select {
			case r := <-passes:
				t.Errorf("a further pass before that time: %+v", r.Failures)
			case <-time.After(50 * time.Millisecond):
			}
			cancel()
			if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
			if n := s.got(path); n != 1 {
				t.Errorf("the document was asked for %d times, want once", n)
			}
		})
	}
}
