package hub

import (
	"context"
	"fmt"
	"net/http"

	"lockstep/hub/hubstore"
	"lockstep/websub"
)

// Publish accepts a message from within the process: a fat publication (RN-PB-01) that needs no
// authorization. Content-Type and Link of the header are relayed as if it had come by HTTP; a Link
// with rel=self may be omitted. The message is durable when Publish returns nil. An error with a
// method Permanent that returns true rejects the message; after any other error the caller may
// retry. The caller must not change the body afterwards.
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
		_, err = h.append(ctx, hubstore.Message{Topic: p.topic, ContentType: p.contentType, Links: p.links, Body: body})
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

// Permanent reports whether the hub would refuse the same request again.
func (r *refusal) Permanent() bool {
	return r.after == 0 && r.status < 500 && r.status != http.StatusTooManyRequests
}
