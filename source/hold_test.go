package source_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"lockstep/blob"
	"lockstep/source"
)

// TestASetThatIsHeldIsPublishedWhole: until a set is released for the first time its
// documents are answered with 503 while those of others are served, and the Source
// Description names it; what it has then is in its Resource List, and nothing of it in the
// Change List. A set that was published is not held again.
func TestASetThatIsHeldIsPublishedWhole(t *testing.T) {
	t.Parallel()
	var hold atomic.Bool
	hold.Store(true)
	w := newWorld(t, source.Options{Sets: []source.Set{{Name: "main", Hold: hold.Load}, {Name: "other"}}})
	s := w.source()
	h := s.Handler()
	get := func(rel string) *httptest.ResponseRecorder {
		answer := httptest.NewRecorder()
		h.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, baseURL+rel, nil))
		return answer
	}
	w.put("a=1", "b=2")
	r := w.publish(s)
	if !r.Sets[0].Held || r.Sets[1].Held {
		t.Errorf("report %+v", r.Sets)
	}
	for _, rel := range []string{"resourcesync/main/capabilitylist.xml", "resourcesync/main/resourcelist.xml"} {
		if a := get(rel); a.Code != http.StatusServiceUnavailable || a.Header().Get("Retry-After") == "" {
			t.Errorf("%s: %d, Retry-After %q", rel, a.Code, a.Header().Get("Retry-After"))
		}
	}
	if a := get("resourcesync/other/resourcelist.xml"); a.Code != http.StatusOK {
		t.Errorf("other: %d", a.Code)
	}
	if a := get(".well-known/resourcesync"); !strings.Contains(a.Body.String(), "resourcesync/main/capabilitylist.xml") {
		t.Errorf("Source Description: %d %s", a.Code, a.Body)
	}
	const waits, list = "Not published yet", "resourcesync/main/resourcelist.xml"
	if home := get("").Body.String(); !strings.Contains(home, waits) || strings.Contains(home, list) || !strings.Contains(home, "resourcesync/other/resourcelist.xml") {
		t.Errorf("home page: %s", home)
	}
	if _, err := s.PublishDumps(t.Context()); err != nil {
		t.Error(err)
	}
	w.put("c=3", "a=4")
	w.publish(s)
	w.pass(20 * time.Second)
	if again := get("resourcesync/main/capabilitylist.xml").Header().Get("Retry-After"); again != "90" { // more than Destinations wait
		t.Errorf("Retry-After %q after a while", again)
	}
	hold.Store(false)
	if a := get("resourcesync/main/capabilitylist.xml"); a.Code != http.StatusServiceUnavailable {
		t.Errorf("released, but not published yet: %d", a.Code)
	}
	w.pass(time.Second)
	if r, err := s.PublishChanges(t.Context()); err != nil || r.Sets[0].Held {
		t.Errorf("%+v, %v", r, err)
	}
	if text := get(list).Body.String(); strings.Count(text, "<loc>") != 3 {
		t.Errorf("Resource List: %s", text)
	}
	if list := get("resourcesync/main/changelist.xml").Body.String(); strings.Contains(list, "<loc>") {
		t.Errorf("Change List: %s", list)
	}
	if home := get("").Body.String(); strings.Contains(home, waits) || !strings.Contains(home, list) {
		t.Errorf("home page: %s", home)
	}
	hold.Store(true)
	w.pass(time.Minute)
	w.put("d=5")
	w.publish(s)
	if list := get("resourcesync/main/changelist.xml").Body.String(); strings.Count(list, "<loc>") != 1 {
		t.Errorf("Change List after a change: %s", list)
	}
}

// TestDumpsOfASetFollowItsLists: PublishDumps leaves out a set that was released and is not
// published yet. Its dumps would be withdrawn when its lists are published, and for that
// moment its Capability List would name no document of its resources.
func TestDumpsOfASetFollowItsLists(t *testing.T) {
	t.Parallel()
	var hold atomic.Bool
	hold.Store(true)
	w := newDumpWorld(t, source.Options{}, source.Set{Hold: hold.Load, ResourceDump: &source.ResourceDump{}, ChangeDump: &source.ChangeDump{}})
	s := w.source()
	w.put("a=1", "b=2")
	w.publish(s)
	hold.Store(false)
	if r := w.dump(s); r.Dump || r.Packages > 0 {
		t.Errorf("a dump before the first publication: %+v", r)
	}
	if _, err := w.docs.Stat(t.Context(), "resourcesync/main/capabilitylist.xml"); !errors.Is(err, blob.ErrNotExist) {
		t.Errorf("Capability List before the first publication: %v", err)
	}
	w.publish(s)
	if r := w.dump(s); !r.Dump || r.Packages != 1 {
		t.Errorf("no dump after the first publication: %+v", r)
	}
}
