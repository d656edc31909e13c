package source_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"lockstep/catalog"
	"lockstep/memento"
	"lockstep/resourcesync"
	"lockstep/source"
	"lockstep/validate/opener"
	"lockstep/validate/validatetest"
)

// A past is versions that are kept in memory.
type past struct {
	testing.TB
	*source.Versions
	store *memento.Mem
	bytes map[[32]byte]string
}

type heldVersion struct{ *bytes.Reader }

func (heldVersion) Close() error { return nil }

func newPast(t testing.TB) *past {
	p := &past{TB: t, store: memento.NewMem(), bytes: make(map[[32]byte]string)}
	p.Versions = &source.Versions{Store: p.store, Open: func(_ context.Context, v memento.Version) (memento.Content, error) {
		text, ok := p.bytes[v.Digest]
		if !ok {
			return nil, fs.ErrNotExist
		}
		return heldVersion{bytes.NewReader([]byte(text))}, nil
	}}
	return p
}

// keep keeps a version; with an empty text, a deletion.
func (p *past) keep(uri string, at time.Time, text string) {
	p.Helper()
	v := memento.Version{URI: uri, At: at, Gone: text == "", Length: int64(len(text)), Seq: at.Unix()}
	if !v.Gone {
		v.Digest, v.Type = sha256.Sum256([]byte(text)), "text/plain"
		p.bytes[v.Digest] = text
	}
	if err := p.store.Append(p.Context(), "set", v.Seq, []memento.Version{v}); err != nil {
		p.Fatal(err)
	}
}

func may(n int) time.Time { return time.Date(2026, 5, n, 2, 0, 0, 0, time.UTC) }

// A resource says where its versions are, there or gone, and negotiates nothing
// itself (ME-LK-02, ME-LK-03, ME-LK-06, ME-LK-07); they are there (ME-TG-08).
func TestServeVersions(t *testing.T) {
	t.Parallel()
	p := newPast(t)
	p.keep(baseURL+"a.txt", may(1), "old")
	p.keep(baseURL+"a.txt", may(3), "hello")
	p.keep(baseURL+"gone.txt", may(1), "was there")
	p.keep(baseURL+"gone.txt", may(2), "")
	p.keep(baseURL+"sp%20ace", may(1), "space")
	o := source.Options{Sets: []source.Set{{Versions: p.Versions}}}
	s := newSite(t, o, map[string]string{
		"a.txt": "hello", "sp ace": "space", "versions/x": "hidden", "timegate/x": "hidden", "timemap": "hidden", "versionsx": "shown", "dir/x": "",
	})
	links := func(uri string) string {
		return fmt.Sprintf(`<%stimegate/%s>; rel="timegate", <%stimemap/%s>; rel="timemap"; type="application/link-format"`, baseURL, uri, baseURL, uri)
	}
	for _, tt := range []struct {
		target string
		status int
		link   string
	}{
		{"/a.txt", 200, links(baseURL + "a.txt")},
		{"/%61.txt", 200, links(baseURL + "%61.txt")},
		{"/sp%20ace", 200, links(baseURL + "sp%20ace")},
		{"/gone.txt", 404, links(baseURL + "gone.txt")},
		{"/never.txt", 404, ""},
		{"/dir", 404, ""},
		{"/versionsx", 200, links(baseURL + "versionsx")},
		{list, 200, `<http://mementoweb.org/terms/donotnegotiate>; rel="type"`}, // ME-IM-02
	} {
		for _, method := range []string{"GET", "HEAD"} {
			r, _ := s.do(method, tt.target, "Accept-Datetime: "+memento.FormatDatetime(may(1)))
			got := slices.DeleteFunc(r.Header.Values("Link"), func(v string) bool { return v == linkToMain })
			if r.StatusCode != tt.status || strings.Join(got, ", ") != tt.link {
				t.Errorf("%s %s: status %d, Link %q; want %d, %q", method, tt.target, r.StatusCode, got, tt.status, tt.link)
			}
			if r.Header.Get("Memento-Datetime") != "" || strings.Contains(strings.ToLower(strings.Join(r.Header.Values("Vary"), ",")), "datetime") {
				t.Errorf("%s %s: %v", method, tt.target, r.Header)
			}
		}
	}
	for _, target := range []string{"/versions/x", "/timegate/x", "/timemap", "/versions", "/timemap?x", "/%76ersions/x", "/timegate/", "/versions//x"} {
		if r, body := s.do("GET", target); r.StatusCode != http.StatusNotFound || strings.Contains(body, "hidden") {
			t.Errorf("%s: status %d, %q", target, r.StatusCode, body)
		}
	}
	first := baseURL + "versions/20260501020000/" + baseURL + "a.txt"
	for _, target := range []string{
		"/timegate/" + baseURL + "a.txt", "/%74imegate/" + baseURL + "a.txt", "http://data.example.org/timegate/" + baseURL + "a.txt",
		"/timegate/" + baseURL + "%61.txt", "/timegate/https%3A%2F%2Fdata.example.org%2Fa.txt", "/timegate/https:/data.example.org/a.txt",
	} {
		r, _ := s.do("GET", target, "Accept-Datetime: "+memento.FormatDatetime(may(2)))
		if r.StatusCode != http.StatusFound || r.Header.Get("Location") != first {
			t.Errorf("%s: status %d to %s", target, r.StatusCode, r.Header.Get("Location"))
		}
	}
	r, body := s.do("GET", strings.TrimPrefix(first, "https://data.example.org"))
	if r.StatusCode != 200 || body != "old" || r.Header.Get("Memento-Datetime") != memento.FormatDatetime(may(1)) {
		t.Errorf("version: status %d, %q, %v", r.StatusCode, body, r.Header)
	}
	if r, _ := s.do("POST", "/timegate/"+baseURL+"a.txt"); r.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("POST: status %d", r.StatusCode)
	}
	plain := newSite(t, source.Options{}, map[string]string{"versions/x": "shown", "timegate/x": "shown"})
	for _, target := range []string{"/versions/x", "/timegate/x"} { // no prefix is taken where none are kept
		if _, body := plain.do("GET", target); body != "shown" {
			t.Errorf("without versions, %s is %q", target, body)
		}
	}
}

// The addresses lie below the base URL, however that is written.
func TestServeVersionsBelow(t *testing.T) {
	t.Parallel()
	const base = "https://data.example.org/my%20data/x/"
	p := newPast(t)
	uri := base + "a//b?c=d&e=http://f/%2F"
	p.keep(uri, may(1), "old")
	w := newWorld(t, source.Options{BaseURL: base, Sets: []source.Set{{Versions: p.Versions}}})
	h := w.source().Handler()
	for target, status := range map[string]int{
		"/my%20data/x/timegate/" + uri: 302, "/my%20%64ata/x/timegate/" + uri: 302, "/my%20data/x/timemap/" + uri: 200,
		"/timegate/" + uri: 404, "/my%20data/timegate/" + uri: 404, "/my%20data//x/timegate/" + uri: 404, "/my%20data/x": 404,
		strings.TrimPrefix(string(memento.Base(base).Memento(uri, may(1))), "https://data.example.org"): 200,
	} {
		rec := httptest.NewRecorder()
		r := httptest.NewRequest("GET", target, nil)
		h.ServeHTTP(rec, r)
		if rec.Code != status {
			t.Errorf("%s: status %d, want %d", target, rec.Code, status)
		}
		if to := rec.Header().Get("Location"); status == 302 && to != memento.Base(base).Memento(uri, may(1)) {
			t.Errorf("%s leads to %s", target, to)
		}
	}
}

// An entry whose record says which version it is leads to its TimeGate and
// TimeMap (ME-RS-01, ME-RS-05); deletions and others do not (ME-RS-06).
func TestLinksToVersions(t *testing.T) {
	t.Parallel()
	p := newPast(t)
	w := newWorld(t, source.Options{Sets: []source.Set{{Versions: p.Versions}}})
	b := memento.Base(baseURL)
	at := resourcesync.NewDatetime(w.now())
	version := func(name, content string) catalog.Record {
		r := record(baseURL+name, content)
		r.Lastmod = w.now()
		r.Links = []resourcesync.Link{{Rel: "memento", Href: b.Memento(r.URI, w.now()), Modified: at, Hashes: r.Hashes, Length: r.Length, HasLength: true, Type: r.Type}}
		return r
	}
	s := w.source()
	w.publish(s)
	w.apply(catalog.Update{Record: version("a", "1")}, catalog.Update{Record: version("b", "1")}, catalog.Update{Record: record(baseURL+"plain", "x")})
	foreign := record(baseURL+"foreign", "x")
	foreign.Links = []resourcesync.Link{{Rel: "memento", Href: "https://archive.example.org/1"}}
	w.apply(catalog.Update{Record: foreign})
	w.pass(time.Minute)
	w.apply(catalog.Update{Record: catalog.Record{URI: baseURL + "b"}, Deleted: true})
	w.publish(s)
	want := []string{
		"memento " + b.Memento(baseURL+"a", at.Time()), "timegate " + baseURL + "timegate/" + baseURL + "a", "timemap " + baseURL + "timemap/" + baseURL + "a",
	}
	changes := w.links(changeDocument, resourcesync.ChangeList)
	for uri, links := range map[string][]string{"a": want, "b": {}, "plain": {}, "foreign": {"memento https://archive.example.org/1"}} {
		if got := changes[baseURL+uri]; !slices.Equal(got, links) {
			t.Errorf("Change List, %s: %q, want %q", uri, got, links)
		}
	}
	// What the link says of its time is what is said there (ME-RS-04).
	p.keep(baseURL+"a", at.Time(), "1")
	rec := httptest.NewRecorder()
	s.Handler().ServeHTTP(rec, httptest.NewRequest("GET", strings.TrimPrefix(want[0], "memento https://data.example.org"), nil))
	if got := rec.Header().Get("Memento-Datetime"); rec.Code != 200 || got != memento.FormatDatetime(at.Time()) {
		t.Errorf("status %d, Memento-Datetime %q, want %v", rec.Code, got, at)
	}
	if got := w.links(listDocument, resourcesync.ResourceList)[baseURL+"a"]; !slices.Equal(got, want) {
		t.Errorf("Resource List: %q, want %q", got, want)
	}
	validatetest.NoFindings(t, opener.Named(baseURL, opening(w.docs)), baseURL+"resourcesync/main/capabilitylist.xml")
	// When no more are kept, lists are taken anew without them.
	ending := *p.Versions
	ending.Ending = true
	for _, v := range []*source.Versions{&ending, p.Versions, nil} {
		w.opts.Sets = []source.Set{{Versions: v}}
		w.publish(w.source())
		keeps := v == p.Versions
		if got := len(w.links(listDocument, resourcesync.ResourceList)[baseURL+"a"]) == 3; got != keeps {
			t.Errorf("versions %+v: entries lead to them: %v", v, got)
		}
	}
}

// One handler offers the versions of all sets.
func TestNewVersions(t *testing.T) {
	t.Parallel()
	a, b := newPast(t), newPast(t)
	for _, tt := range []struct {
		versions []*source.Versions
		text     string
	}{
		{[]*source.Versions{a.Versions, nil, a.Versions}, ""},
		{[]*source.Versions{a.Versions, b.Versions}, "in one store"},
		{[]*source.Versions{{Store: a.store}}, "what opens them"},
		{[]*source.Versions{{Open: a.Open}}, "need a store"},
	} {
		o := source.Options{BaseURL: baseURL}
		for i, v := range tt.versions {
			o.Sets = append(o.Sets, source.Set{Name: fmt.Sprint("s", i), Path: fmt.Sprint("s", i), Versions: v})
		}
		_, err := source.New(catalog.NewMem(nil), nil, o)
		if got := fmt.Sprint(err); (err != nil) != (tt.text != "") || !strings.Contains(got, tt.text) {
			t.Errorf("%v: %v, want %q", tt.versions, err, tt.text)
		}
	}
	// A version of one set is found though another one is asked first.
	b.keep(baseURL+"s1/x", may(1), "of the second")
	other := *b.Versions
	other.Open = func(context.Context, memento.Version) (memento.Content, error) { return nil, fs.ErrNotExist }
	w := newWorld(t, source.Options{Sets: []source.Set{{Name: "s0", Path: "s0", Versions: &other}, {Name: "s1", Path: "s1", Versions: b.Versions}, {Name: "s2", Path: "s2"}}})
	h := w.source().Handler()
	rec := httptest.NewRecorder()
	h.ServeHTTP(rec, httptest.NewRequest("GET", "/versions/20260501020000/"+baseURL+"s1/x", nil))
	if rec.Code != 200 || rec.Body.String() != "of the second" {
		t.Errorf("status %d, %s", rec.Code, rec.Body)
	}
	for path, want := range map[string]bool{"/s1/x": true, "/s2/x": false, "/s0/never": false, "/x": false} {
		rec := httptest.NewRecorder()
		h.ServeHTTP(rec, httptest.NewRequest("GET", path, nil))
		if got := strings.Contains(strings.Join(rec.Header().Values("Link"), " "), "timegate"); got != want || rec.Code != 404 {
			t.Errorf("%s: status %d, Link %q", path, rec.Code, rec.Header().Values("Link"))
		}
	}
}

// A front answers as the server behind it does, and takes no address of a
// version for another (ME-TG-08).
func TestFrontVersions(t *testing.T) {
	t.Parallel()
	p := newPast(t)
	const base = "http://data.example.org/"
	for i := 1; i < 4; i++ {
		p.keep(base+"a.txt", may(i), fmt.Sprint("text ", i))
	}
	p.keep(base+"gone.txt", may(1), "was there")
	p.keep(base+"gone.txt", may(2), "")
	w := newFrontWorld(t, map[string]string{"a.txt": "hello", "versions/x": "hidden"}, source.Set{Versions: p.Versions})
	get := func(path string, lines ...string) string { return "GET " + path + plainHead + joined(lines) + "\r\n" }
	asked := "Accept-Datetime: " + memento.FormatDatetime(may(2))
	cases := [][]string{
		{get("/a.txt"), get("/a.txt", asked), get("/a.txt")},
		{get("/timegate/" + base + "a.txt"), get("/timegate/"+base+"a.txt", asked), get("/timegate/"+base+"a.txt", "Accept-Datetime: then")},
		{get("/timemap/" + base + "a.txt"), get("/timemap/"+base+"a.txt", "Accept: application/json"), get("/timemap/json/" + base + "a.txt")},
		{get("/versions/20260502020000/" + base + "a.txt"), get("/versions/x"), get("/timegate/x"), get("/timegate")},
		{get("/gone.txt"), get("/never.txt"), get("/a.txt")},
	}
	for round := range 3 {
		for _, c := range cases {
			want, got := w.exchange(w.plain, c...), w.exchange(w.front, c...)
			if strings.Join(want, "\n---\n") != strings.Join(got, "\n---\n") {
				t.Errorf("round %d: %.300q:\n%.600q\nwithout a front:\n%.600q", round, c, got, want)
			}
		}
		time.Sleep(1200 * time.Millisecond) // answers become ripe
	}
	if got := w.exchange(w.front, get("/a.txt"))[0]; !strings.Contains(got, `rel="timegate"`) {
		t.Errorf("an answer that was kept: %q", got)
	}
	if got := w.exchange(w.front, get("/gone.txt"))[0]; !strings.Contains(got, "404") || !strings.Contains(got, `rel="timegate"`) {
		t.Errorf("what is gone: %q", got)
	}
}
