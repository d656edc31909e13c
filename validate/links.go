package validate

import (
	"slices"
	"strings"

	"lockstep/resourcesync"
	"lockstep/validate/finding"
	"lockstep/validate/internal/visit"
)

// rootLink checks a link of a document.
func (c *checker) rootLink(l *resourcesync.Link) {
	if !l.Modified.IsZero() || len(l.Hashes) > 0 || l.HasLength || l.Encoding != "" || l.Pri != 0 || l.Path != "" {
		c.Advisef("RS-LN-02", "root", "the link %s at the root has more than rel, href and type", l.Rel)
	}
	c.relation(l, "root")
}

// relation checks that a relation is registered or a URI.
func (c *checker) relation(l *resourcesync.Link, at string) {
	switch rel := l.Rel; {
	case strings.Contains(rel, ":"), rel == "top", rel == "resourcesync": // the Reader reports the last two by their current names
	default:
		if _, ok := slices.BinarySearch(relations[:], rel); !ok {
			c.Errorf("RS-LN-04", at, "relation %q is neither registered nor a URI", rel)
		}
	}
}

// The media types of patches that are misprints in the standard (RS-REL-32).
const (
	oldJSONPatch  = "application/json-patch"
	patchOpsError = "application/patch-ops-error+xml"
)

// links checks the links of an entry.
func (c *checker) links(e *resourcesync.Entry) {
	at := c.at()
	count := make(map[string]int, 4)
	for i := range e.Links {
		l := &e.Links[i]
		count[l.Rel]++
		c.relation(l, at)
		described := len(l.Hashes) > 0 || l.HasLength
		switch l.Rel {
		case "duplicate":
			if described || l.Type != "" || l.Encoding != "" {
				c.Warnf("RS-REL-11", at, "the link to mirror %s repeats what is said of the resource", l.Href)
			}
		case "alternate":
			if l.Type == "" {
				c.Warnf("RS-REL-20", at, "the link to alternate %s has no type", l.Href)
			}
		case "timegate":
			if described || l.Type != "" || l.Encoding != "" || !l.Modified.IsZero() || l.Pri != 0 {
				c.Warnf("RS-REL-52", at, "the link to timegate %s has more than href", l.Href)
			}
		case "timemap":
			if l.Type == "" {
				c.Advisef("RS-REL-53", at, "the link to timemap %s has no type", l.Href)
			}
		case "memento":
			c.memento(e, l, at)
		case resourcesync.RelPatch:
			c.patch(e, l, at)
		}
	}
	for _, once := range []struct{ rel, rule string }{{"canonical", "RS-REL-22"}, {"memento", "RS-REL-51"}, {"via", "RS-REL-71"}} {
		if count[once.rel] > 1 {
			c.Warnf(once.rule, at, "%d links %s", count[once.rel], once.rel)
		}
	}
}

// memento checks that the link to the entry's version has the same properties
// as the entry.
func (c *checker) memento(e *resourcesync.Entry, l *resourcesync.Link, at string) {
	_, differs := e.Hashes.Compare(l.Hashes)
	if differs != 0 || e.HasLength && l.HasLength && e.Length != l.Length || e.Type != "" && l.Type != "" && e.Type != l.Type {
		c.Warnf("RS-REL-51", at, "the link to memento %s says something else than the entry", l.Href)
	}
}

// patch checks a link to a patch.
func (c *checker) patch(e *resourcesync.Entry, l *resourcesync.Link, at string) {
	if c.doc.kind&finding.Events == 0 {
		return // the Reader has reported it
	}
	if e.Change != resourcesync.Updated {
		c.Advisef("RS-REL-30", at, "a patch of a resource that was %s", e.Change)
	}
	if c.doc.kind == finding.KindChangeDumpManifest && l.Path == "" {
		c.Errorf("RS-CDM-06", at, "a patch without path")
	}
	switch {
	case l.Type == "":
		c.Errorf("RS-REL-31", at, "a patch without type")
	case visit.BaseType(l.Type) == oldJSONPatch, visit.BaseType(l.Type) == patchOpsError:
		c.Advisef("RS-REL-32", at, "a patch of type %s, which was printed by mistake", l.Type)
	}
	if len(e.Hashes) == 0 || len(l.Hashes) == 0 || !e.HasLength || !l.HasLength {
		c.Advisef("RS-REL-33", at, "a patch without hash and length of its own, or of what it leads to")
	}
}

// hasPatch reports whether an entry of a manifest has a patch in the package.
func hasPatch(e *resourcesync.Entry) bool {
	for i := range e.Links {
		if e.Links[i].Rel == resourcesync.RelPatch && e.Links[i].Path != "" {
			return true
		}
	}
	return false
}

// relations are those IANA has registered, sorted.
var relations = [...]string{
	"about", "acl", "alternate", "amphtml", "api-catalog", "appendix", "apple-touch-icon", "apple-touch-startup-image", "archives", "author",
	"blocked-by", "bookmark", "c2pa-manifest", "canonical", "chapter", "cite-as", "collection", "compression-dictionary", "contents",
	"convertedfrom", "copyright", "create-form", "current", "deprecation", "describedby", "describes", "disclosure", "dns-prefetch",
	"duplicate", "edit", "edit-form", "edit-media", "enclosure", "external", "first", "geofeed", "glossary", "help", "hosts", "hub",
	"ice-server", "icon", "index", "intervalafter", "intervalbefore", "intervalcontains", "intervaldisjoint", "intervalduring",
	"intervalequals", "intervalfinishedby", "intervalfinishes", "intervalin", "intervalmeets", "intervalmetby", "intervaloverlappedby",
	"intervaloverlaps", "intervalstartedby", "intervalstarts", "item", "last", "latest-version", "license", "linkset", "lrdd", "manifest",
	"mask-icon", "me", "media-feed", "memento", "micropub", "modulepreload", "monitor", "monitor-group", "next", "next-archive", "nofollow",
	"noopener", "noreferrer", "opener", "openid2.local_id", "openid2.provider", "original", "p3pv1", "payment", "pingback", "preconnect",
	"predecessor-version", "prefetch", "preload", "prerender", "prev", "prev-archive", "preview", "previous", "privacy-policy", "profile",
	"publication", "rdap-active", "rdap-bottom", "rdap-down", "rdap-top", "rdap-up", "related", "replies", "restconf", "ruleinput",
	"search", "section", "self", "service", "service-desc", "service-doc", "service-meta", "sip-trunking-capability", "sponsored", "start",
	"status", "stylesheet", "subsection", "successor-version", "sunset", "tag", "terms-of-service", "timegate", "timemap", "type", "ugc",
	"up", "version-history", "via", "webmention", "working-copy", "working-copy-of",
}
