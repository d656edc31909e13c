package hub

import (
	"context"
	"fmt"
	"net/http"

	"lockstep/websub"
)

// Publish accepts a message from within the process: a fat publishing (RN-PB-01)
// that nobody has to be entitled to. Content-Type and Link of the header are
// relayed as they would be if it had come by HTTP. The message is durable when
// Publish returns nil; a Link with rel=self may be left out. An error with a method Permanent that returns true refuses
// the message; after any other it may be brought again. The body is not to be
// changed afterwards.
func (h *Hub) Publish(ctx context.Context, topic string, header http.Header, body []byte) error {
	p, err := parsePublishing(withSelf(header, topic))
	if err != nil {
		return fmt.Errorf("publish to %s: %w", topic, err)
	}
	switch {
	case p.topic != websub.Canonical(topic):
		err = refuse(http.StatusBadRequest, "the Link with rel=self names another topic")
	case len(body) == 0:
		err = refuse(http.StatusBadRequest, "there is nothing to publish")
	case int64(len(body)) > h.opts.MaxBody:
		err = refuse(http.StatusRequestEntityTooLarge, "%d bytes are more than %d", len(body), h.opts.MaxBody)
	default:
		_, err = h.append(ctx, Message{Topic: p.topic, ContentType: p.contentType, Links: p.links, Body: body})
	}
	if err != nil {
		return fmt.Errorf("publish to %s: %w", topic, err)
	}
	return nil
}

// withSelf returns header with a Link that names the topic, if it has none.
func withSelf(header http.Header, topic string) http.Header {
	for _, l := range websub.ParseLinks(header.Values("Link"), nil) {
		if l.Has("self") {
			return header
		}
	}
	header = header.Clone()
	if header == nil {
		header = http.Header{}
	}
	header.Add("Link", websub.LinkHeader(topic, nil))
	return header
}

// Permanent reports whether the same request will be refused again.
func (r *refusal) Permanent() bool {
	return r.after == 0 && r.status < 500 && r.status != http.StatusTooManyRequests
}
