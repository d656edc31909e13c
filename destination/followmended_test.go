package destination_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// TestMendedByComparingEverything: a resource fails, and everything is compared in the same pull because
// the documents do not list what was notified. Then the resource comes: the pull has not failed.
func TestMendedByComparingEverything(t *testing.T) {
	t.Parallel()
	s, p, g := followHub(t, style{})
	s.replace("/ghost", "it is in no list")
	s.mu.Lock()
	at := s.tick()
	fault := s.fault
	s.mu.Unlock()
	entry := fmt.Sprintf(`<url><loc>%s</loc><rs:md change="created" datetime="%s" length="16"/></url>`, s.url("/ghost"), s.time(at))
	if got := p.deliver(p.notification(p.until, at.Add(time.Millisecond), entry)); got/100 != 2 {
		t.Fatalf("the notification is answered %d", got)
	}
	g.becomes("/ghost", "it is in no list")
	var failed atomic.Int64
	s.setFault(func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path == "/x" && failed.Add(1) == 1 {
			w.WriteHeader(http.StatusNotFound)
			return true
		}
		return fault(w, r)
	})
	s.put("/x", "x")
	pulls := g.status().Pulls
	p.deliver("no document") // which causes a pull
	g.becomes("/x", "x")
	eventually(t, func() bool { return g.status().Pulls > pulls })
	if n := failed.Load(); n < 2 {
		t.Fatalf("/x was requested %d times, and has not failed", n)
	}
	compared := false
	for _, r := range g.passReports() {
		if r.Failed > 0 || len(r.Failures) > 0 {
			t.Errorf("%d failures are reported, of a resource that came in the same pull: %+v", r.Failed, r.Failures)
		}
		for _, text := range r.Warnings {
			compared = compared || strings.Contains(text, "comparing everything")
		}
	}
	if !compared {
		t.Error("not everything was compared")
	}
	if st := g.status(); st.Error != "" || st.Attempts > 0 {
		t.Errorf("the set has failed: %q", st.Error)
	}
	g.end()
}
