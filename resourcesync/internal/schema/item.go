package schema

import "iter"

// An Item is a piece of information in a document: an attribute or child of an
// entry or of the root, or a relation.
type Item uint32

// The items of entries and roots: attributes and children, then relations.
const (
	ItemLastmod Item = 1 << iota
	ItemChangeFreq
	ItemCapability
	ItemAt
	ItemCompleted
	ItemFrom
	ItemUntil
	ItemChange
	ItemDatetime
	ItemHash
	ItemLength
	ItemType
	ItemEncoding
	ItemPath
	ItemModified // not in the standard since 0.9
	ItemETag     // not in the standard since the pre-beta

	LinkUp
	LinkIndex
	LinkArchives
	LinkDescribedBy
	LinkContents
	LinkHub
	LinkPatch
	LinkRelated // duplicate, alternate, canonical, describes, profile, memento, timegate, timemap, collection, via

	ItemContent = ItemHash | ItemLength | ItemType | ItemEncoding
	anyItem     = ^Item(0)
)

// itemNames are the names of the items in messages.
var itemNames = [...]struct {
	item Item
	name string
}{
	{ItemLastmod, "lastmod"}, {ItemChangeFreq, "changefreq"}, {ItemCapability, "capability"}, {ItemAt, "at"},
	{ItemCompleted, "completed"}, {ItemFrom, "from"}, {ItemUntil, "until"}, {ItemChange, "change"},
	{ItemDatetime, "datetime"}, {ItemHash, "hash"}, {ItemLength, "length"}, {ItemType, "type"},
	{ItemEncoding, "encoding"}, {ItemPath, "path"}, {ItemModified, "modified"}, {ItemETag, "etag"},
	{LinkUp, "link up"}, {LinkIndex, "link index"}, {LinkArchives, "link archives"}, {LinkDescribedBy, "link describedby"},
	{LinkContents, "link contents"}, {LinkHub, "link hub"}, {LinkPatch, "patch link"}, {LinkRelated, "link to a related resource"},
}

// Each yields the items in i one by one.
func (i Item) Each() iter.Seq[Item] {
	return func(yield func(Item) bool) {
		for _, n := range itemNames {
			if i&n.item != 0 && !yield(n.item) {
				return
			}
		}
	}
}

// String returns the name of the first item in i.
func (i Item) String() string {
	for _, n := range itemNames {
		if i&n.item != 0 {
			return n.name
		}
	}
	return ""
}

// LinkItem returns the item of a link with relation rel, or 0 for a relation that
// is not in the table and is allowed anywhere.
func LinkItem(rel string) Item {
	switch rel {
	case "up":
		return LinkUp
	case "index":
		return LinkIndex
	case "archives":
		return LinkArchives
	case "describedby":
		return LinkDescribedBy
	case "contents":
		return LinkContents
	case "hub":
		return LinkHub
	case "http://www.openarchives.org/rs/terms/patch":
		return LinkPatch
	case "duplicate", "alternate", "canonical", "describes", "profile", "memento", "timegate", "timemap", "collection", "via":
		return LinkRelated
	}
	return 0
}

// AttributeItem returns the item of an attribute of rs:md, or 0.
func AttributeItem(name []byte) Item {
	switch string(name) {
	case "hash":
		return ItemHash
	case "length":
		return ItemLength
	case "type":
		return ItemType
	case "change":
		return ItemChange
	case "datetime":
		return ItemDatetime
	case "path":
		return ItemPath
	case "encoding":
		return ItemEncoding
	case "capability":
		return ItemCapability
	case "at":
		return ItemAt
	case "completed":
		return ItemCompleted
	case "from":
		return ItemFrom
	case "until":
		return ItemUntil
	case "modified":
		return ItemModified
	case "etag":
		return ItemETag
	}
	return 0
}
