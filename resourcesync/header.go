package resourcesync

// A Header describes a document: its root element and the rs:md and rs:ln
// elements directly below it.
type Header struct {
	Capability Capability // empty for a plain Sitemap
	Index      bool       // the root is a sitemapindex, not a urlset (RS-GEN-05)
	At         Datetime
	Completed  Datetime
	From       Datetime
	Until      Datetime
	Links      []Link

	// Set only by a Reader, for faulty documents and those older than the standard;
	// the Writer ignores these fields.

	Modified     Datetime // time of the document, before version 0.9
	Approximate  bool     // At is Modified: changes made meanwhile may be missing (RS-VER-08)
	FromUnproven bool     // From was not stated, so completeness cannot be proven (RS-MD-14, RS-VER-09)
	Living       bool     // Until does not close the document (RS-VER-10)
	Dialect      string   // oldest version whose features were found, such as "0.9"; empty for the current standard
}

// Link returns the target of the header's first link with relation rel, or "".
func (h *Header) Link(rel string) string { return linkTo(h.Links, rel) }

// Open reports whether a change document may still grow (RS-MD-09).
func (h *Header) Open() bool {
	return h.Capability.Changes() && h.Capability != ChangeDumpManifest && (h.Until.IsZero() || h.Living)
}
