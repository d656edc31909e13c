// Package schema has the table of attributes by document: the kinds of
// documents of the standard, and the attributes, children and links that each of
// them must or may have.
package schema

// A Kind is a column of the table of attributes by document: a capability and
// whether the document is an index.
type Kind uint8

// The kinds of documents.
const (
	Unknown Kind = iota // a plain Sitemap or an extension: anything is allowed
	Description
	DescriptionIndex
	CapabilityList
	ResourceList
	ResourceListIndex
	ResourceDump
	ResourceDumpIndex
	ResourceManifest
	ChangeList
	ChangeListIndex
	ChangeDump
	ChangeDumpIndex
	ChangeManifest
	ResourceArchive
	ChangeArchive
	ArchiveIndex
	Notification
	kinds
)

// KindOf returns the kind of a document of a capability, or Unknown.
func KindOf[C ~string](capability C, index bool) Kind {
	var list, idx Kind
	switch string(capability) {
	case "description":
		list, idx = Description, DescriptionIndex
	case "capabilitylist":
		list, idx = CapabilityList, Unknown
	case "resourcelist":
		list, idx = ResourceList, ResourceListIndex
	case "resourcedump":
		list, idx = ResourceDump, ResourceDumpIndex
	case "resourcedump-manifest":
		list, idx = ResourceManifest, Unknown
	case "changelist":
		list, idx = ChangeList, ChangeListIndex
	case "changedump":
		list, idx = ChangeDump, ChangeDumpIndex
	case "changedump-manifest":
		list, idx = ChangeManifest, Unknown
	case "resourcelist-archive", "resourcedump-archive":
		list, idx = ResourceArchive, ArchiveIndex
	case "changelist-archive", "changedump-archive":
		list, idx = ChangeArchive, ArchiveIndex
	case "change-notification":
		list, idx = Notification, Unknown
	}
	if index {
		return idx
	}
	return list
}

// Events reports whether the entries of a document of kind k are changes, in
// the order of their time.
func (k Kind) Events() bool {
	return k == ChangeList || k == ChangeManifest || k == Notification
}

// Snapshot reports whether documents of kind k describe a snapshot: at and
// completed.
func (k Kind) Snapshot() bool {
	switch k {
	case ResourceList, ResourceListIndex, ResourceDump, ResourceDumpIndex, ResourceManifest:
		return true
	}
	return false
}

// Interval reports whether documents of kind k cover an interval: from and until.
func (k Kind) Interval() bool {
	switch k {
	case ChangeList, ChangeListIndex, ChangeDump, ChangeDumpIndex, ChangeManifest, Notification:
		return true
	}
	return false
}
