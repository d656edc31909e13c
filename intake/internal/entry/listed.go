package entry

import "lockstep/resourcesync"

// CheckListed returns why a Resource List cannot state e, or nil.
func CheckListed(e *resourcesync.Entry) error {
	return resourcesync.CheckEntry(resourcesync.ResourceList, e)
}

// Listable reports whether a Resource List can state m.
func Listable(m resourcesync.Metadata) bool {
	return CheckListed(&resourcesync.Entry{Loc: "urn:x", Metadata: m}) == nil
}
