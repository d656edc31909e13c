package catalog

import "lockstep/resourcesync"

// RelRecord is the relation of a resource to the metadata record it represents.
// The target is the record's identifier, an absolute IRI: the id of an Atom
// entry, the identifier of an OAI-PMH record. AP-RS-03: the identifier is
// therefore kept.
const RelRecord = "urn:x-lockstep:record"

// RecordID returns the identifier of the metadata record that a resource with
// these links represents, or "".
func RecordID(links []resourcesync.Link) string {
	for i := range links {
		if links[i].Rel == RelRecord {
			return links[i].Href
		}
	}
	return ""
}
