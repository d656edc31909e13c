// Package websub implements the WebSub protocol (W3C Recommendation of 23
// January 2018) for publishers and subscribers: discovery of the topic and hub
// of a resource, publication of changes to a hub, subscription, verification of
// intent, renewal, and verification of deliveries. A hub uses the parts that
// both sides share. Delivered content is just bytes to this package. All it
// knows of ResourceSync is that its documents, like feeds, may name their hub at
// the root.
//
//	                 Discover            topic and hubs, from headers or body
//	publisher        Publisher           fat (the payload) or thin (a ping)
//	subscriber       Subscriber.Want     records the desired subscription, durably
//	                 Subscriber.Run      sends requests, renews, tries the next hub
//	                 Subscriber.Handler  verification, denial, delivery
//	both, and a hub  ParseLinks LinkHeader Sign Verify VerificationURL Canonical
//
// A [Subscriber] stores its whole state in one document. Every change is saved
// before it takes effect: the Wish before the hub is asked, the lease before the
// hub's question is answered, the delivery (by its caller) before it is
// acknowledged. After a crash between any two of those the request is repeated.
package websub

import "strings"

// The values of hub.mode.
const (
	ModeSubscribe   = "subscribe"
	ModeUnsubscribe = "unsubscribe"
	ModePublish     = "publish"
	ModeDenied      = "denied"
)

// Canonical returns uri with percent-encoded unreserved characters decoded: two
// URLs that differ only in those are the same topic, or callback (WS-H-09).
// Nothing else is changed. Use it only for comparison: requests and answers
// contain the original URL.
func Canonical(uri string) string {
	i := strings.IndexByte(uri, '%')
	if i < 0 {
		return uri
	}
	b := make([]byte, 0, len(uri))
	for ; i >= 0; i = strings.IndexByte(uri, '%') {
		b = append(b, uri[:i]...)
		uri = uri[i:]
		if c, ok := encoded(uri); ok && unreserved(c) {
			b, uri = append(b, c), uri[3:]
			continue
		}
		b, uri = append(b, '%'), uri[1:]
	}
	return string(append(b, uri...))
}

// encoded returns the byte that is percent-encoded at the beginning of s.
func encoded(s string) (byte, bool) {
	if len(s) < 3 {
		return 0, false
	}
	high, ok := digit(s[1])
	low, ok2 := digit(s[2])
	return high<<4 | low, ok && ok2
}

func digit(c byte) (byte, bool) {
	switch {
	case '0' <= c && c <= '9':
		return c - '0', true
	case 'a' <= c && c <= 'f':
		return c - 'a' + 10, true
	case 'A' <= c && c <= 'F':
		return c - 'A' + 10, true
	}
	return 0, false
}

func unreserved(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte("-._~", c) >= 0
}
