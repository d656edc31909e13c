package source_test

import (
	"context"
	"io"
	"strings"
	"testing"

	"lockstep/catalog"
	"lockstep/source"
)

// TestSandbox: browsers give the resources and versions of a set that others fill an origin of
// their own, and those of other sets that of the Source.
func TestSandbox(t *testing.T) {
	t.Parallel()
	const policy = "sandbox allow-scripts allow-popups allow-forms"
	p := newPast(t)
	for _, uri := range []string{baseURL + "a.txt", baseURL + "copy/a.txt", "https://elsewhere.example/a.txt"} {
		p.keep(uri, may(1), "old")
	}
	text := func(context.Context, *catalog.Record) (io.ReadCloser, error) {
		return io.NopCloser(strings.NewReader("hello")), nil
	}
	s := newSite(t, source.Options{Sets: []source.Set{
		{Versions: p.Versions, Serve: true, Bitstream: text},
		{Name: "copy", Path: "copy/", Sandbox: true, Versions: p.Versions, Serve: true, Bitstream: text},
		{Name: "bare", Path: "bare/", Sandbox: true},
	}}, map[string]string{"a.txt": "hello", "copy/a.txt": "hello", "bare/a.txt": "hello", "copyright.txt": "hello"})
	s.put("stream.txt=hello")
	list, err := source.CapabilityListURI(baseURL, "copy")
	if err == nil {
		_, err = s.cat.Apply(t.Context(), list, []catalog.Update{{Record: record(baseURL+"copy/stream.txt", "hello")}})
	}
	if err != nil {
		t.Fatal(err)
	}
	version := "/versions/20260501020000/"
	for target, want := range map[string]string{
		"/a.txt": "", "/copyright.txt": "", "/stream.txt": "", version + baseURL + "a.txt": "", version + "https:/data.example.org/a.txt": "",
		"/copy/a.txt": policy, "/bare/a.txt": policy, "/copy/stream.txt": policy, version + baseURL + "copy/a.txt": policy,
		version + baseURL + "%63opy/a.txt": policy, version + "https://elsewhere.example/a.txt": policy,
	} {
		for _, header := range []string{"X-None: 1", "Range: bytes=0-1", "If-None-Match: *"} {
			for _, method := range []string{"GET", "HEAD"} {
				r, _ := s.do(method, target, header)
				if got := r.Header.Get("Content-Security-Policy"); got != want || r.StatusCode >= 400 {
					t.Errorf("%s %s, %s: status %d, policy %q, want %q", method, target, header, r.StatusCode, got, want)
				}
			}
		}
	}
}
