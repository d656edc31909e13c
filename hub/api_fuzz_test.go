package hub_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
)

// FuzzAPI sends all kinds of requests to the API and the status page. Both
// answer each of them, never with an internal error, and never show a callback.
func FuzzAPI(f *testing.F) {
	f.Add("GET", "/subscriptions?limit=1&behind=true&after=00", "")
	f.Add("GET", "/topics?after=https://data.example.org/", "")
	f.Add("GET", "/messages?topic="+deskTopic+"&after=1", "")
	f.Add("POST", "/replay", `{"topic": "`+deskTopic+`", "from": 1}`)
	f.Add("POST", "/subscriptions/0123456789abcdef0123456789abcdef/replay", `{"from": 1}`)
	f.Add("DELETE", "/subscriptions/x?reason=%ff", "")
	f.Fuzz(func(t *testing.T, method, target, body string) {
		u, err := url.ParseRequestURI(target)
		if err != nil || method == "" || strings.ContainsAny(method, " \r\n\t") {
			return
		}
		d := newDesk(t, "a")
		for _, h := range []http.Handler{d.hub.API(), d.hub.StatusPage("/api", nil)} {
			r := httptest.NewRequest("GET", "/", strings.NewReader(body))
			r.Method, r.URL, r.RequestURI = method, u, target
			r.Header.Set("Content-Type", "application/json")
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			if w.Code >= 500 || strings.Contains(w.Body.String(), "secret=path") {
				t.Errorf("%s %s %q: %d %s", method, target, body, w.Code, w.Body)
			}
		}
	})
}
