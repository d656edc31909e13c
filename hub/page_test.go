package hub_test

import (
	"net/http/httptest"
	"strings"
	"testing"

	"golang.org/x/net/html"
)

// TestPage puts hostile text on the status page: it stays text, callbacks stay
// secret (WS-SEC-07), and the page needs no script.
func TestPage(t *testing.T) {
	t.Parallel()
	const topic = `https://data.example.org/"><script>alert(1)</script>`
	d := newDesk(t, "a", "b "+topic)
	row := d.row("b", topic)
	d.publish("x")
	page := d.page("/-/hub")
	for _, want := range []string{string(d.key("a")), deskTopic, "https://hub.example.org/", d.callbacks.URL, `curl -X DELETE http://127.0.0.1:8080/-/api/v1/hub/subscriptions/KEY`} {
		if !strings.Contains(page, want) {
			t.Errorf("not on the page: %s\n%s", want, page)
		}
	}
	for _, never := range []string{"<script", "secret=path", "onclick", "javascript:"} {
		if strings.Contains(page, never) {
			t.Errorf("on the page: %s", never)
		}
	}
	if page := d.page("/-/hub?topic=" + deskTopic); !strings.Contains(page, string(d.key("a"))) || strings.Contains(page, string(row.Key)) {
		t.Errorf("of one topic:\n%s", page)
	}
	for _, query := range []string{"?after=%3Cscript%3E", "?topics=%00%ff", "?topic=%22%3E%3Cscript%3E", "?after=" + strings.Repeat("f", 5000), "?%"} {
		if page := d.page("/-/hub" + query); strings.Contains(page, "<script") {
			t.Errorf("%s: %s", query, page)
		}
	}
	w := httptest.NewRecorder()
	d.hub.StatusPage("/-/api/v1/hub", nil).ServeHTTP(w, httptest.NewRequest("POST", "/-/hub", nil))
	if w.Code != 405 || w.Header().Get("Allow") == "" {
		t.Errorf("POST: %d %v", w.Code, w.Header())
	}
}

// page returns the page, after checking that it is well-formed.
func (d *desk) page(target string) string {
	d.t.Helper()
	r := httptest.NewRequest("GET", target, nil)
	r.Host = "127.0.0.1:8080"
	w := httptest.NewRecorder()
	d.hub.StatusPage("/-/api/v1/hub", nil).ServeHTTP(w, r)
	if w.Code != 200 || !strings.Contains(w.Header().Get("Content-Security-Policy"), "default-src 'none'") {
		d.t.Fatalf("%s: %d %v", target, w.Code, w.Header())
	}
	if _, err := html.Parse(strings.NewReader(w.Body.String())); err != nil {
		d.t.Fatal(err)
	}
	return w.Body.String()
}
