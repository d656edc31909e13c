package resourcesync

// A Header is what a document says of itself: its root element and the rs:md
// and rs:ln elements directly below it.
type Header struct {
	Capability Capability // empty for a plain Sitemap
	Index      bool       // the root is a sitemapindex, not a urlset (RS-GEN-05)
	At         Datetime
	Completed  Datetime
	From       Datetime
	Until      Datetime
	Links      []Link
}

// Link returns the target of the header's first link with relation rel, or "".
func (h *Header) Link(rel string) string {
	for i := range h.Links {
		if h.Links[i].Rel == rel {
			return h.Links[i].Href
		}
	}
	return ""
}
