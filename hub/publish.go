package hub

import (
	"context"
	"fmt"
	"net/http"

	"lockstep/hub/hubstore"
	"lockstep/hub/internal/refusal"
	"lockstep/hub/internal/request"
	"lockstep/websub"
)

// Publish accepts a message from within the process: a fat publication (RN-PB-01) that needs no
// authorization. Content-Type and Link of the header are relayed as if it had come by HTTP; a Link
// with rel=self may be omitted. The message is durable when Publish returns nil. An error with a
// method Permanent that returns true rejects the message; after any other error the caller may
// retry. The caller must not change the body afterwards.
func (h *Hub) Publish(ctx context.Context, topic string, header http.Header, body []byte) error {
	p, err := request.ParsePublication(request.WithSelf(header, topic))
	if err != nil {
		return fmt.Errorf("publish to %s: %w", topic, err)
	}
	switch {
	case p.Topic != websub.Canonical(topic):
		err = refusal.New(http.StatusBadRequest, "the Link with rel=self names another topic")
	case len(body) == 0:
		err = refusal.New(http.StatusBadRequest, "there is nothing to publish")
	case int64(len(body)) > h.opts.MaxBody:
		err = refusal.New(http.StatusRequestEntityTooLarge, "%d bytes are more than %d", len(body), h.opts.MaxBody)
	default:
		_, err = h.append(ctx, hubstore.Message{Topic: p.Topic, ContentType: p.ContentType, Links: p.Links, Body: body})
	}
	if err != nil {
		return fmt.Errorf("publish to %s: %w", topic, err)
	}
	return nil
}
