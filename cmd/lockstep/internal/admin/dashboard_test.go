package admin_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"lockstep/cmd/lockstep/internal/admin"
	"lockstep/cmd/lockstep/internal/term"
	"lockstep/internal/trust"
)

// TestDashboard: it is on the admin listener alone, for administrators, and under names of this
// machine.
func TestDashboard(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	tokens, err := trust.ReadTokens(file)
	if err != nil {
		t.Fatal(err)
	}
	access, err := (&admin.Flags{Admin: "localhost:0"}).Open(t.Context(), t.TempDir(), true, nil, term.Silent())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(access.Close)
	p := admin.NewPages("/data/", trust.NewGuard(tokens), admin.NewMetrics(), func() error { return nil })
	p.Dashboard(access, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, "board "+r.URL.String()) }))
	name, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		target, host, token string
		status              int
		text                string
	}{
		{"/-/", "127.0.0.1:9090", "secret", 200, "board /"},
		{"/-/sets?sort=name", "[::1]:9090", "secret", 200, "board /sets?sort=name"},
		{"/data/-/sets.json", "localhost", "secret", 200, "board /sets.json"},
		{"/-/assets/x.css", "board.localhost:1", "secret", 200, "board /assets/x.css"},
		{"/-/", name, "secret", 200, "board /"},
		{"/-/", "evil.example:9090", "secret", 421, ""},
		{"/-/", "127.0.0.1.evil.example", "secret", 421, ""},
		{"/-/", "localhost.evil.example", "secret", 421, ""},
		{"/-/", "", "secret", 421, ""},
		{"/-/", "127.0.0.1", "", 401, ""},
		{"/-/", "127.0.0.1", "wrong", 401, ""},
		{"/-/", "evil.example", "", 401, ""},
		{"/", "127.0.0.1", "secret", 303, ""},
		{"/data/-", "127.0.0.1", "secret", 303, ""},
		{"/-/sets/../x", "127.0.0.1", "secret", 404, ""},
		{"/-/healthz", "evil.example", "", 200, "ok\n"},
		{"/other", "127.0.0.1", "secret", 404, ""},
	} {
		r := httptest.NewRequest(http.MethodGet, "http://127.0.0.1"+tt.target, nil)
		if r.Host = tt.host; tt.token != "" {
			r.SetBasicAuth("", tt.token)
		}
		w := httptest.NewRecorder()
		if p.Admin(nil).ServeHTTP(w, r); w.Code != tt.status || tt.text != "" && w.Body.String() != tt.text {
			t.Errorf("%s at %s: %d %.60q, want %d %q", tt.target, tt.host, w.Code, w.Body, tt.status, tt.text)
		}
		if w := httptest.NewRecorder(); tt.target != "/-/healthz" && p.Serve(w, r) {
			t.Errorf("%s is on the public listener: %d %.60q", tt.target, w.Code, w.Body)
		}
	}
}
