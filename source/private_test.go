package source_test

import (
	"context"
	"crypto/sha256"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"lockstep/catalog"
	access "lockstep/internal/reader"
	"lockstep/memento"
	"lockstep/source"
)

// A guarded Source has a public set everywhere, a private one below vault/, and one whose
// resources are elsewhere.
type guarded struct {
	*world
	src *source.Source
	h   http.Handler
}

// inDir returns what opens files below a directory, and only those that are allowed.
func inDir(t *testing.T, dir string, allowed func(rel string) bool) func(string) (*os.File, fs.FileInfo, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = root.Close() })
	return func(rel string) (*os.File, fs.FileInfo, error) {
		if !allowed(rel) {
			return nil, nil, fs.ErrNotExist
		}
		f, err := root.Open(rel)
		if err != nil {
			return nil, nil, err
		}
		info, err := f.Stat()
		return f, info, err
	}
}

func newGuarded(t *testing.T) *guarded {
	t.Helper()
	dir, past := t.TempDir(), newPast(t)
	for name, text := range map[string]string{"a.txt": "public", "vault/a.txt": "secret", "vault/open.txt": "public too", "vault/sub/b.txt": "secret"} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	w := newWorld(t, source.Options{
		Sets: []source.Set{
			{Versions: past.Versions},
			{Name: "hush", Path: "vault/", Private: true, Versions: past.Versions, Atom: &source.Atom{}, Content: inDir(t, dir, func(string) bool { return true })},
			{Name: "whisper", Elsewhere: true, URI: "https://elsewhere.example/", Private: true},
		},
		Content: inDir(t, dir, func(rel string) bool { return !strings.HasPrefix(rel, "vault/") || rel == "vault/open.txt" }),
		Hubs:    []source.Hub{{URL: baseURL + "hub"}}, Streams: 10, OnDemand: &source.OnDemand{},
	})
	w.put("a.txt=public", "vault/open.txt=public too")
	for set, uri := range map[string]string{"hush": baseURL + "vault/a.txt", "whisper": "https://elsewhere.example/x"} {
		list, err := source.CapabilityListURI(baseURL, set)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.cat.Apply(t.Context(), list, []catalog.Update{{Record: record(uri, "secret")}}); err != nil {
			t.Fatal(err)
		}
		v := memento.Version{URI: uri, At: may(1), Length: 6, Digest: sha256.Sum256([]byte("secret")), Seq: 1}
		past.bytes[v.Digest] = "secret"
		if err := past.store.Append(t.Context(), list, 1, []memento.Version{v}); err != nil {
			t.Fatal(err)
		}
	}
	main, err := source.CapabilityListURI(baseURL, source.DefaultSet)
	if err != nil {
		t.Fatal(err)
	}
	if err := past.store.Append(t.Context(), main, 1, []memento.Version{{URI: baseURL + "a.txt", At: may(1), Length: 1, Seq: 1}}); err != nil {
		t.Fatal(err)
	}
	// The versions of a set that is not configured any more.
	if err := past.store.Append(t.Context(), baseURL+"resourcesync/gone/capabilitylist.xml", 1, []memento.Version{{URI: baseURL + "gone.txt", At: may(1), Length: 1, Seq: 1}}); err != nil {
		t.Fatal(err)
	}
	g := &guarded{world: w, src: w.source()}
	w.publish(g.src)
	g.h = g.src.Handler()
	return g
}

// ask sends a request of a reader of sets; nil is a stranger.
func (g *guarded) ask(method, target string, grant *access.Grant, header ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, target, nil)
	if grant != nil {
		r = r.WithContext(access.With(r.Context(), func() access.Grant { return *grant }))
	}
	for _, h := range header {
		name, value, _ := strings.Cut(h, ": ")
		r.Header.Set(name, value)
	}
	w := httptest.NewRecorder()
	g.h.ServeHTTP(w, r)
	return w
}

var (
	stranger *access.Grant
	hushed   = &access.Grant{Sets: []string{"hush"}}
	both     = &access.Grant{Sets: []string{"hush", "whisper"}}
	wrong    = &access.Grant{Status: http.StatusUnauthorized}
	hasty    = &access.Grant{Status: http.StatusTooManyRequests, After: time.Minute}
)

// TestPrivateSets: what belongs to a private set is answered to its readers only, with the
// same answer to all others whether it exists or not.
func TestPrivateSets(t *testing.T) {
	t.Parallel()
	g := newGuarded(t)
	const vault, hush, whisper = "/vault/", "/resourcesync/hush/", "/resourcesync/whisper/"
	timegate := func(uri string) string { return "/timegate/" + uri }
	for _, tt := range []struct {
		target                  string
		stranger, hushed, wrong int
	}{
		{"/a.txt", 200, 200, 200},
		{"/missing.txt", 404, 404, 404},
		{vault + "a.txt", 401, 200, 401},
		{vault + "sub/b.txt", 401, 200, 401},
		{vault + "missing.txt", 401, 404, 401},
		{vault + "sub", 401, 404, 401},
		{vault + "open.txt", 200, 200, 200},
		{"/%76ault/a.txt", 401, 200, 401},
		{vault + "%61.txt", 401, 200, 401},
		{"/vault//a.txt", 404, 404, 404}, // no address at all
		{"/vault/./a.txt", 404, 404, 404},
		{"/x/../vault/a.txt", 404, 404, 404},
		{"/vault%2Fa.txt", 404, 404, 404},
		{"/VAULT/a.txt", 404, 404, 404},
		{"//vault/a.txt", 404, 404, 404},
		{hush + "capabilitylist.xml", 401, 200, 401},
		{hush + "resourcelist.xml", 401, 200, 401},
		{hush + "atom.xml", 401, 200, 401},
		{hush + "changes", 401, 204, 401},
		{hush + "missing.xml", 401, 404, 401},
		{"/resourcesync/hus%68/resourcelist.xml", 401, 200, 401},
		{"/%72esourcesync/hush/resourcelist.xml", 401, 200, 401},
		{"http://data.example.org/resourcesync/hush/resourcelist.xml", 401, 200, 401},
		{whisper + "capabilitylist.xml", 401, 401, 401},
		{whisper + "missing.xml", 401, 401, 401},
		{"/resourcesync/nothing/capabilitylist.xml", 401, 401, 401}, // so that no name can be guessed
		{"/resourcesync/main/capabilitylist.xml", 200, 200, 200},
		{"/resourcesync/main/missing.xml", 404, 404, 404},
		{"/resourcesync/hush", 404, 404, 404},
		{"/resourcesync/nothing", 404, 404, 404},
		{"/robots.txt", 200, 200, 200},
		{"/resourcesync/", 200, 200, 200},
		{"/", 200, 200, 401},
		{description, 200, 200, 401},
		{"/-/healthz", 200, 200, 200},
		{timegate(baseURL + "a.txt"), 302, 302, 302},
		{timegate(baseURL + "b.txt"), 404, 404, 404},
		{timegate(baseURL + "vault/a.txt"), 401, 302, 401},
		{timegate(baseURL + "vault/none.txt"), 401, 404, 401},
		{timegate("https%3A%2F%2Fdata.example.org%2Fvault%2Fa.txt"), 401, 302, 401},
		{timegate("https:/data.example.org/vault/%61.txt"), 401, 302, 401},
		{timegate(baseURL + "gone.txt"), 401, 401, 401},
		{"/timemap/" + baseURL + "vault/a.txt", 401, 200, 401},
		{"/timemap/json/" + baseURL + "vault/a.txt", 401, 200, 401},
		{"/timemap/link/20260501020000/" + baseURL + "vault/a.txt", 401, 200, 401},
		{"/versions/20260501020000/" + baseURL + "vault/a.txt", 401, 200, 401},
		{"/versions/20260501020001/" + baseURL + "vault/a.txt", 401, 404, 401},
		{"/versions/nonsense/" + baseURL + "vault/a.txt", 401, 404, 401},
		{"/timegate/", 404, 404, 404},
	} {
		for who, one := range map[string]struct {
			grant *access.Grant
			want  int
		}{"a stranger": {stranger, tt.stranger}, "a reader": {hushed, tt.hushed}, "a wrong credential": {wrong, tt.wrong}} {
			for _, method := range []string{"GET", "HEAD"} {
				w := g.ask(method, tt.target, one.grant)
				if w.Code != one.want {
					t.Errorf("%s %s, %s: %d, want %d", method, tt.target, who, w.Code, one.want)
				}
				text := w.Body.String()
				for name, values := range w.Header() {
					text += "\n" + name + ": " + strings.Join(values, " ")
				}
				echo := strings.Contains(tt.target, "time") && tt.stranger == 404 // an address that was given is repeated
				if one.grant != hushed && !echo && (strings.Contains(text, "hush") || strings.Contains(text, "vault/a") || strings.Contains(text, "secret")) || strings.Contains(text, "whisper") {
					t.Errorf("%s %s, %s: %s", method, tt.target, who, text)
				}
				if w.Code == 401 && (len(w.Header().Values("WWW-Authenticate")) != 2 || w.Header().Get("Cache-Control") != "no-store") {
					t.Errorf("%s %s, %s: %v", method, tt.target, who, w.Header())
				}
				if caching := w.Header().Get("Cache-Control"); one.grant == hushed && tt.stranger == 401 && w.Code < 400 && !strings.HasPrefix(caching, "private") && caching != "no-store" {
					t.Errorf("%s %s, %s: Cache-Control %q", method, tt.target, who, caching)
				}
			}
		}
	}
	for _, method := range []string{"POST", "PUT", "DELETE", "OPTIONS"} {
		for _, target := range []string{hush + "dump", hush + "resourcelist.xml", vault + "a.txt"} {
			if w := g.ask(method, target, stranger); w.Code != 401 {
				t.Errorf("%s %s: %d", method, target, w.Code)
			}
		}
	}
	if w := g.ask("GET", vault+"a.txt", stranger, "Range: bytes=0-1", "If-None-Match: *", "If-Modified-Since: Thu, 01 Jan 2099 00:00:00 GMT"); w.Code != 401 {
		t.Errorf("a conditional request for a range: %d", w.Code)
	}
	if w := g.ask("GET", hush+"resourcelist.xml", hasty); w.Code != 429 || w.Header().Get("Retry-After") != "60" {
		t.Errorf("too many: %d, %v", w.Code, w.Header())
	}
}

// TestPrivateNames: pages and documents about the Source as a whole name a private set to
// its readers, and to no one else.
func TestPrivateNames(t *testing.T) {
	t.Parallel()
	g := newGuarded(t)
	for _, target := range []string{description, "/"} {
		open, mine, all := g.ask("GET", target, stranger), g.ask("GET", target, hushed), g.ask("GET", target, both)
		for _, tt := range []struct {
			name string
			w    *httptest.ResponseRecorder
			want []bool // main, hush, whisper
		}{{"a stranger", open, []bool{true, false, false}}, {"a reader", mine, []bool{true, true, false}}, {"a reader of both", all, []bool{true, true, true}}} {
			got := []bool{}
			for _, set := range []string{"main", "hush", "whisper"} {
				got = append(got, strings.Contains(tt.w.Body.String(), "resourcesync/"+set+"/capabilitylist.xml"))
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("%s, %s: %v, want %v", target, tt.name, got, tt.want)
			}
		}
		if vary := open.Header().Values("Vary"); !slices.Contains(vary, "Authorization") {
			t.Errorf("%s: Vary %q", target, vary)
		}
		if open.Header().Get("ETag") == mine.Header().Get("ETag") || !strings.HasPrefix(mine.Header().Get("Cache-Control"), "private") {
			t.Errorf("%s: %v", target, mine.Header())
		}
		if w := g.ask("GET", target, hushed, "If-None-Match: "+mine.Header().Get("ETag")); w.Code != 304 {
			t.Errorf("%s again: %d", target, w.Code)
		}
	}
	link := strings.Join(g.ask("GET", "/vault/a.txt", hushed).Header().Values("Link"), ", ")
	if !strings.Contains(link, "resourcesync/hush/") || !strings.Contains(link, "resourcesync/main/") || !strings.Contains(link, "timegate/") {
		t.Errorf("links of a private resource: %s", link)
	}
	for name, data := range g.files() {
		if !strings.HasPrefix(name, "resourcesync/hush/") && !strings.HasPrefix(name, "resourcesync/whisper/") && !strings.HasPrefix(name, ".lockstep/") && strings.Contains(data, "hush") {
			t.Errorf("%s: %s", name, data)
		}
	}
}

// TestBecomesPrivate: a document that names the set is not shown before it is written again, and
// what the front has kept is not used.
func TestBecomesPrivate(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "a.txt"), []byte("text"), 0o644); err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, source.Options{Sets: []source.Set{{}, {Name: "hush", Path: "vault/"}}})
	w.put("a.txt=text")
	w.publish(w.source())
	w.opts.Sets[1].Private = true
	g := &guarded{world: w, src: w.source()}
	g.h = g.src.Handler()
	for _, target := range []string{description, "/robots.txt", "/resourcesync/"} {
		if r := g.ask("GET", target, stranger); r.Code != 503 || r.Header().Get("Retry-After") == "" || strings.Contains(r.Body.String(), "hush") {
			t.Errorf("%s before: %d %s", target, r.Code, r.Body)
		}
	}
	w.publish(g.src)
	for _, target := range []string{description, "/robots.txt", "/resourcesync/"} {
		if r := g.ask("GET", target, stranger); r.Code != 200 || strings.Contains(r.Body.String(), "hush") {
			t.Errorf("%s after: %d %s", target, r.Code, r.Body)
		}
	}
	// The set is removed: its documents are still there.
	w.opts.Sets, w.opts.OnlySets = w.opts.Sets[:1], true
	g.src = w.source()
	g.h = g.src.Handler()
	w.publish(g.src)
	if r := g.ask("GET", "/resourcesync/hush/capabilitylist.xml", both); r.Code != 404 {
		t.Errorf("of a removed set: %d", r.Code)
	}
}

// TestAllPrivate: a Source without a public set shows strangers nothing.
func TestAllPrivate(t *testing.T) {
	t.Parallel()
	w := newWorld(t, source.Options{Sets: []source.Set{{Private: true}}, Content: inDir(t, t.TempDir(), func(string) bool { return false })})
	w.put("a.txt=text")
	g := &guarded{world: w, src: w.source()}
	g.h = g.src.Handler()
	w.publish(g.src)
	main := &access.Grant{Sets: []string{"main"}}
	for _, target := range []string{"/", description, "/a.txt", "/resourcesync/main/resourcelist.xml"} {
		if r := g.ask("GET", target, stranger); r.Code != 401 {
			t.Errorf("%s: %d", target, r.Code)
		}
	}
	if r := g.ask("GET", description, main); r.Code != 200 || !strings.Contains(r.Body.String(), "main") {
		t.Errorf("a reader: %d %s", r.Code, r.Body)
	}
}

// TestPrivateStreamEnds: an event stream ends when its credential is withdrawn.
func TestPrivateStreamEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newGuarded(t) // its channels belong to this time
		var grant atomic.Pointer[access.Grant]
		grant.Store(hushed)
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		r := httptest.NewRequest("GET", "/resourcesync/hush/changes", nil).WithContext(access.With(ctx, func() access.Grant { return *grant.Load() }))
		r.Header.Set("Accept", "text/event-stream")
		began, ended := time.Now(), make(chan time.Duration, 1)
		go func() {
			g.h.ServeHTTP(httptest.NewRecorder(), r)
			ended <- time.Since(began)
		}()
		time.Sleep(5 * time.Minute)
		select {
		case d := <-ended:
			t.Fatalf("it ended after %v", d)
		default:
		}
		grant.Store(&access.Grant{})
		if d := <-ended; d > 6*time.Minute {
			t.Errorf("it ended after %v", d)
		}
	})
}

// TestPrivateOptions: what could not be kept private is refused.
func TestPrivateOptions(t *testing.T) {
	t.Parallel()
	w := newWorld(t, source.Options{})
	for name, o := range map[string]source.Options{
		"static files":        {Static: true, Sets: []source.Set{{Private: true}}},
		"content of a public": {Sets: []source.Set{{Content: func(string) (*os.File, fs.FileInfo, error) { return nil, nil, fs.ErrNotExist }}}},
	} {
		o.BaseURL = baseURL
		if _, err := source.New(w.cat, w.docs, o); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// TestReadersDescriptionModified: the Source Description for readers of private sets has a
// time of modification, which is stable, never in the future, and later once a reader sees
// other sets.
func TestReadersDescriptionModified(t *testing.T) {
	t.Parallel()
	g := newGuarded(t)
	const target = "/.well-known/resourcesync"
	alice := &access.Grant{Name: "alice", Sets: []string{"hush"}}
	modified := func(grant *access.Grant) (string, time.Time) {
		t.Helper()
		w := g.ask("GET", target, grant)
		text := w.Header().Get("Last-Modified")
		mod, err := http.ParseTime(text)
		if w.Code != http.StatusOK || err != nil || mod.After(g.now()) {
			t.Fatalf("status %d, Last-Modified %q at %s", w.Code, text, g.now())
		}
		return text, mod
	}
	text, first := modified(alice)
	g.pass(time.Hour)
	if again, _ := modified(alice); again != text {
		t.Errorf("Last-Modified %s, then %s", text, again)
	}
	if w := g.ask("GET", target, alice, "If-Modified-Since: "+text); w.Code != http.StatusNotModified {
		t.Errorf("If-Modified-Since %s: status %d", text, w.Code)
	}
	alice.Sets = []string{"hush", "whisper"}
	if w := g.ask("GET", target, alice, "If-Modified-Since: "+text); w.Code != http.StatusOK {
		t.Errorf("other sets, If-Modified-Since %s: status %d", text, w.Code)
	}
	_, second := modified(alice)
	if !second.After(first) {
		t.Errorf("other sets: Last-Modified %s, then %s", first, second)
	}
	alice.Sets = []string{"hush"} // within the same second
	if _, third := modified(alice); !third.After(second) {
		t.Errorf("the first sets again: Last-Modified %s, then %s", second, third)
	}
}
