package source_test

import (
	"bytes"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"lockstep/blob"
	"lockstep/catalog"
	"lockstep/source"
)

// FuzzPath holds that a path leads to exactly the resource it names, once
// decoded, or nowhere.
func FuzzPath(f *testing.F) {
	for _, path := range []string{
		"/a", "/a/b", "/a%2Fb", "/%61", "/a%00", "/..", "/%2e%2E/a", "/a//b", "/a/", "/", "/%FF%fe", "/a%", "/a%2", "/%252e", "/a?b",
		"/.lockstep/main.json", "/-/x", "/resourcesync/../a", "/robots.txt", "/a;b=c&d", "//host/a", "/\\..\\a",
	} {
		f.Add(path)
	}
	asked := ""
	src, err := source.New(catalog.NewMem(nil), new(blob.Mem), source.Options{
		BaseURL: baseURL,
		Content: func(rel string) (*os.File, fs.FileInfo, error) {
			asked = rel
			return nil, nil, fs.ErrNotExist
		},
	})
	if err != nil {
		f.Fatal(err)
	}
	h := src.Handler()
	f.Fuzz(func(t *testing.T, target string) {
		u, err := url.ParseRequestURI(target)
		if err != nil || u.Host != "" || u.Scheme != "" { // of "A:/0" only "/0" is the path
			return
		}
		asked = ""
		h.ServeHTTP(httptest.NewRecorder(), &http.Request{Method: "GET", URL: u, Header: http.Header{}})
		if asked == "" {
			return
		}
		path, _, _ := strings.Cut(target, "?")
		want, err := url.PathUnescape(strings.TrimPrefix(path, "/"))
		if err != nil || asked != want {
			t.Errorf("%q leads to %q, want %q, %v", target, asked, want, err)
		}
		segments := strings.Split(asked, "/")
		if len(segments) != strings.Count(path, "/") || source.Reserved(asked) || strings.ContainsRune(asked, 0) ||
			slices.ContainsFunc(segments, func(s string) bool { return s == "" || s == "." || s == ".." }) {
			t.Errorf("%q leads to %q", target, asked)
		}
	})
}

// FuzzRequestHeaders has a document asked for with any headers: what comes is
// the document, a part of it, or a refusal.
func FuzzRequestHeaders(f *testing.F) {
	w := newWorld(f, source.Options{})
	w.put("a=1")
	s := w.source()
	w.publish(s)
	h := s.Handler()
	f.Add("gzip;q=0.5, *;q=0", "bytes=0-1,5-", `"x"`, `W/"y"`)
	f.Add("gzip", "bytes=-5", "", "*")
	f.Add("identity;q=0, x-gzip ; q = 1.000", "bytes=9-2", "Sat, 01 Jan 2000 00:00:00 GMT", "")
	f.Fuzz(func(t *testing.T, accept, ranges, ifRange, ifNoneMatch string) {
		r := httptest.NewRequest("GET", "/resourcesync/main/resourcelist.xml", nil)
		for name, value := range map[string]string{"Accept-Encoding": accept, "Range": ranges, "If-Range": ifRange, "If-None-Match": ifNoneMatch} {
			if value != "" {
				r.Header.Set(name, value)
			}
		}
		rec := httptest.NewRecorder()
		h.ServeHTTP(rec, r)
		switch rec.Code {
		case 200, 206, 304, 416:
		default:
			t.Errorf("status %d", rec.Code)
		}
		if asks := strings.Contains(strings.ToLower(accept), "gzip") || strings.Contains(accept, "*"); !asks && rec.Header().Get("Content-Encoding") != "" {
			t.Errorf("Accept-Encoding %q: compressed", accept)
		}
	})
}

// FuzzState has a Source find any state beside its documents: it goes on from
// it, makes a new one or refuses it, and touches nothing that is not a document.
func FuzzState(f *testing.F) {
	w := newWorld(f, source.Options{MaxEntries: 4})
	s := w.source()
	w.publish(s)
	for i := range 9 {
		w.put(fmt.Sprintf("r%d=x", i))
		w.publish(s)
	}
	w.pass(time.Minute)
	w.put("r1=y")
	w.publish(s)
	read := reader(w.docs)
	state, err := read(".lockstep/main.json")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(state, []byte(`{"saved":"2026-05-01T02:01:00Z","open":{"size":-1},"through":-5}`))
	f.Add(bytes.Replace(state, []byte(`"version"`), []byte(`"switching": true, "version"`), 1), []byte("{}"))
	f.Add(bytes.Replace(state, []byte("resourcesync/main/resourcelist-"), []byte("files/../x-"), 1), []byte("null"))
	f.Add([]byte(`{"version":2}`), []byte(""))
	f.Add([]byte(`{"version":99}`), []byte(""))
	files := w.files()
	f.Fuzz(func(t *testing.T, state, tail []byte) {
		v := *w
		v.TB, v.docs = t, new(blob.Mem)
		for name, content := range files {
			_, content, _ = strings.Cut(content, "\n")
			v.write(name, content)
		}
		v.write("mine/file.xml", "mine")
		v.write(".lockstep/main.json", string(state))
		v.write(".lockstep/main.tail.json", string(tail))
		_, _ = v.source().Publish(t.Context()) // whatever it makes of it
		if _, err := v.docs.Stat(t.Context(), "mine/file.xml"); err != nil {
			t.Error(err)
		}
	})
}

// FuzzArchives has a Source find any archive, and anything remembered of
// archives: it goes on from it or makes both anew, names only documents that are
// there, and touches nothing that is not one.
func FuzzArchives(f *testing.F) {
	w := newWorld(f, archiving(source.Options{MaxEntries: 4, Grace: time.Hour}, source.ChangeList{Keep: 2 * time.Hour},
		source.Archive{ResourceLists: keepAll, ChangeLists: keepAll}))
	s := w.source()
	for i := range 9 {
		w.put(fmt.Sprintf("r%d=x", i))
		w.publish(s)
		w.pass(time.Hour)
	}
	files := w.files()
	const archive, remembered = "resourcesync/main/changelist-archive.xml", ".lockstep/archives/main.json"
	content := func(name string) []byte {
		_, text, _ := strings.Cut(files[name], "\n")
		return []byte(text)
	}
	f.Add(content(archive), content(remembered))
	f.Add(bytes.ReplaceAll(content(archive), []byte("changelist-2"), []byte("mine/file-2")), bytes.ReplaceAll(content(remembered), []byte("changelist-2"), []byte("../../x-2")))
	f.Add([]byte("<urlset>"), []byte(`{"version":99}`))
	f.Add([]byte(""), bytes.ReplaceAll(content(remembered), []byte(`"from"`), []byte(`"until"`)))
	f.Fuzz(func(t *testing.T, doc, known []byte) {
		v := *w
		v.TB, v.docs = t, new(blob.Mem)
		for name, text := range files {
			_, text, _ = strings.Cut(text, "\n")
			v.write(name, text)
		}
		v.write("mine/file.xml", "mine")
		v.write(archive, string(doc))
		v.write(remembered, string(known))
		if _, err := v.source().Publish(t.Context()); err != nil {
			if !strings.Contains(err.Error(), "newer version") {
				t.Error(err)
			}
			return
		}
		if _, err := v.docs.Stat(t.Context(), "mine/file.xml"); err != nil {
			t.Error(err)
		}
		if _, _, err := v.source().Listed(t.Context(), "main"); err != nil {
			t.Error(err)
		}
	})
}
