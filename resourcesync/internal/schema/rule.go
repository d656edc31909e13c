package schema

// A Rule states which items documents of a kind must have at their root and in
// their entries, and which they may have in addition.
type Rule struct {
	RootMust, RootMay Item
	Must, May         Item
}

// Rule returns the rule for documents of kind k.
func (k Kind) Rule() Rule { return rules[k] }

// rules is the table of attributes by document.
var rules = [kinds]Rule{
	Unknown:          {0, anyItem, 0, anyItem},
	Description:      {0, LinkIndex | LinkDescribedBy, ItemCapability, ItemLastmod | LinkDescribedBy},
	DescriptionIndex: {0, LinkDescribedBy, 0, ItemLastmod | ItemCapability | LinkDescribedBy},
	CapabilityList:   {LinkUp, LinkDescribedBy, ItemCapability, ItemLastmod | LinkDescribedBy | LinkHub},
	ResourceList: {ItemAt | LinkUp, ItemCompleted | LinkIndex | LinkDescribedBy | LinkArchives,
		0, ItemLastmod | ItemChangeFreq | ItemContent | LinkDescribedBy | LinkRelated},
	ResourceListIndex: {ItemAt | LinkUp, ItemCompleted | LinkDescribedBy | LinkArchives,
		0, ItemLastmod | ItemAt | ItemCompleted},
	ResourceDump: {ItemAt | LinkUp, ItemCompleted | LinkIndex | LinkDescribedBy | LinkArchives,
		0, ItemLastmod | ItemAt | ItemCompleted | ItemContent | LinkContents},
	ResourceDumpIndex: {ItemAt | LinkUp, ItemCompleted | LinkDescribedBy | LinkArchives,
		0, ItemLastmod | ItemAt | ItemCompleted},
	ResourceManifest: {ItemAt | LinkUp, ItemCompleted | LinkDescribedBy,
		ItemPath, ItemLastmod | ItemChangeFreq | ItemContent | LinkDescribedBy | LinkRelated},
	ChangeList: {ItemFrom | LinkUp, ItemUntil | LinkIndex | LinkDescribedBy | LinkArchives,
		ItemChange, ItemDatetime | ItemLastmod | ItemChangeFreq | ItemContent | LinkDescribedBy | LinkRelated | LinkPatch},
	ChangeListIndex: {ItemFrom | LinkUp, ItemUntil | LinkDescribedBy | LinkArchives,
		0, ItemLastmod | ItemFrom | ItemUntil},
	ChangeDump: {ItemFrom | LinkUp, ItemUntil | LinkIndex | LinkDescribedBy | LinkArchives,
		0, ItemLastmod | ItemFrom | ItemUntil | ItemContent | LinkContents},
	ChangeDumpIndex: {ItemFrom | LinkUp, ItemUntil | LinkDescribedBy | LinkArchives,
		0, ItemLastmod | ItemFrom | ItemUntil},
	ChangeManifest: {ItemFrom | LinkUp, ItemUntil | LinkDescribedBy,
		ItemChange, ItemPath | ItemDatetime | ItemLastmod | ItemChangeFreq | ItemContent | LinkDescribedBy | LinkRelated | LinkPatch},
	ResourceArchive: {LinkUp, LinkIndex | LinkDescribedBy, 0, ItemLastmod | ItemAt | ItemCompleted},
	ChangeArchive:   {LinkUp, LinkIndex | LinkDescribedBy, 0, ItemLastmod | ItemFrom | ItemUntil},
	ArchiveIndex:    {LinkUp, LinkDescribedBy, 0, ItemLastmod},
	Notification: {LinkUp | ItemFrom | ItemUntil, LinkDescribedBy,
		ItemChange, ItemDatetime | ItemLastmod | ItemChangeFreq | ItemContent | LinkDescribedBy | LinkRelated | LinkPatch},
}
