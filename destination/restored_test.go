package destination_test

import (
	"errors"
	"net/http"
	"testing"
	"time"

	"lockstep/destination"
)

// backAndForth restores a mirror to an instant, and checks that the next run brings it into
// step.
func backAndForth(k *keeping, then time.Time) {
	k.t.Helper()
	d := k.destination()
	if r, err := d.SyncPast(k.t.Context(), d, then); err != nil {
		k.t.Fatalf("%v: %+v", err, r)
	}
	if r, err := k.at(); err != nil {
		k.t.Errorf("%v: %+v", err, r)
	}
	k.same()
}

// TestRestoredWhatWasPending: a resource that was still to be fetched at the instant to which a
// mirror is restored is fetched by the next run.
func TestRestoredWhatWasPending(t *testing.T) {
	t.Parallel()
	s := newSite(t, style{})
	k := newKeeping(t, s, destination.Keep{All: true})
	s.put("/x", "x1")
	s.put("/y", "y1")
	k.run()
	s.put("/x", "x2")
	s.put("/y", "y2")
	s.setFault(func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path == "/x" {
			w.WriteHeader(http.StatusForbidden)
		}
		return r.URL.Path == "/x"
	})
	if r, err := k.at(); !errors.Is(err, destination.ErrIncomplete) {
		t.Fatalf("%v: %+v", err, r)
	}
	then := time.Now()
	s.setFault(nil)
	k.run() // brings x2
	backAndForth(k, then)
}

// TestRestoredSelection: a mirror that is restored to an instant at which it selected less has
// everything that is selected after the next run.
func TestRestoredSelection(t *testing.T) {
	t.Parallel()
	s := newSite(t, style{})
	k := newKeeping(t, s, destination.Keep{All: true})
	s.put("/b/1", "b1")
	s.put("/a/1", "a1")
	k.opts.Include = []string{"*/a/*"}
	if r, err := k.at(); err != nil {
		t.Fatalf("%v: %+v", err, r)
	}
	then := time.Now()
	k.opts.Include = nil
	s.put("/a/2", "a2")
	k.run() // brings b1
	backAndForth(k, then)
}
