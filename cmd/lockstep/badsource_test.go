package main

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// A badSource is an upstream that does what its fields say. Its resources are /r1.txt and
// so on.
type badSource struct {
	*httptest.Server
	gets  atomic.Int64 // requests for resources
	again atomic.Bool  // documents were requested for at least a second since it became another

	mu      sync.Mutex // guards the following fields
	files   map[string]string
	base    string   // of the resources that it names; "": its own URL
	more    []string // further entries of the list
	changes []string // entries of the Change List
	links   string   // of the Capability List
	offers  string   // further entries of it
	last    time.Time
	polled  time.Time                                         // when a document was first requested since it became another
	from    time.Time                                         // of the Change List; earlier changes are not known
	answer  func(w http.ResponseWriter, r *http.Request) bool // may answer instead
	md      func(path, attributes string) string              // changes the description of a resource; nil: it is right
}

func newBadSource(t *testing.T) *badSource {
	t.Helper()
	s := &badSource{files: map[string]string{}, from: time.Now().Add(-2 * time.Hour), last: time.Now().Add(-time.Hour).Truncate(time.Second)}
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(s.serve))
	s.Start()
	t.Cleanup(s.Close)
	for i := range 8 {
		s.files[fmt.Sprintf("/r%d.txt", i)] = fmt.Sprintf("resource %d of %s\n", i, s.URL)
	}
	return s
}

// become changes the Source.
func (s *badSource) become(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
	s.last, s.polled = s.last.Add(time.Second), time.Time{}
	s.again.Store(false)
}

func (s *badSource) time() string { return s.last.UTC().Format(time.RFC3339) }

// entry returns the entry of a resource. The caller holds mu.
func (s *badSource) entry(path, change string) string {
	base := s.base
	if base == "" {
		base = s.URL
	}
	attributes := ""
	if change != "" {
		attributes = fmt.Sprintf(" change=%q datetime=%q", change, s.time())
	}
	if body, ok := s.files[path]; ok && change != "deleted" {
		sum := sha256.Sum256([]byte(body))
		attributes += fmt.Sprintf(` hash="sha-256:%s" length="%d"`, hex.EncodeToString(sum[:]), len(body))
	}
	if s.md != nil {
		attributes = s.md(path, attributes)
	}
	return fmt.Sprintf("<url><loc>%s%s</loc><rs:md%s/></url>\n", base, path, attributes)
}

// replace has the Source list other files, and know of no change before. The caller holds
// mu.
func (s *badSource) replace(files map[string]string) {
	s.files, s.changes, s.from = files, nil, s.last.Add(time.Second)
}

// put changes a resource, and says so. The caller holds mu.
func (s *badSource) put(path, body string) {
	s.files[path] = body
	s.last = s.last.Add(time.Second)
	s.changes = append(s.changes, s.entry(path, "updated"))
}

// remove deletes a resource, and says so. The caller holds mu.
func (s *badSource) remove(path string) {
	delete(s.files, path)
	s.last = s.last.Add(time.Second)
	s.changes = append(s.changes, s.entry(path, "deleted"))
}

func (s *badSource) serve(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if strings.HasSuffix(r.URL.Path, ".xml") {
		if s.polled.IsZero() {
			s.polled = time.Now()
		}
		if time.Since(s.polled) > time.Second { // a poll takes less, or this is a busy machine
			s.again.Store(true)
		}
	} else if r.URL.Path != "/" {
		s.gets.Add(1)
	}
	if s.answer != nil && s.answer(w, r) {
		return
	}
	body, ok := s.files[r.URL.Path]
	switch r.URL.Path {
	case "/capabilitylist.xml":
		body, ok = fmt.Sprintf(`%s%s<rs:md capability="capabilitylist"/><url><loc>%s/resourcelist.xml</loc><rs:md capability="resourcelist"/></url><url><loc>%s/changelist.xml</loc><rs:md capability="changelist"/></url>%s</urlset>`,
			liveRoot, s.links, s.URL, s.URL, s.offers), true
	case "/resourcelist.xml":
		body = fmt.Sprintf(`%s<rs:md capability="resourcelist" at=%q/>`, liveRoot, s.time())
		for _, path := range slices.Sorted(maps.Keys(s.files)) {
			body += s.entry(path, "")
		}
		body, ok = body+strings.Join(s.more, "")+"</urlset>", true
	case "/changelist.xml":
		body, ok = fmt.Sprintf(`%s<rs:md capability="changelist" from=%q/>%s</urlset>`, liveRoot, s.from.UTC().Format(time.RFC3339), strings.Join(s.changes, "")), true
	}
	if !ok {
		http.NotFound(w, r)
		return
	}
	_, _ = w.Write([]byte(body)) // a client that is gone needs nothing
}
