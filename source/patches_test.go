package source_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"lockstep/catalog"
	"lockstep/resourcesync"
	"lockstep/source"
)

// putPatch publishes a patch and has an update of the resource name it.
func (w *world) putPatch(s *source.Source, resource, patch string, named bool) (href string) {
	w.Helper()
	href, err := s.PutPatch(context.Background(), source.DefaultSet, "application/json-patch+json", []byte(patch))
	if err != nil {
		w.Fatal(err)
	}
	if named {
		r := record(baseURL+resource, patch)
		r.Links = []resourcesync.Link{{Rel: resourcesync.RelPatch, Href: href, Type: "application/json-patch+json"}}
		w.apply(catalog.Update{Record: r})
	}
	return href
}

func TestPatchesStayAsLongAsChangesNameThem(t *testing.T) {
	t.Parallel()
	w := newWorld(t, source.Options{Keep: 48 * time.Hour, Grace: 24 * time.Hour, SmallSet: 1})
	w.put("r=x", "s=y")
	s := w.source()
	w.publish(s)
	named, orphan := w.putPatch(s, "r", "[1]", true), w.putPatch(s, "r", "[2]", false)
	w.publish(s)
	there := func(href string) bool {
		_, err := w.docs.Stat(context.Background(), strings.TrimPrefix(href, baseURL))
		return err == nil
	}
	sweep := func(want int) {
		t.Helper()
		if n, err := s.SweepPatches(context.Background()); n != want || err != nil {
			t.Errorf("SweepPatches = %d, %v, want %d", n, err, want)
		}
	}
	sweep(0) // both are young
	w.pass(25 * time.Hour)
	sweep(1)
	if !there(named) || there(orphan) {
		t.Errorf("after the grace period the one named is there: %v, the other: %v", there(named), there(orphan))
	}
	for range 3 { // until the Change List has let go of the change
		w.pass(48 * time.Hour)
		w.put("s=" + w.now().String())
		w.publish(s)
	}
	sweep(1)
	if there(named) {
		t.Error("a patch that no change names is still there")
	}
}

func TestPatchesAreServed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, source.Options{})
	s := w.source()
	href := w.putPatch(s, "r", `[{"op":"remove","path":"/a"}]`, false)
	rec := httptest.NewRecorder()
	s.Handler().ServeHTTP(rec, httptest.NewRequest(http.MethodGet, href, nil))
	if got := rec.Result().Header; rec.Code != http.StatusOK || got.Get("Content-Type") != "application/json-patch+json" ||
		!strings.Contains(got.Get("Cache-Control"), "immutable") || !strings.HasPrefix(rec.Body.String(), "[{") {
		t.Errorf("GET %s: %d %v %s", href, rec.Code, got, rec.Body)
	}
	if _, err := s.PutPatch(context.Background(), source.DefaultSet, "text/plain", nil); err == nil {
		t.Error("a patch of a type nobody knows was published")
	}
	if got, _ := source.Attributes("resourcesync/main.patches/0.dcz"); got != "application/vnd.lockstep.dcz" {
		t.Errorf("type of a delta = %q", got)
	}
}
