package destination_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"lockstep/destination"
	"lockstep/discover"
	"lockstep/internal/fetch"
)

// TestInterruptedProgress: the last progress of a run that is interrupted has all that was done.
func TestInterruptedProgress(t *testing.T) {
	t.Parallel()
	s := newSite(t, style{})
	for i := range 600 {
		s.put(fmt.Sprintf("/d/%03d", i), "content")
	}
	m := newMirror(t, s)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var done atomic.Int64
	m.on = func(e destination.Event) {
		if e.Kind == destination.EventProgress {
			done.Store(e.Progress.Done)
		}
	}
	s.setFault(func(_ http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path == "/d/599" {
			stop()
			<-r.Context().Done()
			return true
		}
		return false
	})
	report, err := m.destination().Sync(ctx, m.address())
	if !errors.Is(err, context.Canceled) || done.Load() < report.Created {
		t.Errorf("%v: progress of %d, %d created", err, done.Load(), report.Created)
	}
}

// TestInterruptedHasNoFailures: what a run that is interrupted has not begun, or not finished, has not failed,
// whatever the cause of the interruption.
func TestInterruptedHasNoFailures(t *testing.T) {
	t.Parallel()
	s := newSite(t, style{})
	for i := range 200 {
		s.put(fmt.Sprintf("/d/%03d", i), "content")
	}
	m := newMirror(t, s)
	ctx, stop := context.WithCancelCause(t.Context())
	defer stop(nil)
	s.setFault(func(_ http.ResponseWriter, r *http.Request) bool {
		if strings.HasPrefix(r.URL.Path, "/d/") {
			stop(errors.New("the operator stops it"))
		}
		return false
	})
	c, err := fetch.New(fetch.Options{Home: discover.Home(m.address()), Rate: 50})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	d, err := destination.New(m.store, m.journal, c, m.opts)
	if err != nil {
		t.Fatal(err)
	}
	r, err := d.Sync(ctx, m.address())
	if err == nil || r.Failed != 0 || len(r.Failures) != 0 || r.Complete {
		t.Errorf("%v: %d failed, %v", err, r.Failed, r.Failures)
	}
}

// TestEndOfADiff: an interval that ends now ends then also if the comparison failed, and does not
// begin later where the clock of the Source is ahead.
func TestEndOfADiff(t *testing.T) {
	t.Parallel()
	s := newSite(t, style{})
	d := newMirror(t, s).destination()
	for _, ahead := range []time.Duration{-time.Hour, 30 * time.Second} {
		from := time.Now().Add(ahead)
		r, err := d.Diff(t.Context(), s.url("/nowhere.xml"), from, time.Time{}, func(destination.Difference) error { return nil })
		if err == nil || r.To.IsZero() || r.To.Before(r.From) {
			t.Errorf("%s ahead: %v, from %s to %s", ahead, err, r.From, r.To)
		}
	}
}
