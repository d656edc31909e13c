package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// A liveSource is a Source in memory whose resources change, with a Resource
// List and a Change List. It knows every content a resource ever had, and how
// often each was asked for.
type liveSource struct {
	*httptest.Server

	mu      sync.Mutex // guards what follows
	hook    func(w http.ResponseWriter, r *http.Request, path string) bool
	handler http.Handler // answers in place of serve; may be nil
	now     map[string][]byte
	ever    map[string]map[string]bool // contents by path
	changes strings.Builder            // entries of the Change List
	began   time.Time
	last    time.Time // of the newest change
	made    int       // contents so far
	hits    map[string]int
}

func newLiveSource(t *testing.T) *liveSource {
	t.Helper()
	start := time.Now().Add(-time.Hour).Truncate(time.Microsecond)
	s := &liveSource{now: map[string][]byte{}, ever: map[string]map[string]bool{}, hits: map[string]int{}, began: start, last: start}
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(s.dispatch))
	s.Start() // only now: requests may come at once, and serve looks at the Server
	t.Cleanup(s.Close)
	return s
}

// before sets what is called before a resource is served; nil is nothing. It
// returns false if it has answered itself.
func (s *liveSource) before(hook func(w http.ResponseWriter, r *http.Request, path string) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hook = hook
}

// handle has h answer all requests from now on.
func (s *liveSource) handle(h http.Handler) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.handler = h
}

func (s *liveSource) dispatch(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	h := s.handler
	s.mu.Unlock()
	if h == nil {
		h = http.HandlerFunc(s.serve)
	}
	h.ServeHTTP(w, r)
}

func (s *liveSource) address() string { return s.URL + "/capabilitylist.xml" }

// put gives path new content of up to size bytes that no other version has.
func (s *liveSource) put(path string, size int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.made++
	line := fmt.Appendf(nil, "%s, version %d\n", path, s.made)
	body := bytes.Repeat(line, size/len(line)+1)[:max(size, len(line))]
	change := "created"
	if _, ok := s.now[path]; ok {
		change = "updated"
	}
	s.now[path] = body
	if s.ever[path] == nil {
		s.ever[path] = map[string]bool{}
	}
	s.ever[path][string(body)] = true
	s.note(path, change)
}

func (s *liveSource) remove(path string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.now, path)
	s.note(path, "deleted")
}

func (s *liveSource) note(path, change string) {
	s.last = s.last.Add(time.Millisecond)
	fmt.Fprintf(&s.changes, "<url><loc>%s/%s</loc><rs:md change=%q datetime=%q%s/></url>\n",
		s.URL, path, change, s.last.UTC().Format(time.RFC3339Nano), s.describe(path))
}

func (s *liveSource) describe(path string) string {
	body, ok := s.now[path]
	if !ok {
		return ""
	}
	sum := sha256.Sum256(body)
	return fmt.Sprintf(` hash="sha-256:%s" length="%d"`, hex.EncodeToString(sum[:]), len(body))
}

// churn changes a share of the resources: updates, deletions, new ones.
func (s *liveSource) churn(updates, deletions, creations int) {
	paths := slices.Sorted(maps.Keys(s.contents()))
	rand.Shuffle(len(paths), func(i, j int) { paths[i], paths[j] = paths[j], paths[i] })
	for _, path := range paths[:updates] {
		s.put(path, rand.IntN(3000))
	}
	for _, path := range paths[updates : updates+deletions] {
		s.remove(path)
	}
	for range creations {
		s.put(fmt.Sprintf("d%02d/new-%06d.txt", rand.IntN(30), s.versions()), rand.IntN(3000))
	}
}

func (s *liveSource) versions() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.made
}

const liveRoot = `<?xml version="1.0" encoding="UTF-8"?>
<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:rs="http://www.openarchives.org/rs/terms/">
`

func (s *liveSource) serve(w http.ResponseWriter, r *http.Request) {
	path := r.URL.Path[1:]
	s.mu.Lock()
	hook := s.hook
	s.mu.Unlock()
	if !strings.HasSuffix(path, ".xml") && hook != nil && !hook(w, r, path) {
		return
	}
	s.mu.Lock()
	body, ok := s.now[path]
	if ok {
		s.hits[path]++
	}
	switch path {
	case "capabilitylist.xml":
		body = fmt.Appendf(nil, `%s<rs:md capability="capabilitylist"/><url><loc>%s/resourcelist.xml</loc><rs:md capability="resourcelist"/></url><url><loc>%s/changelist.xml</loc><rs:md capability="changelist"/></url></urlset>`, liveRoot, s.URL, s.URL)
	case "resourcelist.xml":
		b := bytes.NewBufferString(liveRoot)
		fmt.Fprintf(b, `<rs:md capability="resourcelist" at=%q/>`, s.last.UTC().Format(time.RFC3339Nano))
		for p := range s.now {
			fmt.Fprintf(b, "<url><loc>%s/%s</loc><rs:md%s/></url>\n", s.URL, p, s.describe(p))
		}
		body = append(b.Bytes(), "</urlset>"...)
	case "changelist.xml":
		body = fmt.Appendf(nil, `%s<rs:md capability="changelist" from=%q/>%s</urlset>`, liveRoot, s.began.UTC().Format(time.RFC3339Nano), s.changes.String())
	default:
		if !ok {
			s.mu.Unlock()
			http.NotFound(w, r)
			return
		}
	}
	s.mu.Unlock()
	if path != "resourcelist.xml" { // which differs in its order each time
		sum := sha256.Sum256(body)
		w.Header().Set("ETag", `"`+hex.EncodeToString(sum[:8])+`"`)
	}
	http.ServeContent(w, r, path, time.Time{}, bytes.NewReader(body))
}

// contents returns what the Source holds now.
func (s *liveSource) contents() map[string]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := make(map[string]string, len(s.now))
	for p, b := range s.now {
		m[p] = string(b)
	}
	return m
}

// existed reports whether body was ever the content of path.
func (s *liveSource) existed(path, body string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ever[path][body]
}

// requests returns how often each resource was asked for.
func (s *liveSource) requests() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.hits)
}

// differ says how what a mirror holds differs from what the Source holds now,
// or returns "".
func (s *liveSource) differ(files map[string]string) string {
	now := s.contents()
	for path, body := range now {
		switch got, ok := files[path]; {
		case !ok:
			return path + " is missing"
		case got != body:
			return path + " is not the Source's"
		}
	}
	for path := range files {
		if _, ok := now[path]; !ok {
			return path + " is not in the Source any more"
		}
	}
	return ""
}

// notWhole names a file of the mirror that is no version the Source ever had,
// or returns "".
func (s *liveSource) notWhole(files map[string]string) string {
	for path, body := range files {
		if !s.existed(path, body) {
			return fmt.Sprintf("%s (%d bytes)", path, len(body))
		}
	}
	return ""
}

// checkGoesOn runs once more, with nothing in the way.
func checkGoesOn(t *testing.T, src *liveSource, dest string) {
	t.Helper()
	if code, said := tryRun(t, src, dest); code != 0 {
		t.Fatalf("exit code %d once there is room\n%s", code, said)
	}
	if diff := src.differ(readMirror(t, dest)); diff != "" {
		t.Fatal(diff)
	}
	checkNoLitter(t, dest)
}

// tryRun runs a sync and returns its exit code and what it said.
func tryRun(t *testing.T, src *liveSource, dest string) (code int, said string) {
	t.Helper()
	out, err := exec.Command("lockstep", "sync", src.address(), dest).CombinedOutput()
	code, err = exitCodeOf(err)
	if err != nil {
		t.Fatal(err)
	}
	return code, string(out)
}
