package request

import (
	"mime"
	"net/http"
	"net/url"
	"strings"

	"lockstep/hub/internal/address"
	"lockstep/hub/internal/refusal"
	"lockstep/websub"
)

const (
	maxContentType = 1 << 10 // sent with every delivery
	maxRelayed     = 8 << 10 // bytes of links: servers commonly accept a header of that size
)

// A Publication is the parsed header of a fat publication (RN-PB-01).
type Publication struct {
	Topic       string // as websub.Canonical spells it
	Self        string // as the publisher spells it
	URL         *url.URL
	ContentType string   // character for character (RN-AMB-15)
	Links       []string // to relay, character for character
}

// ParsePublication reads the header of a request that is not a form. A request
// with a link to itself is a fat publication of the topic that the link names
// (RN-PB-04).
func ParsePublication(h http.Header) (*Publication, error) {
	links := websub.ParseLinks(h.Values("Link"), nil)
	p := &Publication{ContentType: h.Get("Content-Type")}
	for _, l := range links {
		if !l.Has("self") {
			continue
		}
		u, err := address.CheckTopic(l.Target)
		if err != nil {
			return nil, refusal.New(http.StatusBadRequest, "the Link with rel=self %s", err)
		}
		topic := websub.Canonical(l.Target)
		if p.URL != nil && topic != p.Topic {
			return nil, refusal.New(http.StatusBadRequest, "there are several Links with rel=self: which is the topic?")
		}
		if p.URL == nil {
			p.Self = l.Target
		}
		p.URL, p.Topic = u, topic
	}
	if p.URL == nil {
		return nil, noSelf(h)
	}
	if e := h.Get("Content-Encoding"); e != "" && !strings.EqualFold(e, "identity") {
		return nil, refusal.New(http.StatusUnsupportedMediaType, "the body has a content coding, which subscribers would not learn of: send it without")
	}
	if strings.TrimSpace(p.ContentType) == "" { // WS-C-01: deliveries have that of the topic
		return nil, refusal.New(http.StatusUnsupportedMediaType, "the request has no Content-Type: send the media type of the body, subscribers get the same")
	}
	if len(p.ContentType) > maxContentType {
		return nil, refusal.New(http.StatusBadRequest, "the Content-Type is longer than %d bytes", maxContentType)
	}
	var err error
	p.Links, err = relayed(links)
	return p, err
}

// noSelf answers a request that is neither a form nor a publication. If the
// body could be meant as a form, the answer names the media type of forms
// (WS-H-04), otherwise the missing link (RN-PB-05).
func noSelf(h http.Header) error {
	media, _, _ := mime.ParseMediaType(h.Get("Content-Type")) // "" if it is not valid
	if len(h.Values("Link")) == 0 {
		switch media {
		case "", "application/json", "multipart/form-data", "text/plain":
			return refusal.New(http.StatusUnsupportedMediaType,
				"send a form (%s) to subscribe, unsubscribe or ping, or with a Link header with rel=self what is to be published", formType)
		}
	}
	return refusal.New(http.StatusBadRequest, "there is no Link with rel=self, which names the topic")
}

// relayed returns the links that deliveries carry in addition to the hub's own
// self and hub links (RN-PB-02).
func relayed(links []websub.Link) ([]string, error) {
	var out []string
	size := 0
	for _, l := range links {
		if l.Has("self") || l.Has("hub") || !ends(l.Raw) {
			continue
		}
		if size += len(l.Raw); size > maxRelayed {
			return nil, refusal.New(http.StatusBadRequest, "the Links to relay are longer than %d bytes", maxRelayed)
		}
		out = append(out, l.Raw)
	}
	return out, nil
}

// ends reports whether a link ends where it seems to: an unclosed quote would
// swallow the links after it.
func ends(raw string) bool {
	all := websub.ParseLinks([]string{raw + `, <urn:x>; rel="end"`}, nil)
	return len(all) == 2 && all[1].Has("end")
}

// IsForm reports whether the body is a form.
func IsForm(contentType string) bool {
	media, _, _ := strings.Cut(contentType, ";")
	return strings.EqualFold(strings.TrimSpace(media), formType)
}

// ParsePublicationOf reads the header of a publication of topic from within the
// process. It may lack the link to itself.
func ParsePublicationOf(topic string, header http.Header, body []byte, maxBody int64) (*Publication, error) {
	p, err := ParsePublication(withSelf(header, topic))
	switch {
	case err != nil:
		return nil, err
	case p.Topic != websub.Canonical(topic):
		return nil, refusal.New(http.StatusBadRequest, "the Link with rel=self names another topic")
	case len(body) == 0:
		return nil, refusal.New(http.StatusBadRequest, "there is nothing to publish")
	case int64(len(body)) > maxBody:
		return nil, refusal.New(http.StatusRequestEntityTooLarge, "%d bytes are more than %d", len(body), maxBody)
	}
	return p, nil
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
