package discover_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"lockstep/discover"
	"lockstep/resourcesync"
)

// walk reads a list to its end, as "uri: locs" for each part, errors among them.
func walk(t *testing.T, srv *server, path string, o discover.ReadOptions) (string, *discover.List, []error) {
	t.Helper()
	l, err := discover.Read(t.Context(), srv.client, srv.URL+path, o)
	if err != nil {
		return "", nil, []error{err}
	}
	defer l.Close()
	var texts []string
	var errs []error
	for p, err := range l.Parts(t.Context()) {
		if err != nil {
			errs = append(errs, err)
			continue
		}
		got, err := locs(t, p.Document)
		if err != nil {
			errs = append(errs, err)
		}
		texts = append(texts, strings.TrimPrefix(p.URI, srv.URL)+": "+strings.ReplaceAll(got, "http://h/", ""))
	}
	return strings.Join(texts, "; "), l, errs
}

func TestRead(t *testing.T) {
	t.Parallel()
	const rl = `capability="resourcelist"`
	list := func(md string, names ...string) string {
		for i := range names {
			names[i] = "http://h/" + names[i]
		}
		return doc(md, nil, names...)
	}
	s := site{
		"/one":      list(rl+at, "a", "b"),
		"/two":      list(rl+at, "c"),
		"/plain":    list("", "p"),
		"/change":   list(`capability="changelist"` + from),
		"/index":    index(rl+at, nil, "HOST/one", "HOST/two"),
		"/empty":    index(rl+at, nil),
		"/sitemaps": index("", nil, "HOST/plain", "HOST/one"),
		"/mixed":    index(rl+at, nil, "HOST/one", "HOST/change", "HOST/plain"),
		"/twice":    index(rl+at, nil, "HOST/one", "HOST/one"),
		"/missing":  index(rl+at, nil, "HOST/one", "HOST/none", "HOST/two"),
		"/stale":    index(rl+at, nil, `HOST/one at="2024-05-01T02:00:01Z"`, `HOST/two at="2024-05-01T02:00:00Z"`),
		"/nested":   index(rl+at, nil, "HOST/index", "HOST/plain"),
		"/nested3":  index(rl+at, nil, "HOST/nested", "HOST/two"),
		"/nested4":  index(rl+at, nil, "HOST/nested3"),
		"/self":     index(rl+at, nil, "HOST/one", "HOST/self"),
		"/round":    index(rl+at, nil, "HOST/back", "HOST/one"),
		"/back":     "-> HOST/round",
		"/ping":     index(rl+at, nil, "HOST/pong", "HOST/one"),
		"/pong":     index(rl+at, nil, "HOST/ping", "HOST/two"),
		"/cut":      index(rl+at, nil, "HOST/cutpart", "HOST/two"),
		"/cutpart":  list(rl+at, "a", "b")[:250],
		"/moved":    "-> HOST/index",
	}
	want := resourcesync.ResourceList
	tests := []struct {
		path, want, warns string
		errs              []string
		options           discover.ReadOptions
		skipped           int
	}{
		{path: "/one", want: "/one: a b"},
		{path: "/plain", want: "/plain: p", options: discover.ReadOptions{Capability: want}},
		{path: "/index", want: "/one: a b; /two: c", options: discover.ReadOptions{Capability: want}},
		{path: "/moved", want: "/one: a b; /two: c"},
		{path: "/index", want: "/one: a b; /two: c", options: discover.ReadOptions{Ahead: -1}},
		{path: "/index", want: "/two: c", options: discover.ReadOptions{Select: func(n discover.Named) bool { return strings.HasSuffix(n.URI, "two") }}},
		{path: "/empty"},
		{path: "/sitemaps", want: "/plain: p; /one: a b"},
		{path: "/mixed", want: "/one: a b; /plain: p", warns: "RS-AMB-28", skipped: 1},
		{path: "/twice", want: "/one: a b", warns: "RS-RLI-02"},
		{path: "/missing", want: "/one: a b; /two: c", errs: []string{"get HOST/none: status 404 Not Found (a part of HOST/missing)"}},
		{path: "/stale", want: "/two: c", errs: []string{"read HOST/one: it is of 2024-05-01T02:00:00Z, while the index says 2024-05-01T02:00:01Z"}},
		{path: "/nested", want: "/one: a b; /two: c; /plain: p", warns: "RS-IDX-04"},
		{path: "/nested3", want: "/one: a b; /two: c; /plain: p; /two: c", warns: "RS-IDX-04"},
		{path: "/nested4", want: "/plain: p; /two: c", warns: "RS-IDX-04", errs: []string{"more than 3 indexes within each other"}},
		{path: "/self", want: "/one: a b", errs: []string{"HOST/self: the documents name each other in a circle"}},
		{path: "/round", want: "/one: a b", errs: []string{"HOST/back: the documents name each other in a circle"}},
		{path: "/ping", want: "/two: c; /one: a b", warns: "RS-IDX-04", errs: []string{"HOST/ping: the documents name each other in a circle"}},
		{path: "/cut", want: "/cutpart: a; /two: c", errs: []string{"read HOST/cutpart: line"}},
		{path: "/change", errs: []string{"read HOST/change: this is a Change List, not a Resource List"}, options: discover.ReadOptions{Capability: want}},
		{path: "/plain", errs: []string{"this is a plain Sitemap, not a Change List"}, options: discover.ReadOptions{Capability: resourcesync.ChangeList}},
		{path: "/none", errs: []string{"get HOST/none: status 404"}},
	}
	for _, tt := range tests {
		t.Run(tt.path[1:], func(t *testing.T) {
			t.Parallel()
			srv := s.serve(t)
			var warns []string
			tt.options.OnWarning = func(_ string, w discover.Warning) { warns = append(warns, w.Rule) }
			got, l, errs := walk(t, srv, tt.path, tt.options)
			if got != tt.want || len(errs) != len(tt.errs) {
				t.Fatalf("read %q, %v; want %q, %v", got, errs, tt.want, tt.errs)
			}
			for i := range errs {
				if text := srv.strip(errs[i].Error()); !strings.Contains(text, tt.errs[i]) {
					t.Errorf("error %s, want %s", text, tt.errs[i])
				}
			}
			if l != nil && l.Skipped != tt.skipped || tt.warns != "" && !strings.Contains(strings.Join(warns, " "), tt.warns) {
				t.Errorf("skipped %v, warnings %v; want %d, %s", l.Skipped, warns, tt.skipped, tt.warns)
			}
		})
	}
}

func TestPartError(t *testing.T) {
	t.Parallel()
	s := site{"/i": index(`capability="resourcelist"`+at, nil, "HOST/none", `HOST/old at="2025-01-01T00:00:00Z"`, "HOST/bad"),
		"/old": doc(`capability="resourcelist"`+at, nil), "/bad": "<html></html>"}
	_, _, errs := walk(t, s.serve(t), "/i", discover.ReadOptions{})
	if len(errs) != 3 {
		t.Fatalf("errors %v, want 3", errs)
	}
	for i, want := range []bool{true, true, false} {
		var part *discover.PartError
		if !errors.As(errs[i], &part) || part.Outdated() != want {
			t.Errorf("%v: outdated %v, want %v", errs[i], part.Outdated(), want)
		}
	}
}

// Whoever stops in the middle leaves nothing behind.
func TestPartsStop(t *testing.T) {
	t.Parallel()
	s := site{}
	var names []string
	for i := range 20 {
		name := fmt.Sprintf("/p%d", i)
		s[name] = doc(`capability="resourcelist"`+at, nil, "http://h/a")
		names = append(names, "HOST"+name)
	}
	s["/i"] = index(`capability="resourcelist"`+at, nil, names...)
	srv := s.serve(t)
	l, err := discover.Read(t.Context(), srv.client, srv.URL+"/i", discover.ReadOptions{Ahead: 4})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	n := 0
	for _, err := range l.Parts(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		if n++; n == 2 {
			break
		}
	}
	if got := srv.requests.Load(); got > 1+2+4 {
		t.Errorf("%d requests for two parts and four ahead", got)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	l, err = discover.Read(ctx, srv.client, srv.URL+"/i", discover.ReadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	n = 0
	var last error
	for _, err := range l.Parts(ctx) {
		last = err
		n++
		cancel()
	}
	if !errors.Is(last, context.Canceled) || n > 4 {
		t.Errorf("after cancelling: %d parts, %v", n, last)
	}
}
