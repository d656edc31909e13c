package destination_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"syscall"
	"testing"

	"lockstep/blob/faultfs"
	"lockstep/destination"
)

// pending returns what the Destination says is pending, by path.
func (m *mirror) pending(r *destination.Report) map[string]destination.Failure {
	m.t.Helper()
	all := map[string]destination.Failure{}
	for f, err := range m.destination().Pending(context.Background(), r) {
		if err != nil {
			m.t.Fatal(err)
		}
		all[strings.TrimPrefix(f.URI, m.site.srv.URL)] = f
	}
	return all
}

func TestALongRetryAfterIsPendingAndNotAskedAgainBefore(t *testing.T) {
	t.Parallel()
	for name, again := range map[string]func(*mirror){
		"changes":      func(*mirror) {},
		"with news":    func(m *mirror) { m.site.put("/more", "x") },
		"a comparison": func(m *mirror) { m.opts.Baseline = true },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, style{})
			for i := range 20 {
				s.put(fmt.Sprintf("/r%02d", i), "x")
			}
			s.setFault(func(w http.ResponseWriter, r *http.Request) bool {
				if r.URL.Path != "/r07" {
					return false
				}
				w.Header().Set("Retry-After", "7200")
				w.WriteHeader(http.StatusServiceUnavailable)
				return true
			})
			m := newMirror(t, s)
			r, err := m.sync()
			if !errors.Is(err, destination.ErrIncomplete) || r.Created != 19 || r.Failed != 1 || s.got("/r07") != 1 {
				t.Fatalf("Sync = %v, %s, %d requests for the resource; want one failed by one request", err, counts(r), s.got("/r07"))
			}
			if f := m.pending(&r)["/r07"]; f.NotBefore.IsZero() || !strings.Contains(f.Cause, "asks not to be asked again before") {
				t.Errorf("Pending: %+v, want a time before which it is not asked for", f)
			}
			s.setFault(nil)
			again(m)
			for range 2 {
				r, err = m.sync()
				if !errors.Is(err, destination.ErrIncomplete) || r.Failed != 1 || s.got("/r07") != 0 || len(r.Failures) != 1 {
					t.Fatalf("Sync again = %v, %s, %d requests for the resource; want it reported and not asked for", err, counts(r), s.got("/r07"))
				}
			}
			s.del("/r07")
			if r := m.mustSync(); r.Failed != 0 || len(m.pending(&r)) != 0 {
				t.Errorf("after it is deleted: %s, pending %v", counts(r), m.pending(&r))
			}
		})
	}
}

func TestAFinalPassRetriesWhatFailedForAPassingReason(t *testing.T) {
	t.Parallel()
	s := newSite(t, style{})
	for i := range 10 {
		s.put(fmt.Sprintf("/r%d", i), "x")
	}
	s.put("/r7", strings.Repeat("x", 20<<10)) // too large to be requested in a batch, of which 403 would be repeated alone
	s.setFault(func(w http.ResponseWriter, r *http.Request) bool {
		switch {
		case r.URL.Path == "/r3" && s.got("/r3") == 1, r.URL.Path == "/r5":
			w.WriteHeader(http.StatusInternalServerError)
		case r.URL.Path == "/r7":
			w.WriteHeader(http.StatusForbidden)
		default:
			return false
		}
		return true
	})
	m := newMirror(t, s)
	r, err := m.sync()
	if !errors.Is(err, destination.ErrIncomplete) {
		t.Fatal(err)
	}
	wantCounts(t, r, "baseline created=8 updated=0 deleted=0 unchanged=0 failed=2 refused=0")
	if b := r.BySet[0]; b.Created != 8 || b.Failed != 2 || b.Error != "2 failed, 0 refused" {
		t.Errorf("BySet: %+v", b)
	}
	if s.got("/r3") != 2 || s.got("/r5") != 2 || s.got("/r7") != 1 {
		t.Errorf("requests: %d, %d, %d; want 2, 2 and, for what does not pass, 1", s.got("/r3"), s.got("/r5"), s.got("/r7"))
	}
	if p := m.pending(&r); len(p) != 2 || len(r.Failures) != 2 || p["/r5"].Cause == "" || p["/r7"].Cause == "" {
		t.Errorf("Pending: %v, Failures: %v; want r5 and r7", p, r.Failures)
	}
	s.setFault(nil)
	m.mustSync()
}

func TestAFinalPassRetriesWritesIntoTheStore(t *testing.T) {
	t.Parallel()
	s := newSite(t, style{})
	for i := range 10 {
		s.put(fmt.Sprintf("/r%d", i), "x")
	}
	m := newMirror(t, s)
	m.store = &faultfs.Store{Store: m.store, Faults: &faultfs.Faults{At: 1, Count: 3, Err: fmt.Errorf("put object: %w", syscall.ECONNRESET)}}
	r := m.mustSync()
	wantCounts(t, r, "baseline created=10 updated=0 deleted=0 unchanged=0 failed=0 refused=0")
}

func TestEveryFailureIsListed(t *testing.T) {
	t.Parallel()
	s := newSite(t, style{})
	const n = 1500 // more than a report lists
	for i := range n {
		s.put(fmt.Sprintf("/x%04d", i), "x")
	}
	s.setFault(func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.HasPrefix(r.URL.Path, "/x") {
			return false
		}
		w.WriteHeader(http.StatusForbidden)
		return true
	})
	m := newMirror(t, s)
	r, err := m.sync()
	if !errors.Is(err, destination.ErrIncomplete) || r.Failed != n || len(r.Failures) >= n || len(m.pending(&r)) != n {
		t.Errorf("Sync = %v: %d failed, %d listed, %d pending; want all %d pending", err, r.Failed, len(r.Failures), len(m.pending(&r)), n)
	}
}
