package resourcesync

import "strings"

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
	Pri       int // 1 to 999999, smaller is preferred; 0 when absent (RS-PRI-01)
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

// relationItem returns the row of the table of attributes for rel, or 0 for a
// relation that is not in the table and is allowed anywhere.
func relationItem(rel string) item {
	switch rel {
	case RelUp:
		return relUp
	case RelIndex:
		return relIndex
	case RelArchives:
		return relArchives
	case RelDescribedBy:
		return relDescribedBy
	case RelContents:
		return relContents
	case RelHub:
		return relHub
	case RelPatch:
		return relPatch
	case "duplicate", "alternate", "canonical", "describes", "profile", "memento", "timegate", "timemap", "collection", "via":
		return relRelated
	}
	return 0
}

// validRel reports whether rel is one relation in its canonical form: a name in
// lower case or an absolute URI (RS-LN-03).
func validRel(rel string) bool {
	if strings.Contains(rel, ":") {
		return validURI(rel) && (rel == RelPatch || !strings.EqualFold(rel, RelPatch))
	}
	for i := range len(rel) {
		c := rel[i]
		if !(c >= 'a' && c <= 'z' || i > 0 && (c >= '0' && c <= '9' || c == '-' || c == '.')) {
			return false
		}
	}
	return rel != ""
}

// validPath reports whether s is a valid path of a file in a package: it begins
// with a slash and no segment is empty or leads elsewhere (RS-PATH-01,
// RS-ZIP-03).
func validPath(s string) bool {
	return strings.HasPrefix(s, "/") && closedPath(s)
}

// closedPath is validPath without the leading slash.
func closedPath(s string) bool {
	if strings.IndexByte(s, 0) >= 0 {
		return false
	}
	for seg := range strings.SplitSeq(strings.TrimPrefix(s, "/"), "/") {
		if seg == "" || seg == "." || seg == ".." {
			return false
		}
	}
	return true
}
