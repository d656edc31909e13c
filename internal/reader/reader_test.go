package reader_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"lockstep/internal/reader"
)

// TestConfidentially: no answer to a reader can be kept by a shared cache, whatever its
// handler states, and however it answers.
func TestConfidentially(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		caching, vary string
		serve         func(w http.ResponseWriter)
		want          string
	}{
		"immutable":     {"public, max-age=31536000, immutable", "", func(w http.ResponseWriter) { _, _ = io.WriteString(w, "x") }, "private, max-age=31536000, immutable"},
		"revalidated":   {"no-cache", "Accept-Encoding", func(w http.ResponseWriter) { w.WriteHeader(http.StatusNotModified) }, "private, no-cache"},
		"never kept":    {"no-store", "", func(w http.ResponseWriter) { _, _ = io.Copy(w, strings.NewReader("x")) }, "no-store"},
		"private":       {"Private,max-age=5", "Authorization", func(w http.ResponseWriter) { _, _ = io.WriteString(w, "x") }, "private, max-age=5"},
		"nothing said":  {"", "", func(w http.ResponseWriter) { w.WriteHeader(http.StatusCreated) }, "private"},
		"no body":       {"public", "", func(http.ResponseWriter) {}, "private"},
		"flushed first": {"public", "", func(w http.ResponseWriter) { _ = http.NewResponseController(w).Flush() }, "private"},
		"hints first":   {"public", "", func(w http.ResponseWriter) { w.WriteHeader(http.StatusEarlyHints); w.WriteHeader(http.StatusOK) }, "private"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if tt.caching != "" {
					w.Header().Set("Cache-Control", tt.caching)
				}
				if tt.vary != "" {
					w.Header().Set("Vary", tt.vary)
				}
				reader.Confidentially(w, tt.serve)
			}))
			defer srv.Close()
			resp, err := http.Get(srv.URL)
			if err != nil {
				t.Fatal(err)
			}
			_ = resp.Body.Close()
			if got := resp.Header.Get("Cache-Control"); got != tt.want {
				t.Errorf("Cache-Control %q, want %q", got, tt.want)
			}
			vary := resp.Header.Values("Vary")
			if n := len(slices.DeleteFunc(slices.Clone(vary), func(v string) bool { return v != "Authorization" })); n != 1 || tt.vary != "" && vary[0] != tt.vary {
				t.Errorf("Vary %q", vary)
			}
		})
	}
}

// TestGrant: the credential of a request is checked when it is asked for, once, and again on
// request.
func TestGrant(t *testing.T) {
	t.Parallel()
	if g := reader.Of(t.Context()); len(g.Sets) > 0 || g.Status != 0 || g.Opens("") {
		t.Errorf("without a mark: %+v", g)
	}
	n := 0
	ctx := reader.With(context.Background(), func() reader.Grant {
		n++
		return reader.Grant{Sets: []string{"a"}}
	})
	if n != 0 {
		t.Error("it was checked before it was asked for")
	}
	if !reader.Of(ctx).Opens("a") || reader.Of(ctx).Opens("b") || n != 1 {
		t.Errorf("checked %d times", n)
	}
	if reader.Again(ctx); n != 2 {
		t.Errorf("checked %d times, want 2", n)
	}
	for _, tt := range []struct {
		grant reader.Grant
		want  int
		after string
	}{
		{reader.Grant{}, 401, ""}, {reader.Grant{Sets: []string{"other"}}, 401, ""}, {reader.Grant{Status: 401}, 401, ""},
		{reader.Grant{Status: 429, After: 1500 * time.Millisecond}, 429, "2"}, {reader.Grant{Status: 503, After: time.Second}, 503, "1"},
	} {
		h := http.Header{}
		if got := tt.grant.Refuse(h); got != tt.want || h.Get("Retry-After") != tt.after || (len(h.Values("WWW-Authenticate")) == 2) != (got == 401) || h.Get("Cache-Control") != "no-store" {
			t.Errorf("%+v: %d, %v", tt.grant, got, h)
		}
	}
}
