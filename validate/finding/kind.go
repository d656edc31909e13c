package finding

import (
	"strings"
)

// Kinds is a set of kinds of objects that a rule applies to: documents, by
// capability and root element, and other observable properties of a Source.
type Kinds uint32

// The kinds.
const (
	KindSitemap Kinds = 1 << iota // a document without capability
	KindDescription
	KindDescriptionIndex
	KindCapabilityList
	KindResourceList
	KindResourceListIndex
	KindResourceDump
	KindResourceDumpIndex
	KindResourceDumpManifest
	KindChangeList
	KindChangeListIndex
	KindChangeDump
	KindChangeDumpIndex
	KindChangeDumpManifest
	KindArchive
	KindArchiveIndex
	KindNotification
	KindUnknown // a document of an unknown capability

	KindPackage  // a ZIP file with a manifest
	KindResource // the target of a loc
	KindSource   // observable only from several documents, or headers

	KindFeed       // a feed document of Atom
	KindFeeds      // observable only from all documents of a feed, or headers
	KindRepository // an OAI-PMH repository

	// Sets of kinds that rules apply to.

	Lists     = KindResourceList | KindResourceDump | KindChangeList | KindChangeDump
	Indexes   = KindResourceListIndex | KindResourceDumpIndex | KindChangeListIndex | KindChangeDumpIndex
	Manifests = KindResourceDumpManifest | KindChangeDumpManifest
	Archives  = KindArchive | KindArchiveIndex
	Snapshots = KindResourceList | KindResourceListIndex | KindResourceDump | KindResourceDumpIndex | KindResourceDumpManifest
	Intervals = KindChangeList | KindChangeListIndex | KindChangeDump | KindChangeDumpIndex | KindChangeDumpManifest | KindNotification
	Events    = KindChangeList | KindChangeDumpManifest | KindNotification
	resources = KindResourceList | KindResourceDumpManifest | Events
	AnyIndex  = Indexes | KindDescriptionIndex | KindArchiveIndex
	documents = KindUnknown<<1 - 1
)

var kindNames = [...]string{
	"Sitemap", "Source Description", "Source Description Index", "Capability List",
	"Resource List", "Resource List Index", "Resource Dump", "Resource Dump Index", "Resource Dump Manifest",
	"Change List", "Change List Index", "Change Dump", "Change Dump Index", "Change Dump Manifest",
	"archive", "archive index", "Change Notification", "document of an unknown capability",
	"package", "resource", "Source",
	"feed document", "feed", "OAI-PMH repository",
}

// String names the kinds in k.
func (k Kinds) String() string {
	var names []string
	switch {
	case k&documents == documents:
		names, k = append(names, "every document"), k&^documents
	}
	for i, name := range kindNames {
		if k&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	return strings.Join(names, ", ")
}
