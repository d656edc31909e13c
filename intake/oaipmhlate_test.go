package intake_test

import (
	"net/http"
	"sync/atomic"
	"testing"

	"lockstep/intake"
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
			h := newHarvested(t, oaipmhtest.Options{Records: 200, PageSize: 20, Unordered: true}, intake.OAIPMHOptions{})
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
