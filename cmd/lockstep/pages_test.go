package main

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"lockstep/cmd/lockstep/internal/admin"
	"lockstep/internal/trust"
)

// TestPages shows which page a path is, and what a mounted handler sees of it.
func TestPages(t *testing.T) {
	t.Parallel()
	ready := errors.New("not yet")
	p := admin.NewPages("/data%20x/", trust.NewGuard(nil), admin.NewMetrics(), func() error { return ready })
	p.Mount("api/v1/it", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "it "+r.Method+" "+r.URL.RequestURI())
	}))
	for _, tt := range []struct {
		method, target string
		status         int
		text           string
	}{
		{"GET", "/data%20x/-/healthz", 200, "ok"},
		{"HEAD", "/data%20x/-/readyz", 503, ""},
		{"POST", "/data%20x/-/healthz", 405, ""},
		{"GET", "/data%20x/-/metrics", 200, "process_"},
		{"GET", "/data%20x/-/api/v1/it", 200, "it GET /"},
		{"GET", "/data%20x/-/api/v1/it?a=%2f", 200, "it GET /?a=%2f"},
		{"DELETE", "/data%20x/-/api/v1/it/a%2Fb", 200, "it DELETE /a%2Fb"},
		{"GET", "/data%20x/-/api/v1/it//a", 404, ""},
		{"GET", "/data%20x/-/api/v1/it/../../x", 404, ""},
		{"GET", "/data%20x/-/api/v1/it/%2e%2e/x", 404, ""},
		{"GET", "/data%20x/-/api/v1/item", 0, ""},
		{"GET", "/data%20x/-/", 0, ""},
		{"GET", "/data%20x/-", 0, ""},
		{"GET", "/-/healthz", 0, ""},
		{"GET", "/data%20x/-/healthz/", 0, ""},
		{"GET", "/data%20x/-/debug/pprof/heap", 0, ""}, // for the admin listener alone
	} {
		r := httptest.NewRequest(tt.method, "http://127.0.0.1"+tt.target, nil)
		r = r.WithContext(trust.WithOwner(r.Context()))
		w := httptest.NewRecorder()
		status := 0
		if p.Serve(w, r) {
			status = w.Code
		}
		if status != tt.status || !strings.Contains(w.Body.String(), tt.text) {
			t.Errorf("%s %s: %d %.40q, want %d %q", tt.method, tt.target, status, w.Body, tt.status, tt.text)
		}
	}
	for _, tt := range []struct {
		target string
		status int
		text   string
	}{
		{"/-/metrics", 200, "process_"}, // at the root, too
		{"/data%20x/-/metrics", 200, "process_"},
		{"/-/api/v1/it?a=%2f", 200, "it GET /?a=%2f"},
		{"/-/debug/pprof/", 200, "goroutine\n"},
		{"/data%20x/-/debug/pprof/goroutine?debug=1", 200, "goroutine profile: total"},
		{"/-/debug/pprof/heap?gc=1", 200, "\x1f\x8b"}, // compressed
		{"/-/debug/pprof/profile?seconds=0.05", 200, "\x1f\x8b"},
		{"/-/debug/pprof/trace?seconds=0.05", 200, "go 1."},
		{"/-/debug/pprof/cmdline", 404, "Unknown profile"}, // flags can have passwords in them
		{"/-/nothing", 404, "below /-/"},
		{"/data%20x/a.txt", 404, "below /-/"},
		{"/", 404, "below /-/"},
	} {
		r := httptest.NewRequest("GET", "http://localhost"+tt.target, nil)
		w := httptest.NewRecorder()
		p.Admin(nil).ServeHTTP(w, r.WithContext(trust.WithOwner(r.Context())))
		if w.Code != tt.status || !strings.Contains(w.Body.String(), tt.text) {
			t.Errorf("admin listener, %s: %d %.40q, want %d %q", tt.target, w.Code, w.Body, tt.status, tt.text)
		}
	}
	w := httptest.NewRecorder()
	if p.Admin(nil).ServeHTTP(w, httptest.NewRequest("GET", "http://localhost/-/debug/pprof/heap", nil)); w.Code != http.StatusUnauthorized {
		t.Errorf("a profile without a token: %d, want 401", w.Code)
	}
	ready = nil
	w = httptest.NewRecorder()
	if p.Serve(w, httptest.NewRequest("GET", "/data%20x/-/readyz", nil)); w.Code != 200 {
		t.Errorf("ready: %d", w.Code)
	}
}
