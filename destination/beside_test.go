package destination_test

import (
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"lockstep/destination"
)

// besideSite is a site with a Resource List of two parts, of 70 resources each, and a
// Resource Dump. The second part is sent when a manifest was requested.
func besideSite(t *testing.T) *site {
	t.Helper()
	s := newSite(t, style{listParts: 70, dumpStyle: dumpStyle{dump: true, copies: true, each: 50}})
	fill(s, 140)
	requested := make(chan struct{})
	var once sync.Once
	s.fault = func(_ http.ResponseWriter, r *http.Request) bool {
		switch {
		case strings.HasPrefix(r.URL.Path, "/rs/r-"):
			once.Do(func() { close(requested) })
		case r.URL.Path == "/rs/list-1":
			select {
			case <-requested:
			case <-time.After(time.Minute):
				t.Error("no manifest was requested before the list had been read")
			}
		}
		return false
	}
	return s
}

// TestManifestsBesideList: in the first run, the manifests of the Resource Dump are read
// while the Resource List is, once each, and lead to all contents.
func TestManifestsBesideList(t *testing.T) {
	t.Parallel()
	s := besideSite(t)
	m := newMirror(t, s)
	r := m.mustSync()
	if r.Created != 140 || r.By.Package != 140 || r.Via != destination.ViaDump {
		t.Errorf("%s by %+v via %s", counts(r), r.By, r.Via)
	}
	if got := s.got("/rs/resourcedump.xml"); got != 1 {
		t.Errorf("the Resource Dump was requested %d times", got)
	}
}

// TestManifestsBesideListReadAgain: a part of the list is replaced while it is read, so
// that list and manifests are read again.
func TestManifestsBesideListReadAgain(t *testing.T) {
	t.Parallel()
	s := besideSite(t)
	fault := s.fault
	var once sync.Once
	s.setFault(func(w http.ResponseWriter, r *http.Request) bool {
		_ = fault(w, r) // only waits
		missing := false
		if r.URL.Path == "/rs/list-1" {
			once.Do(func() {
				missing = true
				w.WriteHeader(http.StatusNotFound)
			})
		}
		return missing
	})
	m := newMirror(t, s)
	if r := m.mustSync(); r.Created != 140 || r.By.Package != 140 {
		t.Errorf("%s by %+v", counts(r), r.By)
	}
	if got := s.got("/rs/resourcedump.xml"); got != 2 {
		t.Errorf("the Resource Dump was requested %d times, want 2", got)
	}
}

// TestManifestsBesideListUnreadable: if its Resource Dump cannot be read, it is requested
// once, the resources are requested one by one, and the report says why.
func TestManifestsBesideListUnreadable(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]http.HandlerFunc{
		"missing":     func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotFound) },
		"unavailable": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) },
		"malformed":   func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<urlset")) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, style{listParts: 70, dumpStyle: dumpStyle{dump: true, copies: true, each: 50}})
			fill(s, 140)
			requested := make(chan struct{})
			var once sync.Once
			s.setFault(func(w http.ResponseWriter, r *http.Request) bool {
				switch r.URL.Path {
				case "/rs/resourcedump.xml":
					answer(w, r)
					once.Do(func() { close(requested) })
					return true
				case "/rs/list-1":
					<-requested
				}
				return false
			})
			m := newMirror(t, s)
			if r := m.mustSync(); r.Created != 140 || r.By.Request != 140 || len(r.Fallbacks) != 1 {
				t.Errorf("%s by %+v, %+v", counts(r), r.By, r.Fallbacks)
			}
			if got := s.got("/rs/resourcedump.xml"); got != 1 {
				t.Errorf("the Resource Dump was requested %d times", got)
			}
		})
	}
}
