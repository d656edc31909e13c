package hub_test

import (
	"net/url"
	"strings"
	"testing"

	"lockstep/hub/hubstore"
)

// TestRecordedSubscribers replays subscription requests of other libraries,
// which docs/interoperability.md describes: header and body as recorded, except
// for the addresses.
func TestRecordedSubscribers(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ body, secret string }{
		"npm pubsubhubbub 1.0.2": {
			`hub.callback=CALLBACK&hub.mode=subscribe&hub.topic=http%3A%2F%2F127.0.0.1%3A18081%2Fresourcesync%2Fmain%2Fchanges&hub.verify=async&hub.lease_seconds=3600&hub.secret=9ea557247cba1fdb2aa82f9c862061fcd24a831d`,
			"9ea557247cba1fdb2aa82f9c862061fcd24a831d",
		},
		"go-websub": {
			`hub.callback=CALLBACK&hub.lease_seconds=864000&hub.mode=subscribe&hub.secret=a+shared+secret&hub.topic=http%3A%2F%2F127.0.0.1%3A18081%2Fresourcesync%2Fmain%2Fchanges`,
			"a shared secret",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := start(t, hubstore.NewMem(), nil)
			sub := subscribe(t, nil)
			// The first has topic and hub in the query of its callback.
			callback := sub.url + "?topic=http%3A%2F%2F127.0.0.1%3A18081%2Fresourcesync%2Fmain%2Fchanges&hub=x"
			body := strings.Replace(tt.body, "CALLBACK", url.QueryEscape(callback), 1)
			wantStatus(t, s.send(t, "POST", body, "Content-Type", "application/x-www-form-urlencoded"), 202)
			q := sub.nextAsked(t)
			if q.Get("hub.mode") != "subscribe" || q.Get("topic") == "" {
				t.Errorf("asked %v, want the callback's own query, too", q)
			}
			const topic = "http://127.0.0.1:18081/resourcesync/main/changes"
			s.publish(t, topic, "application/xml", "<urlset/>\n")
			p := &page{url: topic, contentType: "application/xml", body: says("<urlset/>\n")}
			checkDelivery(t, s, p, sub.nextTaken(t), tt.secret)
		})
	}
}
