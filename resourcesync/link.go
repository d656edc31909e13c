package resourcesync

import (
	"lockstep/resourcesync/internal/lexical"
	"strings"
)

// The relations between documents, and from a resource to the description of
// its last difference. Further relations are registered with IANA.
const (
	RelUp          = "up"
	RelIndex       = "index"
	RelArchives    = "archives"
	RelDescribedBy = "describedby"
	RelContents    = "contents"
	RelHub         = "hub"
	RelMemento     = "memento" // one version of the resource (RS-REL-51)
	RelPatch       = "http://www.openarchives.org/rs/terms/patch"
)

// A Link is an rs:ln: a typed link from a document or resource to another.
type Link struct {
	Rel       string // one relation: a registered name in lower case, or a URI
	Href      string // absolute URI
	Type      string
	Encoding  string
	Path      string // path in a package; manifests only
	Modified  Datetime
	Hashes    Hashes
	Length    int64 // meaningful only if HasLength
	HasLength bool
	Pri       int     // 1 to 999999, smaller is preferred; 0 when absent (RS-PRI-01)
	Foreign   Foreign // attributes in namespaces of a community; no elements
}

const maxPri = 999_999

// linkTo returns the target of the first link with relation rel, or "".
func linkTo(links []Link, rel string) string {
	for i := range links {
		if links[i].Rel == rel {
			return links[i].Href
		}
	}
	return ""
}

// validRel reports whether rel is one relation in its canonical form: a name in
// lower case or an absolute URI (RS-LN-03).
func validRel(rel string) bool {
	if strings.Contains(rel, ":") {
		return lexical.URI(rel) && (rel == RelPatch || !strings.EqualFold(rel, RelPatch))
	}
	for i := range len(rel) {
		c := rel[i]
		if !(c >= 'a' && c <= 'z' || i > 0 && (c >= '0' && c <= '9' || c == '-' || c == '.')) {
			return false
		}
	}
	return rel != ""
}
