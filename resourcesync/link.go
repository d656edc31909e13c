package resourcesync

// A Link is an rs:ln: a typed link from a document or resource to another.
type Link struct {
	Rel       string // one relation: a registered name in lower case, or a URI
	Href      string // absolute URI
	Type      string
	Encoding  string
	Path      string // place in a package; manifests only
	Modified  Datetime
	Hashes    Hashes
	Length    int64 // meaningful only if HasLength
	HasLength bool
	Pri       int // 1 to 999999, smaller is preferred; 0 when absent (RS-PRI-01)
}
