package repository_test

import (
	"compress/gzip"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"lockstep/catalog"
	"lockstep/repository"
)

// POST is equivalent to GET (OAI-PMH 2.0, 3.1.1), and its size is limited.
func TestPost(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.put("https://example.org/a", "text/plain", "a")
	post := func(query, contentType, body string) *response {
		r := httptest.NewRequest(http.MethodPost, baseURL+query, strings.NewReader(body))
		r.Header.Set("Content-Type", contentType)
		rec := httptest.NewRecorder()
		w.repo.ServeHTTP(rec, r)
		if rec.Code != http.StatusOK {
			t.Fatalf("POST %s: status %d", body, rec.Code)
		}
		return w.parse(rec.Body.String())
	}
	const form = "application/x-www-form-urlencoded"
	wantIDs(t, []*response{post("", form, "verb=ListRecords&metadataPrefix=oai_dc")}, "https://example.org/a")
	wantIDs(t, []*response{post("?verb=ListRecords", form+"; charset=utf-8", "metadataPrefix=oai_dc")}, "https://example.org/a")
	for _, tt := range []struct{ query, contentType, body, code string }{
		{"?verb=Identify", form, "verb=Identify", "badVerb"},
		{"?verb=Identify", "application/json", "{}", "badArgument"},
		{"?verb=Identify", form, "%", "badArgument"},
		{"", form, "verb=Identify&x=" + strings.Repeat("x", 1<<20), "badArgument"},
	} {
		if r := post(tt.query, tt.contentType, tt.body); r.Error.Code != tt.code {
			t.Errorf("POST %s %.40s: %+v, want %s", tt.query, tt.body, r.Error, tt.code)
		}
	}
}

func TestMethods(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.put("https://example.org/a", "text/plain", "a")
	server := httptest.NewServer(w.repo)
	defer server.Close()
	do := func(method string) (*http.Response, string) {
		r, err := http.NewRequestWithContext(t.Context(), method, server.URL+"/any/path?verb=Identify", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := server.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp, string(body)
	}
	if resp, body := do(http.MethodHead); resp.StatusCode != http.StatusOK || body != "" || resp.Header.Get("Content-Type") != "text/xml; charset=utf-8" {
		t.Errorf("HEAD: %s, %v, %q", resp.Status, resp.Header, body)
	}
	if resp, body := do(http.MethodGet); resp.StatusCode != http.StatusOK || !resp.Uncompressed || w.parse(body).Identify.Version != "2.0" {
		t.Errorf("GET: %s, %v, %q", resp.Status, resp.Header, body)
	}
	if resp, _ := do(http.MethodPut); resp.StatusCode != http.StatusMethodNotAllowed || resp.Header.Get("Allow") != "GET, HEAD, POST" {
		t.Errorf("PUT: %s, %v", resp.Status, resp.Header)
	}
}

func TestGzip(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	for _, tt := range []struct {
		accept string
		want   bool
	}{{"gzip", true}, {"deflate, GZIP;q=0.5", true}, {"gzip; q=0", false}, {"gzip;q=0.000", false}, {"", false}, {"identity", false}} {
		got := w.do(http.MethodGet, "verb=ListSets", http.Header{"Accept-Encoding": {tt.accept}})
		body := io.Reader(got.Body)
		if zipped := got.Header().Get("Content-Encoding") == "gzip"; zipped != tt.want {
			t.Errorf("Accept-Encoding %q: %v", tt.accept, got.Header())
		} else if zipped {
			zip, err := gzip.NewReader(body)
			if err != nil {
				t.Fatal(err)
			}
			body = zip
		}
		text, err := io.ReadAll(body)
		if err != nil || len(w.parse(string(text)).Sets) != 1 {
			t.Errorf("Accept-Encoding %q: %v, %s", tt.accept, err, text)
		}
	}
}

// An unchanged response to the same request is answered with 304.
func TestConditional(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.put("https://example.org/a", "text/plain", "a")
	const list, get = "verb=ListRecords&metadataPrefix=oai_dc", "verb=GetRecord&metadataPrefix=oai_dc&identifier=https://example.org/a"
	for _, query := range []string{list, get} {
		tag := w.do(http.MethodGet, query, nil).Header().Get("ETag")
		if tag == "" {
			t.Fatalf("%s: no entity tag", query)
		}
		w.pass(time.Hour)
		known := http.Header{"If-None-Match": {`"x", ` + tag}}
		if got := w.do(http.MethodGet, query, known); got.Code != http.StatusNotModified || got.Body.Len() > 0 || got.Header().Get("Vary") != "Accept-Encoding" {
			t.Errorf("%s again: status %d", query, got.Code)
		}
		if got := w.do(http.MethodGet, query+"&from=2026-03-01", known); got.Code != http.StatusOK {
			t.Errorf("%s and more: status %d", query, got.Code)
		}
		w.put("https://example.org/a", "text/plain", tag)
		if got := w.do(http.MethodGet, query, known); got.Code != http.StatusOK {
			t.Errorf("%s after a change: status %d", query, got.Code)
		}
	}
	if got := w.do(http.MethodGet, "verb=ListRecords&metadataPrefix=none", nil).Header().Get("ETag"); got != "" {
		t.Errorf("an error has the entity tag %s", got)
	}
}

// If nothing was published yet, the harvester is asked to retry (OAI-PMH 2.0,
// 3.1.2.2).
func TestNotPublished(t *testing.T) {
	t.Parallel()
	cat := catalog.NewMem(nil)
	repo, err := repository.New(cat, repository.Options{BaseURL: baseURL, Sets: []repository.Set{{Name: "main", Catalog: listURI}}})
	if err != nil {
		t.Fatal(err)
	}
	rec := httptest.NewRecorder()
	repo.ServeHTTP(rec, httptest.NewRequest(http.MethodGet, baseURL+"?verb=ListRecords&metadataPrefix=oai_dc", http.NoBody))
	if rec.Code != http.StatusServiceUnavailable || rec.Header().Get("Retry-After") == "" {
		t.Errorf("status %d, %v", rec.Code, rec.Header())
	}
	if s, err := cat.Status(t.Context(), listURI); err != nil || !s.Kept.At.IsZero() {
		t.Errorf("the set was marked before it was published: %+v, %v", s, err)
	}
}

func TestOptions(t *testing.T) {
	t.Parallel()
	good := repository.Options{BaseURL: baseURL, Sets: []repository.Set{{Name: "a", Catalog: "x"}}}
	for name, change := range map[string]func(*repository.Options){
		"no base URL":  func(o *repository.Options) { o.BaseURL = "" },
		"a query":      func(o *repository.Options) { o.BaseURL += "?x" },
		"no set":       func(o *repository.Options) { o.Sets = nil },
		"a colon":      func(o *repository.Options) { o.Sets = []repository.Set{{Name: "a:b"}} },
		"twice":        func(o *repository.Options) { o.Sets = slices.Concat(o.Sets, o.Sets) },
		"no e-mail":    func(o *repository.Options) { o.Admin = "who" },
		"no e-mail, 2": func(o *repository.Options) { o.Admin = "who@localhost" },
	} {
		o := good
		change(&o)
		if _, err := repository.New(catalog.NewMem(nil), o); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	for _, base := range []string{"http://localhost:8080/oai", "http://[::1]/oai", "http://192.0.2.1/oai", "https://example.org/oai"} {
		o := good
		o.BaseURL = base
		if _, err := repository.New(catalog.NewMem(nil), o); err != nil {
			t.Errorf("%s: %v", base, err)
		}
	}
}

// A client that disconnects during a response is noticed, and causes no further
// work.
func TestGone(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.put("https://example.org/a", "text/plain", "a")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r := httptest.NewRequest(http.MethodGet, baseURL+"?verb=ListRecords&metadataPrefix=oai_dc", http.NoBody).WithContext(ctx)
	defer func() {
		got := recover()
		if err, ok := got.(error); !ok || !errors.Is(err, http.ErrAbortHandler) {
			t.Errorf("panic with %v", got)
		}
		wantIDs(t, w.all("verb=ListRecords&metadataPrefix=oai_dc"), "https://example.org/a")
	}()
	w.repo.ServeHTTP(httptest.NewRecorder(), r)
}

// A stuck client does not read its response.
type stuck struct {
	httptest.ResponseRecorder
	free chan struct{}
}

func (s *stuck) Write(b []byte) (int, error) {
	<-s.free
	return len(b), nil
}

// Clients that request large records and do not read them use limited memory:
// further requests for large records are answered with Retry-After, and all
// others are served.
func TestStuck(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		w.put("https://example.org/large", "text/xml", `<r xmlns="urn:example:r">`+strings.Repeat("x", 1<<20)+`</r>`)
		w.put("https://example.org/small", "text/xml", `<r xmlns="urn:example:r"/>`)
		prefix := w.ask("verb=ListMetadataFormats").Formats[1].Prefix
		get := "verb=GetRecord&metadataPrefix=" + prefix + "&identifier=https://example.org/"
		free := make(chan struct{})
		var clients sync.WaitGroup
		for i := range 40 {
			query := []string{get + "large", "verb=ListRecords&metadataPrefix=" + prefix}[i%2]
			clients.Go(func() {
				w.repo.ServeHTTP(&stuck{free: free}, httptest.NewRequest(http.MethodGet, baseURL+"?"+query, http.NoBody))
			})
		}
		synctest.Wait()
		if got := w.do(http.MethodGet, get+"large", nil); got.Code != http.StatusServiceUnavailable || got.Header().Get("Retry-After") == "" {
			t.Errorf("one more: status %d, %v", got.Code, got.Header())
		}
		wantIDs(t, w.all("verb=ListRecords&metadataPrefix=oai_dc"), "https://example.org/large", "https://example.org/small")
		wantIDs(t, []*response{w.ask(get + "small")}, "https://example.org/small")
		close(free)
		clients.Wait()
		wantIDs(t, w.all("verb=ListRecords&metadataPrefix="+prefix), "https://example.org/large", "https://example.org/small")
	})
}

// Every request gets a well-formed response, or a plain refusal.
func FuzzRequest(f *testing.F) {
	for _, s := range []string{"verb=Identify", "verb=ListRecords&metadataPrefix=oai_dc", "verb=GetRecord&identifier=%00&metadataPrefix=x", "verb=ListIdentifiers&resumptionToken=AAAA"} {
		f.Add(s)
	}
	var w *world
	f.Fuzz(func(t *testing.T, query string) {
		if w == nil {
			w = newWorld(t, nil)
			w.put("https://example.org/a", "text/plain", "a")
		}
		w.T = t
		r := &http.Request{Method: http.MethodGet, URL: &url.URL{Path: "/oai", RawQuery: query}, Header: http.Header{}}
		rec := httptest.NewRecorder()
		w.repo.ServeHTTP(rec, r)
		if rec.Code != http.StatusOK {
			t.Fatalf("status %d", rec.Code)
		}
		w.parse(rec.Body.String())
	})
}
