package resourcesync

// A kind is a column of the table of attributes by document: a capability and
// whether the document is an index. rules defines what each kind may contain;
// the Writer refuses anything else, and the Reader ignores it.
type kind uint8

const (
	kindUnknown kind = iota // a plain Sitemap or an extension: anything is allowed
	kindDescription
	kindDescriptionIndex
	kindCapabilityList
	kindResourceList
	kindResourceListIndex
	kindResourceDump
	kindResourceDumpIndex
	kindResourceManifest
	kindChangeList
	kindChangeListIndex
	kindChangeDump
	kindChangeDumpIndex
	kindChangeManifest
	kindResourceArchive
	kindChangeArchive
	kindArchiveIndex
	kindNotification
	kinds
)

// documentKind returns the kind of a document, or kindUnknown.
func documentKind(c Capability, index bool) kind {
	var list, idx kind
	switch c {
	case Description:
		list, idx = kindDescription, kindDescriptionIndex
	case CapabilityList:
		list, idx = kindCapabilityList, kindUnknown
	case ResourceList:
		list, idx = kindResourceList, kindResourceListIndex
	case ResourceDump:
		list, idx = kindResourceDump, kindResourceDumpIndex
	case ResourceDumpManifest:
		list, idx = kindResourceManifest, kindUnknown
	case ChangeList:
		list, idx = kindChangeList, kindChangeListIndex
	case ChangeDump:
		list, idx = kindChangeDump, kindChangeDumpIndex
	case ChangeDumpManifest:
		list, idx = kindChangeManifest, kindUnknown
	case ResourceListArchive, ResourceDumpArchive:
		list, idx = kindResourceArchive, kindArchiveIndex
	case ChangeListArchive, ChangeDumpArchive:
		list, idx = kindChangeArchive, kindArchiveIndex
	case ChangeNotification:
		list, idx = kindNotification, kindUnknown
	}
	if index {
		return idx
	}
	return list
}

// An item is a piece of information in a document: an attribute or child of an
// entry or of the root, or a relation.
type item uint32

const (
	itemLastmod item = 1 << iota
	itemChangeFreq
	itemCapability
	itemAt
	itemCompleted
	itemFrom
	itemUntil
	itemChange
	itemDatetime
	itemHash
	itemLength
	itemType
	itemEncoding
	itemPath
	itemModified // not in the standard since 0.9
	itemETag     // not in the standard since the pre-beta

	relUp
	relIndex
	relArchives
	relDescribedBy
	relContents
	relHub
	relPatch
	relRelated // duplicate, alternate, canonical, describes, profile, memento, timegate, timemap, collection, via

	itemContent = itemHash | itemLength | itemType | itemEncoding
	anyItem     = ^item(0)
)

// A rule states which items documents of a kind must have at their root and in
// their entries, and which they may have in addition.
type rule struct {
	rootMust, rootMay item
	must, may         item
}

// rules is the table of attributes by document.
var rules = [kinds]rule{
	kindUnknown:          {0, anyItem, 0, anyItem},
	kindDescription:      {0, relIndex | relDescribedBy, itemCapability, itemLastmod | relDescribedBy},
	kindDescriptionIndex: {0, relDescribedBy, 0, itemLastmod | itemCapability | relDescribedBy},
	kindCapabilityList:   {relUp, relDescribedBy, itemCapability, itemLastmod | relDescribedBy | relHub},
	kindResourceList: {itemAt | relUp, itemCompleted | relIndex | relDescribedBy | relArchives,
		0, itemLastmod | itemChangeFreq | itemContent | relDescribedBy | relRelated},
	kindResourceListIndex: {itemAt | relUp, itemCompleted | relDescribedBy | relArchives,
		0, itemLastmod | itemAt | itemCompleted},
	kindResourceDump: {itemAt | relUp, itemCompleted | relIndex | relDescribedBy | relArchives,
		0, itemLastmod | itemAt | itemCompleted | itemContent | relContents},
	kindResourceDumpIndex: {itemAt | relUp, itemCompleted | relDescribedBy | relArchives,
		0, itemLastmod | itemAt | itemCompleted},
	kindResourceManifest: {itemAt | relUp, itemCompleted | relDescribedBy,
		itemPath, itemLastmod | itemChangeFreq | itemContent | relDescribedBy | relRelated},
	kindChangeList: {itemFrom | relUp, itemUntil | relIndex | relDescribedBy | relArchives,
		itemChange, itemDatetime | itemLastmod | itemChangeFreq | itemContent | relDescribedBy | relRelated | relPatch},
	kindChangeListIndex: {itemFrom | relUp, itemUntil | relDescribedBy | relArchives,
		0, itemLastmod | itemFrom | itemUntil},
	kindChangeDump: {itemFrom | relUp, itemUntil | relIndex | relDescribedBy | relArchives,
		0, itemLastmod | itemFrom | itemUntil | itemContent | relContents},
	kindChangeDumpIndex: {itemFrom | relUp, itemUntil | relDescribedBy | relArchives,
		0, itemLastmod | itemFrom | itemUntil},
	kindChangeManifest: {itemFrom | relUp, itemUntil | relDescribedBy,
		itemChange, itemPath | itemDatetime | itemLastmod | itemChangeFreq | itemContent | relDescribedBy | relRelated | relPatch},
	kindResourceArchive: {relUp, relIndex | relDescribedBy, 0, itemLastmod | itemAt | itemCompleted},
	kindChangeArchive:   {relUp, relIndex | relDescribedBy, 0, itemLastmod | itemFrom | itemUntil},
	kindArchiveIndex:    {relUp, relDescribedBy, 0, itemLastmod},
	kindNotification: {relUp | itemFrom | itemUntil, relDescribedBy,
		itemChange, itemDatetime | itemLastmod | itemChangeFreq | itemContent | relDescribedBy | relRelated | relPatch},
}

// events reports whether the entries of a document of kind k are changes, in
// the order of their time.
func (k kind) events() bool {
	return k == kindChangeList || k == kindChangeManifest || k == kindNotification
}

// snapshot reports whether documents of kind k describe a snapshot: at and
// completed.
func (k kind) snapshot() bool {
	switch k {
	case kindResourceList, kindResourceListIndex, kindResourceDump, kindResourceDumpIndex, kindResourceManifest:
		return true
	}
	return false
}

// interval reports whether documents of kind k cover an interval: from and until.
func (k kind) interval() bool {
	switch k {
	case kindChangeList, kindChangeListIndex, kindChangeDump, kindChangeDumpIndex, kindChangeManifest, kindNotification:
		return true
	}
	return false
}

// itemNames are the names of the items in messages.
var itemNames = [...]struct {
	item item
	name string
}{
	{itemLastmod, "lastmod"}, {itemChangeFreq, "changefreq"}, {itemCapability, "capability"}, {itemAt, "at"},
	{itemCompleted, "completed"}, {itemFrom, "from"}, {itemUntil, "until"}, {itemChange, "change"},
	{itemDatetime, "datetime"}, {itemHash, "hash"}, {itemLength, "length"}, {itemType, "type"},
	{itemEncoding, "encoding"}, {itemPath, "path"}, {itemModified, "modified"}, {itemETag, "etag"},
	{relUp, "link up"}, {relIndex, "link index"}, {relArchives, "link archives"}, {relDescribedBy, "link describedby"},
	{relContents, "link contents"}, {relHub, "link hub"}, {relPatch, "patch link"}, {relRelated, "link to a related resource"},
}

// String returns the name of the first item in i.
func (i item) String() string {
	for _, n := range itemNames {
		if i&n.item != 0 {
			return n.name
		}
	}
	return ""
}
