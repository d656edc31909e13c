package source_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"lockstep/catalog"
	"lockstep/resourcesync"
	"lockstep/source"
)

const deltaType = "application/vnd.lockstep.dcz"

// patched puts a resource with a link to a patch.
func (w *world) patched(s *source.Source, rel, text string) (uri string) {
	w.Helper()
	uri, err := s.PutPatch(context.Background(), "main", deltaType, []byte("patch to "+text))
	if err != nil {
		w.Fatal(err)
	}
	r := record(baseURL+rel, text)
	r.Links = []resourcesync.Link{{Rel: resourcesync.RelPatch, Href: uri, Type: deltaType}}
	w.live[r.URI] = digest(r.Length, r.Hashes)
	w.apply(catalog.Update{Record: r})
	w.remember()
	return uri
}

// TestPatches: a patch is there as long as a kept change names it.
func TestPatches(t *testing.T) {
	t.Parallel()
	w := newWorld(t, source.Options{Keep: 48 * time.Hour, Grace: time.Hour})
	s := w.source()
	w.put("a=1")
	w.publish(s)
	w.pass(time.Minute)
	first := w.patched(s, "a", "22")
	w.publish(s)
	w.pass(24 * time.Hour)
	second := w.patched(s, "a", "333")
	orphan, err := s.PutPatch(context.Background(), "main", "application/json-patch+json", []byte("[]"))
	if err != nil {
		t.Fatal(err)
	}
	w.publish(s)
	if got := len(w.names("resourcesync/main/patches/")); got != 3 {
		t.Errorf("%d patches, want 3: none is older than what is kept", got)
	}
	_, err = s.PutPatch(context.Background(), "main", "text/plain", nil)
	if err == nil {
		t.Error("a patch of a type without a name was taken")
	}
	for _, p := range []struct{ uri, typ string }{{first, deltaType}, {orphan, "application/json-patch+json"}} {
		u, _ := url.Parse(p.uri)
		rec := httptest.NewRecorder()
		s.Handler().ServeHTTP(rec, &http.Request{Method: "GET", URL: u, Header: http.Header{"Accept-Encoding": {"gzip"}}})
		if rec.Code != http.StatusOK || rec.Header().Get("Content-Type") != p.typ || rec.Header().Get("Content-Encoding") != "" ||
			!strings.Contains(rec.Header().Get("Cache-Control"), "immutable") {
			t.Errorf("GET %s: %d, %v", p.uri, rec.Code, rec.Header())
		}
	}
	w.pass(31 * time.Hour) // the first change is older than 48 h and an eighth, the second is not
	w.put("b=1")
	w.publish(s)
	w.pass(2 * time.Hour)
	w.publish(s)
	if got := w.names("resourcesync/main/patches/"); slices.Contains(got, strings.TrimPrefix(first, baseURL)) || !slices.Contains(got, strings.TrimPrefix(second, baseURL)) {
		t.Errorf("patches are %q, want %s without %s", got, second, first)
	}
	w.pass(48 * time.Hour)
	w.put("b=2")
	w.publish(s)
	w.pass(2 * time.Hour)
	w.publish(s)
	if got := w.names("resourcesync/main/patches/"); len(got) != 0 {
		t.Errorf("patches are %q, want none", got)
	}
	w.upToDate()
}

// TestPatchesClock: a clock that was set back does not make a patch old that a
// kept change names.
func TestPatchesClock(t *testing.T) {
	t.Parallel()
	w := newWorld(t, source.Options{Keep: time.Hour, Grace: time.Hour})
	s := w.source()
	w.pass(1000 * time.Hour)
	w.put("a=1")
	w.publish(s) // takes a Mark, which no event precedes any more
	w.pass(-1000 * time.Hour)
	uri := w.patched(s, "a", "22")
	for range 3 {
		w.publish(s)
		w.pass(2 * time.Hour)
	}
	if got := w.names("resourcesync/main/patches/"); !slices.Contains(got, strings.TrimPrefix(uri, baseURL)) {
		t.Errorf("patches are %q, want %s, which a kept change names", got, uri)
	}
	w.upToDate()
}
