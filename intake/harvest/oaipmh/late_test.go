package oaipmh_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	oaiintake "lockstep/intake/harvest/oaipmh"
	"lockstep/oaipmh"
	"lockstep/oaipmh/oaipmhtest"
)

// TestOAIPMHLate has a harvest break off, and another one bring it to its end with
// the resumption token it had: what has changed in between, in pages that were
// listed before, is there then.
func TestOAIPMHLate(t *testing.T) {
	t.Parallel()
	for name, anew := range map[string]bool{"same process": false, "another process": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHarvested(t, oaipmhtest.Options{Records: 200, PageSize: 20, Unordered: true}, oaiintake.Options{})
			var down atomic.Bool
			down.Store(true)
			tampered(t, h, func(n int64, w http.ResponseWriter, _ *http.Request) bool {
				if n < 6 || !down.Load() {
					return false
				}
				http.Error(w, "gone to lunch", http.StatusForbidden)
				return true
			})
			if _, err := h.oai.Scan(t.Context()); err == nil {
				t.Fatal("a harvest that broke off is none")
			}
			h.repo.Put(oaipmhtest.Record{Identifier: "oai:example.org:0000002", Title: "changed meanwhile"})
			h.repo.Delete("oai:example.org:0000003")
			down.Store(false)
			if anew {
				h.open()
			}
			before := len(h.repo.Requests())
			h.scan()
			h.same()
			if n := len(h.repo.Requests()) - before; n > 9 {
				t.Errorf("%d requests: the harvest did not go on where it was", n)
			}
			before = len(h.repo.Requests())
			h.scan()
			if n := len(h.repo.Requests()) - before; n > 2 {
				t.Errorf("%d requests where nothing has changed", n)
			}
		})
	}
}

// TestOAIPMHNewTokens harvests a repository that restarts its list with every
// resumption token, and returns a different one each time; in stretches, too.
func TestOAIPMHNewTokens(t *testing.T) {
	t.Parallel()
	h := newHarvested(t, oaipmhtest.Options{Records: 40}, oaiintake.Options{})
	asked := 0
	tampered(t, h, func(n int64, w http.ResponseWriter, q *http.Request) bool {
		if oaipmh.Verb(q.FormValue("verb")) != oaipmh.VerbListRecords {
			return false
		}
		asked++
		_, _ = fmt.Fprintf(w, `<OAI-PMH xmlns="%s"><responseDate>2026-01-01T00:00:00Z</responseDate><ListRecords>`, oaipmh.Namespace)
		for i := range 3 {
			_, _ = fmt.Fprintf(w, `<record><header><identifier>oai:x:%d</identifier><datestamp>2026-01-01</datestamp></header><metadata><a/></metadata></record>`, n%2*3+int64(i))
		}
		_, _ = fmt.Fprintf(w, `<resumptionToken>%d</resumptionToken></ListRecords></OAI-PMH>`, n)
		return true
	})
	var err error
	more := true
	for range 1000 {
		if _, more, err = h.oai.Harvest(t.Context(), oaiintake.Stretch{Records: 100}); err != nil || !more {
			break
		}
	}
	if err == nil || !strings.Contains(err.Error(), "would never end") {
		t.Errorf("error = %v after %d requests (more: %v)", err, asked, more)
	}
	if asked > 1500 {
		t.Errorf("%d requests for 6 records", asked)
	}
}

// TestOAIPMHClockBack sets the clock of a repository back by days: later datestamps
// are before the time from which changes would be requested.
func TestOAIPMHClockBack(t *testing.T) {
	t.Parallel()
	var off atomic.Int64
	clock := func() time.Time { return time.Now().Add(time.Duration(off.Load())) }
	h := newHarvested(t, oaipmhtest.Options{Records: 50, Clock: clock}, oaiintake.Options{})
	h.scan()
	off.Store(int64(-10 * 24 * time.Hour))
	h.repo.Put(oaipmhtest.Record{Identifier: "oai:example.org:0000007", Title: "stamped by the right clock"})
	h.open()
	if r := h.scan(); r.Skipped.Count != 1 || !strings.Contains(r.Skipped.First[0].Err.Error(), "its clock went back from") {
		t.Errorf("report: %+v", r)
	}
	h.same()
	before := len(h.repo.Requests())
	h.repo.Put(oaipmhtest.Record{Identifier: "oai:example.org:0000008", Title: "and another"})
	if r := h.scan(); r.Skipped.Count != 0 || len(h.repo.Requests()) != before+1 {
		t.Errorf("report: %+v after %q", r, h.repo.Requests()[before:])
	}
	h.same()
}

// TestOAIPMHLateError meets a repository that fails when the stretch is used up
// long since: that is an error, not the end of the stretch.
func TestOAIPMHLateError(t *testing.T) {
	t.Parallel()
	h := newHarvested(t, oaipmhtest.Options{Records: 100, PageSize: 20}, oaiintake.Options{})
	var down atomic.Bool
	down.Store(true)
	tampered(t, h, func(n int64, w http.ResponseWriter, _ *http.Request) bool {
		if n < 4 || !down.Load() {
			return false
		}
		http.Error(w, "gone to lunch", http.StatusForbidden)
		return true
	})
	var err error
	for range 10 {
		if _, _, err = h.oai.Harvest(t.Context(), oaiintake.Stretch{Time: 1}); err != nil {
			break
		}
	}
	if err == nil || !strings.Contains(err.Error(), "403") {
		t.Errorf("error = %v", err)
	}
	down.Store(false)
	for more := true; more; {
		if _, more, err = h.oai.Harvest(t.Context(), oaiintake.Stretch{Time: 1}); err != nil {
			t.Fatal(err)
		}
	}
	h.same()
}
