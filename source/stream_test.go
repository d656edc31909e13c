package source_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"lockstep/catalog"
	"lockstep/source"
)

// A seekable is a body in which one can go back and forth.
type seekable struct{ *bytes.Reader }

func (seekable) Close() error { return nil }

// TestServeBitstreams serves resources that are no files of ours.
func TestServeBitstreams(t *testing.T) {
	t.Parallel()
	bodies := map[string]func() (io.ReadCloser, error){}
	open := func(_ context.Context, r *catalog.Record) (io.ReadCloser, error) {
		if body := bodies[strings.TrimPrefix(r.URI, baseURL)]; body != nil {
			return body()
		}
		return nil, fs.ErrNotExist
	}
	text := func(s string) func() (io.ReadCloser, error) {
		return func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(s)), nil }
	}
	w := newWorld(t, source.Options{Sets: []source.Set{
		{Path: "b", Serve: true, Bitstream: open}, {Name: "silent", Path: "s", Bitstream: open},
		{Name: "away", Elsewhere: true, Serve: true, Bitstream: open},
	}})
	w.put("b/a%20b=hello", "b/short=hello", "b/long=hello", "b/lost=hello", "b/barred=hello", "b/seek=hello", "b/unknown=x", "s/a=hello")
	unknown := record(baseURL+"b/unknown", "")
	unknown.Length, unknown.Hashes, unknown.Type, unknown.Lastmod = -1, nil, "", time.Time{}
	w.apply(catalog.Update{Record: unknown})
	bodies["b/a%20b"], bodies["b/short"], bodies["b/long"], bodies["b/unknown"], bodies["s/a"] = text("hello"), text("hell"), text("hello!"), text("whatever"), text("hello")
	bodies["b/barred"] = func() (io.ReadCloser, error) { return nil, errors.New("the bucket does not answer") }
	bodies["b/seek"] = func() (io.ReadCloser, error) { return seekable{bytes.NewReader([]byte("hello"))}, nil }
	s := w.source()
	w.publish(s)
	srv := httptest.NewServer(source.NewServer(s.Handler()).Handler)
	defer srv.Close()
	sum := sha256.Sum256([]byte("hello"))
	tag := fmt.Sprintf(`"%x"`, sum[:16])
	for _, tt := range []struct {
		name, method, target, header string
		status                       int
		body, err                    string
	}{
		{"whole", "GET", "/b/a%20b", "", 200, "hello", ""},
		{"head", "HEAD", "/b/a%20b", "", 200, "", ""},
		{"known", "GET", "/b/a%20b", "If-None-Match: " + tag, 304, "", ""},
		{"other", "GET", "/b/a%20b", `If-None-Match: "x"`, 200, "hello", ""},
		{"range", "GET", "/b/seek", "Range: bytes=1-2", 206, "el", ""},
		{"no length", "GET", "/b/unknown", "", 200, "whatever", ""},
		{"cut short", "GET", "/b/short", "", 200, "hell", "unexpected EOF"},
		{"grown", "GET", "/b/long", "", 0, "", "unexpected EOF"},
		{"gone", "GET", "/b/lost", "", 404, "", ""},
		{"broken", "GET", "/b/barred", "", 500, "", ""},
		{"other spelling", "GET", "/b/a%20%62", "", 404, "", ""},
		{"not listed", "GET", "/b/none", "", 404, "", ""},
		{"not served", "GET", "/s/a", "", 404, "", ""},
		{"elsewhere", "GET", "/x", "", 404, "", ""},
	} {
		header := []string{tt.header}
		if tt.header == "" {
			header = nil
		}
		resp, body, err := exchange(srv.Listener.Addr().String(), tt.method, tt.target, header...)
		status, said := 0, ""
		if resp != nil {
			status = resp.StatusCode
		}
		if err != nil {
			said = err.Error()
		}
		if status != tt.status || said != tt.err || status/100 == 2 && body != tt.body {
			t.Errorf("%s: %d %q, %s; want %d %q, %s", tt.name, status, body, said, tt.status, tt.body, tt.err)
		}
	}
	resp, _, err := exchange(srv.Listener.Addr().String(), "GET", "/b/a%20b")
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"ETag": tag, "Content-Type": "text/plain", "Content-Length": "5", "Link": linkToMain, "Last-Modified": "Wed, 01 Jan 2020 00:00:00 GMT",
	} {
		if got := resp.Header.Get(name); got != want {
			t.Errorf("%s = %q, want %q", name, got, want)
		}
	}
}
