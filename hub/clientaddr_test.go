package hub_test

import (
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"lockstep/hub"
	"lockstep/hub/hubstore"
)

// TestForgedClientAddress: no client escapes a rate limit by a header, and
// clients of a trusted proxy do not share one.
func TestForgedClientAddress(t *testing.T) {
	t.Parallel()
	var topics []string
	for i := range 1000 {
		topics = append(topics, fmt.Sprint("hub.url=http://topics.example/", i))
	}
	form := "hub.mode=publish&" + strings.Join(topics, "&")
	for _, trusted := range []bool{false, true} {
		s := start(t, hubstore.NewMem(), func(o *hub.Options) {
			if trusted {
				o.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
			}
		})
		ping := func(client string) int {
			return s.send(t, http.MethodPost, form, "Content-Type", "application/x-www-form-urlencoded", "X-Forwarded-For", client).StatusCode
		}
		for n := 0; ping("203.0.113.1") != 429; n++ {
			if n > 20 {
				t.Fatal("20,000 topics at once are not limited")
			}
		}
		want := map[bool]int{false: 429, true: 202}[trusted]
		if got := ping("203.0.113.2"); got != want {
			t.Errorf("trusted %v: another address in the header gets %d, want %d", trusted, got, want)
		}
	}
}
