package discover_test

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"lockstep/discover"
	"lockstep/internal/fetch"
)

// together is a server of a site that answers requests for certain paths only when all of
// them have been requested.
type together struct {
	*server
	t       *testing.T
	mu      sync.Mutex // guards waiting
	waiting map[string]bool
	arrived chan struct{} // closed when all have been requested
}

func (s site) serveTogether(t *testing.T, paths ...string) *together {
	t.Helper()
	srv := &together{server: &server{site: s}, t: t, waiting: map[string]bool{}, arrived: make(chan struct{})}
	for _, p := range paths {
		srv.waiting[p] = true
	}
	srv.Server = httptest.NewServer(srv)
	t.Cleanup(srv.Close)
	srv.client = newClient(t, srv.URL)
	return srv
}

func (s *together) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if s.waits(r.URL.Path) {
		select {
		case <-s.arrived:
		case <-time.After(20 * time.Second):
			s.t.Errorf("%s was requested alone", r.URL.Path)
		}
	}
	s.server.ServeHTTP(w, r)
}

// waits reports whether path is answered together with others, and records its request.
func (s *together) waits(path string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.waiting[path]
	if ok && s.waiting[path] {
		s.waiting[path] = false
		for _, missing := range s.waiting {
			if missing {
				return true
			}
		}
		close(s.arrived)
	}
	return ok
}

// The page at a base address and the well-known URI are requested side by side, and so
// are the Capability Lists of several sets.
func TestFindOverlaps(t *testing.T) {
	t.Parallel()
	for _, paths := range [][]string{
		{"/", "/.well-known/resourcesync"},
		{"/rs/main/capabilitylist.xml", "/rs/maps/capabilitylist.xml"},
	} {
		srv := usual().serveTogether(t, paths...)
		found, err := discover.Find(t.Context(), srv.client, srv.URL+"/")
		if err != nil || summary(found.Sets) != both {
			t.Errorf("Find, %v together: %+v, %v, want %s", paths, found, err, both)
		}
		if n := srv.requests.Load(); n != 4 {
			t.Errorf("%d requests, want 4", n)
		}
	}
}

// What is requested ahead changes no result: its failure counts only when its turn
// comes, and then it has been requested again.
func TestFindAheadFails(t *testing.T) {
	t.Parallel()
	other, never := site{}.serve(t), site{}.serve(t)
	t.Cleanup(func() {
		if never.requests.Load() > 0 {
			t.Error("a host was asked to which nothing has led")
		}
	})
	for _, tt := range []struct {
		name      string
		wellKnown []string // answers, the last one to all further requests
		page      string   // at the base address; "": none
		want      string   // the sets; "": an error
	}{
		{"needless and broken", []string{"status 503"}, "Link: </rs/maps/capabilitylist.xml>; rel=\"resourcesync\"\n\n", "maps: resourcelist"},
		{"needless and elsewhere", []string{"-> " + never.URL}, "Link: </rs/maps/capabilitylist.xml>; rel=\"resourcesync\"\n\n", "maps: resourcelist"},
		{"needless and not a document", []string{"text"}, "Link: </rs/maps/capabilitylist.xml>; rel=\"resourcesync\"\n\n", "maps: resourcelist"},
		{"broken once", []string{"status 503", "description"}, "", both},
		{"broken", []string{"status 503"}, "", ""},
		{"elsewhere", []string{"-> " + other.URL}, "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := usual()
			description := s["/.well-known/resourcesync"]
			s["/rs/maps/capabilitylist.xml"] = doc(`capability="capabilitylist"`, nil, `HOST/rs/maps/resourcelist.xml capability="resourcelist"`)
			if tt.page != "" {
				s["/"] = tt.page
			}
			inner := &server{site: s}
			var asked atomic.Int64
			inner.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path != "/.well-known/resourcesync" {
					inner.ServeHTTP(w, r)
					return
				}
				n := int(asked.Add(1)) - 1
				text := tt.wellKnown[min(n, len(tt.wellKnown)-1)]
				if text == "description" {
					text = description
				}
				(&server{Server: inner.Server, site: site{r.URL.Path: text}}).ServeHTTP(w, r)
			}))
			t.Cleanup(inner.Close)
			c, err := fetch.New(fetch.Options{Home: discover.Home(inner.URL), Retries: -1})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(c.Close)
			found, err := discover.Find(t.Context(), c, inner.URL+"/")
			switch {
			case tt.want == "" && err == nil:
				t.Errorf("Find = %+v, want an error", found)
			case tt.want != "" && (err != nil || summary(found.Sets) != tt.want):
				t.Errorf("Find = %+v, %v, want %s", found, err, tt.want)
			}
		})
	}
}

// With a limit on requests, none is sent that may be needless.
func TestFindSparesNone(t *testing.T) {
	t.Parallel()
	for _, o := range []fetch.Options{{Jobs: 1}, {Rate: 1000}} {
		s := usual()
		s["/"] = doc(`capability="capabilitylist"`, nil, `HOST/rs/maps/resourcelist.xml capability="resourcelist"`)
		srv := s.serve(t)
		o.Home = discover.Home(srv.URL)
		c, err := fetch.New(o)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		found, err := discover.Find(t.Context(), c, srv.URL+"/")
		if err != nil || len(found.Sets) != 1 || srv.requests.Load() != 1 {
			t.Errorf("Find = %+v, %v by %d requests, want one set by one", found, err, srv.requests.Load())
		}
	}
}

// A Source Description in a file may list files, which need no client.
func TestFindFilesWithoutClient(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	write("set.xml", doc(`capability="capabilitylist"`, nil, `http://h/list.xml capability="resourcelist"`))
	uri := discover.FileURI(filepath.Join(dir, "set.xml"))
	found, err := discover.Find(t.Context(), nil, write("description.xml", doc(`capability="description"`, nil, uri+` capability="capabilitylist"`)))
	if err != nil || len(found.Sets) != 1 || found.Sets[0].Err != nil {
		t.Errorf("Find = %+v, %v, want one set", found, err)
	}
}
