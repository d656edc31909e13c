package repository_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"lockstep/catalog"
	"lockstep/internal/reader"
	"lockstep/repository"
)

// TestPrivateSet: strangers get the same answers as if there were no private set, and its
// readers get those of all sets.
func TestPrivateSet(t *testing.T) {
	t.Parallel()
	change := func(private bool) func(*repository.Options) {
		return func(o *repository.Options) {
			o.Records = 2
			if private {
				o.Sets = append(o.Sets, repository.Set{Name: "hush", Catalog: "x:hush", Private: true})
			}
		}
	}
	fill := func(w *world, private bool) {
		w.put("https://example.org/1", "", "1")
		w.put("https://example.org/shared", "", "2")
		if private {
			for _, uri := range []string{"https://example.org/shared", "x:1", "x:2", "x:3"} {
				w.apply("x:hush", catalog.Update{Record: catalog.Record{URI: uri, Length: -1}})
			}
		}
	}
	plain, w := newWorld(t, change(false)), newWorld(t, change(true))
	fill(plain, false)
	fill(w, true)
	ask := func(w *world, query string, grant reader.Grant) *httptest.ResponseRecorder {
		r := httptest.NewRequest(http.MethodGet, baseURL+"?"+query, nil)
		r = r.WithContext(reader.With(r.Context(), func() reader.Grant { return grant }))
		got := httptest.NewRecorder()
		w.repo.ServeHTTP(got, r)
		return got
	}
	readers := reader.Grant{Sets: []string{"hush"}}
	list := "verb=ListRecords&metadataPrefix=oai_dc"
	_, rest, _ := strings.Cut(ask(w, list, readers).Body.String(), "<resumptionToken")
	_, rest, _ = strings.Cut(rest, ">")
	token, _, ok := strings.Cut(rest, "<")
	if !ok {
		t.Fatal("no token")
	}
	for _, query := range []string{
		"verb=Identify", "verb=ListSets", "verb=ListMetadataFormats", list, "verb=ListIdentifiers&metadataPrefix=oai_dc", list + "&set=hush", list + "&set=none",
		"verb=GetRecord&metadataPrefix=oai_dc&identifier=x:1", "verb=GetRecord&metadataPrefix=oai_dc&identifier=x:none",
		"verb=GetRecord&metadataPrefix=oai_dc&identifier=https://example.org/shared", "verb=ListMetadataFormats&identifier=x:1",
	} {
		want, got := ask(plain, query, reader.Grant{}), ask(w, query, reader.Grant{})
		if got.Code != want.Code || got.Body.String() != want.Body.String() || got.Header().Get("ETag") != want.Header().Get("ETag") {
			t.Errorf("%s: %d %s\nwant %d %s", query, got.Code, got.Body, want.Code, want.Body)
		}
		if vary := got.Header().Get("Vary"); vary != "Accept-Encoding, Authorization" {
			t.Errorf("%s: Vary %q", query, vary)
		}
		all := ask(w, query, readers)
		if caching := all.Header().Get("Cache-Control"); !strings.HasPrefix(caching, "private") && caching != "no-store" {
			t.Errorf("%s: Cache-Control %q", query, caching)
		}
		if refused := ask(w, query, reader.Grant{Status: http.StatusUnauthorized}); refused.Code != http.StatusUnauthorized || strings.Contains(refused.Body.String(), "hush") {
			t.Errorf("%s, with a wrong credential: %d %s", query, refused.Code, refused.Body)
		}
	}
	if got := ask(w, "verb=ListRecords&resumptionToken="+url.QueryEscape(token), reader.Grant{}).Body.String(); strings.Contains(got, "x:") && !strings.Contains(got, "badResumptionToken") || strings.Contains(got, "hush") {
		t.Errorf("a token of a reader: %s", got)
	}
	if got := ask(w, "verb=ListSets", readers).Body.String(); !strings.Contains(got, "hush") {
		t.Errorf("sets for a reader: %s", got)
	}
	if got := ask(w, "verb=GetRecord&metadataPrefix=oai_dc&identifier=x:1", readers).Body.String(); !strings.Contains(got, "<setSpec>hush</setSpec>") {
		t.Errorf("a record for a reader: %s", got)
	}
	only := newWorld(t, func(o *repository.Options) { o.Sets[0].Private = true })
	if got := ask(only, "verb=Identify", reader.Grant{}); got.Code != http.StatusUnauthorized {
		t.Errorf("a repository of private sets: %d", got.Code)
	}
}
