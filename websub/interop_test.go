package websub_test

import (
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"lockstep/websub"
)

// TestRecordedHubs replays requests and deliveries of other hubs, as described
// in docs/interoperability.md: as recorded, except for addresses and
// signatures.
func TestRecordedHubs(t *testing.T) {
	t.Parallel()
	const topic = "http://127.0.0.1:18080/resourcesync/main/changes"
	for name, tt := range map[string]struct {
		query  string
		fields []string
	}{
		"go-websub": {
			"hub.challenge=0fc697fd-97b2-49b9-a4ca-78eb540c9359&hub.lease_seconds=864000&hub.mode=subscribe&hub.topic=" + url.QueryEscape(topic),
			[]string{"User-Agent", "go-websub-hub", "Content-Type", "application/xml", "Accept-Encoding", "gzip",
				"Link", `<` + topic + `>; rel="self", <http://127.0.0.1:18201>; rel="hub"`},
		},
		"meow.tf/websub": { // which grants leases of length zero
			"hub.challenge=abb36f56-37c3-49c2-8509-11a7578bc803&hub.lease_seconds=0&hub.mode=subscribe&hub.topic=" + url.QueryEscape(topic),
			[]string{"User-Agent", "Go-http-client/1.1", "Content-Type", "application/xml", "Accept-Encoding", "gzip",
				"Link", `<http://127.0.0.1:8080>; rel="hub", <` + topic + `>; rel="self"`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, h := newBed(t, nil), newHub(t)
			h.set(func() { h.silent = true })
			h.listen()
			b.want(topic, h.url)
			until(t, "the hub is asked", func() bool { return h.asked("subscribe") > 0 })
			h.mu.Lock()
			form := h.requests[0]
			h.mu.Unlock()
			callback, secret := form.Get("hub.callback"), form.Get("hub.secret")
			status, _, body := h.get(callback + "?" + tt.query)
			if u, _ := url.ParseQuery(tt.query); status != http.StatusOK || body != u.Get("hub.challenge") {
				t.Fatalf("verification answered %d %q", status, body)
			}
			b.wait(websub.Verified)
			const payload = "<urlset/>\n"
			req, err := http.NewRequest(http.MethodPost, callback, strings.NewReader(payload))
			if err != nil {
				t.Fatal(err)
			}
			for i := 0; i < len(tt.fields); i += 2 {
				req.Header.Set(tt.fields[i], tt.fields[i+1])
			}
			if secret != "" {
				req.Header.Set("X-Hub-Signature", signed(t, "sha256", secret, payload)[1])
			}
			resp, err := h.client.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			_, _ = io.Copy(io.Discard, resp.Body)
			_ = resp.Body.Close()
			if got := b.delivered(); resp.StatusCode/100 != 2 || len(got) != 1 || got[0] != payload {
				t.Errorf("delivery answered %d, kept %q", resp.StatusCode, got)
			}
		})
	}
}
