package destination_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"lockstep/destination"
)

// TestDocumentsOnOtherHostsAreRefused: a list, or a part of an index, on another
// host or port is not asked for without --allow-host. The reading is incomplete:
// nothing is deleted for not being listed in it.
func TestDocumentsOnOtherHostsAreRefused(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"/rs/resourcelist.xml", "/rs/list-0", "/rs/changelist.xml", "/rs/resourcedump.xml"} {
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			st := style{listParts: 3}
			if path == "/rs/resourcedump.xml" {
				st = style{dumpStyle: dumpStyle{dump: true, noList: true}}
			}
			s := newSite(t, st)
			for i := range 10 {
				s.put(fmt.Sprint("/r", i), "x")
			}
			m := newMirror(t, s)
			m.mustSync()
			var asked atomic.Int64
			other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				asked.Add(1)
				s.ServeHTTP(w, r)
			}))
			t.Cleanup(other.Close)
			named, _ := s.document("/rs/capabilitylist.xml")
			in := "/rs/capabilitylist.xml"
			if path == "/rs/list-0" {
				in = "/rs/resourcelist.xml"
				named, _ = s.document(in)
			}
			s.replace(in, strings.Replace(named, s.url(path), other.URL+path, 1))
			s.del("/r3")
			m.opts.Baseline = true
			r, err := m.sync()
			remedy := "allow it with --allow-host " + strings.TrimPrefix(other.URL, "http://")
			if !errors.Is(err, destination.ErrIncomplete) || len(r.Failures) == 0 || !strings.Contains(r.Failures[0].Cause, remedy) {
				t.Errorf("Sync = %v, %+v; want it incomplete, with %q", err, r.Failures, remedy)
			}
			if path != "/rs/changelist.xml" && r.Deleted != 0 || asked.Load() != 0 {
				t.Errorf("%d deleted, and the other host was asked %d times; want neither", r.Deleted, asked.Load())
			}
			m.opts.AllowHosts = []string{strings.TrimPrefix(other.URL, "http://")}
			if _, err := m.sync(); err != nil || asked.Load() == 0 {
				t.Errorf("with --allow-host: %v, the other host was asked %d times", err, asked.Load())
			}
		})
	}
}

// TestDumpOnAnotherHostIsNotSearched: a dump on a host that the Source may not name is not
// asked for either when a resource is not where its list says.
func TestDumpOnAnotherHostIsNotSearched(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		http.NotFound(w, r)
	}))
	defer other.Close()
	s := newSite(t, style{})
	s.put("/a", "one")
	s.put("/b", "two")
	s.offer += fmt.Sprintf(`<url><loc>%s/dump.xml</loc><rs:md capability="resourcedump"/></url>`, strings.Replace(other.URL, "127.0.0.1", "localhost", 1))
	s.setFault(func(w http.ResponseWriter, r *http.Request) bool {
		missing := r.URL.Path == "/b"
		if missing {
			http.NotFound(w, r)
		}
		return missing
	})
	m := newMirror(t, s)
	if r, err := m.sync(); !errors.Is(err, destination.ErrIncomplete) || r.Failed != 1 || asked.Load() != 0 {
		t.Errorf("%s, %v; the other host was asked %d times", counts(r), err, asked.Load())
	}
}
