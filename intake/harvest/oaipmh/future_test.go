package oaipmh_test

import (
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"lockstep/intake/harvest/oaipmh"
	"lockstep/oaipmh/oaipmhtest"
)

// TestOAIPMHClockCorrected: a repository whose clock was ahead by less than what is
// put up with is reported once, and what it stamps after the correction is found.
func TestOAIPMHClockCorrected(t *testing.T) {
	t.Parallel()
	var ahead atomic.Int64
	ahead.Store(int64(90 * time.Minute))
	clock := func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
	h := newHarvested(t, oaipmhtest.Options{Records: 5, Clock: clock}, oaipmh.Options{})
	tampered(t, h, func(_ int64, w http.ResponseWriter, _ *http.Request) bool {
		w.Header().Set("Date", clock().UTC().Format(http.TimeFormat))
		return false
	})
	reported(t, h.scan().Skipped, "times in our future")
	h.repo.Put(oaipmhtest.Record{Identifier: "oai:example.org:0000001", Title: "stamped in our future"})
	h.scan()
	if r := h.scan(); r.Skipped.Count > 0 {
		t.Errorf("reported again: %v", r.Skipped.First)
	}
	h.same()
	ahead.Store(0)
	h.repo.Put(oaipmhtest.Record{Identifier: "oai:example.org:0000002", Title: "stamped by the right clock"})
	h.repo.Delete("oai:example.org:0000003")
	h.open()
	h.scan()
	h.same()
}
