package source_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"lockstep/blob"
	"lockstep/catalog"
	"lockstep/source"
)

// TestRefresh: a Source that serves what another one has published shows the same pages, and shows the
// documents about the whole as soon as they name no private set.
func TestRefresh(t *testing.T) {
	t.Parallel()
	cat, docs := catalog.NewMem(nil), new(blob.Mem)
	o := source.Options{BaseURL: "https://example.org/", Sets: []source.Set{{Name: "open", Path: "open/"}, {Name: "closed", Path: "closed/", Private: true}}}
	open := func() *source.Source {
		t.Helper()
		s, err := source.New(cat, docs, o)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	publisher, standby := open(), open()
	get := func(s *source.Source, path string) (int, string) {
		w := httptest.NewRecorder()
		s.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "https://example.org/"+path, nil))
		return w.Code, w.Body.String()
	}
	refresh := func() {
		t.Helper()
		if err := standby.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	refresh()
	if _, home := get(standby, ""); strings.Contains(home, "0 resources") {
		t.Error("before anything is published, the home page says what is in it")
	}
	for i, uri := range []string{"https://example.org/open/a", "https://example.org/open/b"} {
		list, err := source.CapabilityListURI(o.BaseURL, "open")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := cat.Apply(context.Background(), list, []catalog.Update{{Record: catalog.Record{URI: uri, Length: -1}}}); err != nil {
			t.Fatal(err)
		}
		if _, err := publisher.Publish(t.Context()); err != nil {
			t.Fatal(err)
		}
		if code, _ := get(standby, ".well-known/resourcesync"); i == 0 && code == http.StatusOK {
			t.Error("the Source Description is shown before it is known that it names no private set")
		}
		refresh()
		for _, path := range []string{"", ".well-known/resourcesync", "resourcesync/open/resourcelist.xml"} {
			wantCode, want := get(publisher, path)
			if path == "" && !strings.Contains(want, fmt.Sprint(i+1, " resource")) {
				t.Errorf("the home page of the publisher does not say how many resources there are")
			}
			if code, text := get(standby, path); code != wantCode || text != want || code != http.StatusOK {
				t.Errorf("/%s is answered with %d and %d bytes, want %d and %d", path, code, len(text), wantCode, len(want))
			}
		}
	}
	o.Sets[0].Private = true
	standby = open()
	refresh()
	if code, text := get(standby, ".well-known/resourcesync"); code == http.StatusOK {
		t.Errorf("the Source Description still names a set that has become private:\n%s", text)
	}
}
