package finding

import (
	"strings"
)

// A Rule is a requirement that can be observed from outside: one row of the
// table. A requirement that demands one thing and recommends another has two
// rows.
type Rule struct {
	ID     string `json:"id"`
	Level  Level  `json:"level"`
	Kinds  Kinds  `json:"-"`                // objects it applies to
	Words  string `json:"words"`            // the text of the rule
	Covers string `json:"covers,omitempty"` // further requirements that the same check covers

	// Section is the document and section that the rule follows from; of Advice,
	// what it is about.
	Section string `json:"section"`
}

// An Unseeable names requirements for a Source that have no rule, and states
// why.
type Unseeable struct {
	IDs []string
	Why string
}

// Unseen returns the requirements that cannot be checked from outside.
func Unseen() []Unseeable {
	list := make([]Unseeable, len(unseen))
	for i, u := range unseen {
		list[i] = Unseeable{strings.Fields(u.ids), u.why}
	}
	return list
}

// Rules returns the table, in the order of the standard's sections.
func Rules() []Rule {
	all := make([]Rule, len(rules))
	for i, r := range rules {
		all[i] = Rule{ID: r.id, Level: r.level, Kinds: r.kinds, Words: r.words, Covers: r.covers, Section: sections[row{r.id, r.level}]}
	}
	return all
}

var rules = [...]struct {
	id     string
	level  Level
	kinds  Kinds
	words  string
	covers string
}{
	// names and capabilities
	{"RS-GEN-01", Error, documents, "the root element is in the namespace of Sitemaps, and what ResourceSync adds in its own", "RS-GEN-02"},
	{"RS-GEN-04", Error, documents, "the root element and the capability are those the standard has for the document", "RS-SD-01 RS-CL-01"},
	{"RS-GEN-05", Error, documents, "an index has the capability of its parts; a urlset contains url elements, a sitemapindex sitemap elements", "RS-RLI-02 RS-CHI-03"},
	{"RS-GEN-06", Advice, documents, "a capability is one the standard knows", ""},

	// form
	{"RS-XML-01", Error, documents, "the document is well-formed XML in UTF-8", ""},
	{"RS-XML-01", Warning, documents, "the document begins with an XML declaration", ""},
	{"RS-XML-02", Error, documents, "URIs are percent-encoded", ""},
	{"RS-XML-03", Warning, documents, "loc, lastmod and changefreq are in the order of the Sitemap schema, without text between elements", ""},
	{"RS-XML-03", Advice, documents, "elements of ResourceSync follow those of Sitemaps, rs:md precedes rs:ln; metadata of the document precedes its entries", ""},
	{"RS-XML-04", Error, documents, "there is one rs:md at the root and at most one in an entry", ""},
	{"RS-XML-06", Error, documents, "attributes of ResourceSync have no prefix", ""},
	{"RS-XML-07", Error, documents, "attributes of a community are in a namespace of its own and have a prefix", ""},
	{"RS-XML-07", Warning, documents, "an element called url or sitemap is in the namespace of Sitemaps, and so is its loc; the namespaces of Sitemaps and of ResourceSync contain only elements that their specifications define", ""},
	{"RS-XML-08", Error, documents, "url and sitemap have no attributes", ""},
	{"RS-XML-09", Error, documents, "each entry has one loc: an absolute URI without white space around it", ""},
	{"RS-XML-10", Warning, documents, "a loc has 12 to 2048 characters", ""},
	{"RS-XML-12", Advice, documents, "no xsi:schemaLocation", ""},
	{"RS-XML-13", Error, documents, "a document needs no declarations of its own and stays within reasonable depth and size", ""},
	{"RS-XML-14", Error, documents, "changefreq is one of its seven words", ""},

	// datetimes, and what a document covers
	{"RS-DT-01", Error, documents, "a datetime has one of the forms of the W3C profile", ""},
	{"RS-DT-01", Warning, documents, "a datetime is written in full and in UTC", ""},
	{"RS-MD-01", Error, documents, "the document states its capability at the root", ""},
	{"RS-MD-04", Error, Intervals, "at and completed are in resource documents only", ""},
	{"RS-MD-05", Error, Snapshots | Archives, "completed is not before at", ""},
	{"RS-MD-08", Error, Snapshots, "from and until are in change documents only", ""},
	{"RS-MD-10", Error, Intervals | Archives, "until is not before from", ""},
	{"RS-MD-11", Advice, KindChangeDump, "packages cover consecutive intervals, so that each change is in exactly one", "RS-AMB-05"},
	{"RS-MD-12", Advice, documents, "an attribute is used only where the standard gives it a meaning", ""},
	{"RS-AMB-25", Advice, Intervals, "until is not in the future", ""},

	// metadata of entries
	{"RS-EM-01", Error, documents, "capability is in entries of Source Descriptions and Capability Lists only", ""},
	{"RS-EM-02", Error, documents, "change is created, updated or deleted, and is in change documents only", ""},
	{"RS-EM-03", Warning, documents, "only changes have datetime", ""},
	{"RS-EM-03", Advice, Events, "a change states by datetime when it happened", ""},
	{"RS-EM-04", Error, Events, "the datetime of a change is in the interval of its document", ""},
	{"RS-EM-06", Warning, AnyIndex, "lastmod of a part is up to date", "RA-IDX-02"},
	{"RS-EM-08", Warning, KindResource, "hash and length are not given where the representation is negotiated", ""},
	{"RS-HASH-01", Error, documents, "hash is a list of algorithm:digest", ""},
	{"RS-HASH-02", Warning, documents, "a digest is in hex and has the length of its algorithm", ""},
	{"RS-HASH-02", Advice, documents, "digests are of md5, sha-1, sha-256, sha-384, sha-512, include sha-256, and are in lower-case hex", ""},
	{"RS-HASH-05", Error, KindResource | KindPackage, "the hash is that of the bytes", ""},
	{"RS-LEN-01", Error, documents | KindResource | KindPackage, "length is the number of bytes", ""},
	{"RS-TYPE-01", Error, documents, "type is a media type", ""},
	{"RS-TYPE-01", Warning, KindResource, "type is that of the Content-Type header", ""},
	{"RS-ENC-01", Warning, documents | KindResource, "encoding is that of the Content-Encoding header", ""},
	{"RS-PATH-01", Error, documents, "path is in manifests only, begins with a slash and stays in the package", ""},
	{"RS-PRI-01", Error, documents, "pri is a number from 1 to 999999", ""},

	// links
	{"RS-LN-01", Error, documents, "a link has rel and, as an absolute URI, href", ""},
	{"RS-LN-02", Advice, documents, "a link at the root has rel, href and perhaps type, and nothing else", ""},
	{"RS-LN-03", Error, documents, "rel is a name or a URI", ""},
	{"RS-LN-03", Warning, documents, "rel is one relation, and a registered one is in lower case", ""},
	{"RS-LN-04", Error, documents, "a relation is registered or a URI", ""},
	{"RS-LN-04", Advice, documents, "a relation is used where the standard describes it", ""},

	// limits and indexes
	{"RS-IDX-01", Error, documents, "at most 50,000 entries and 50 MB in a document", "RS-RDM-06"},
	{"RS-IDX-02", Error, KindSource, "a Capability List names the index, not one of its parts", "RA-GEN-04"},
	{"RS-IDX-04", Error, KindSource | AnyIndex, "indexes are one level deep", "RA-IDX-07"},
	{"RS-IDX-05", Error, KindSource, "the link up of a part leads to the Capability List", ""},
	{"RS-IDX-05", Warning, KindSource, "a part links to its index", "RS-RL-03 RA-DOC-04"},
	{"RS-IDX-06", Error, KindSource, "the parts that an index names exist", "RA-IDX-01"},
	{"RS-IDX-10", Error, KindDescriptionIndex, "an index of Source Descriptions names Source Descriptions", ""},

	// Source Description
	{"RS-SD-02", Error, KindDescription | KindDescriptionIndex, "a Source Description has no times", ""},
	{"RS-SD-02", Advice, KindDescription | KindDescriptionIndex, "a Source Description has no link up", ""},
	{"RS-SD-03", Warning, KindDescription, "a Source Description links to information about the Source", ""},
	{"RS-SD-04", Advice, KindDescription, "each Capability List has one entry", ""},
	{"RS-SD-05", Error, KindSource, "an entry of a Source Description names an existing Capability List", ""},
	{"RS-SD-06", Error, KindDescription, "an entry of a Source Description has no other capability than capabilitylist", ""},
	{"RS-SD-06", Warning, KindDescription, "an entry of a Source Description has capability capabilitylist", ""},
	{"RS-SD-07", Warning, KindDescription, "an entry of a Source Description links to information about the set", ""},
	{"RS-SD-08", Warning, KindSource, "lastmod in a Source Description is not older than the Capability List", ""},
	{"RS-SD-09", Warning, KindSource, "the Source Description is at /.well-known/resourcesync of the origin", "RS-DISC-01 RS-DISC-02"},

	// Capability List
	{"RS-CL-02", Error, KindCapabilityList, "a Capability List has one entry for a capability", "RA-ADV-01 RN-CH-08"},
	{"RS-CL-03", Error, KindSource, "all documents of a Capability List cover the same resources", "RS-SET-02 RS-RL-08 RS-RD-07 RS-DST-26"},
	{"RS-CL-04", Error, KindCapabilityList | KindSource, "the link up of a Capability List leads to the Source Description, which names it", ""},
	{"RS-CL-04", Warning, KindCapabilityList | KindSource, "a Capability List has a link up", ""},
	{"RS-CL-05", Warning, KindCapabilityList, "a Capability List links to information about the set", ""},
	{"RS-CL-06", Error, KindCapabilityList | KindSource, "an entry of a Capability List names an existing document with the entry's capability", "RS-CL-11 RS-AMB-21"},
	{"RS-CL-07", Warning, KindSource, "lastmod in a Capability List is not older than the document", ""},
	{"RS-CL-08", Warning, KindCapabilityList, "there is no index of Capability Lists", "RS-IDX-09"},
	{"RS-CL-09", Error, KindCapabilityList, "a Capability List has no times", ""},
	{"RS-CL-12", Advice, KindCapabilityList, "a Capability List names no manifest, Capability List or Source Description", ""},
	{"RN-CH-07", Error, KindCapabilityList, "an entry for change-notification links to its hub", ""},

	// Resource List and its index
	{"RS-RL-01", Error, KindResourceList, "a Resource List has at", ""},
	{"RS-RL-02", Error, KindResourceList | KindSource, "a Resource List links up to the Capability List", ""},
	{"RS-RL-02", Warning, KindResourceList | KindSource, "a Resource List has a link up", ""},
	{"RS-RL-04", Error, KindResourceList | KindSource, "a URI is listed once, in all parts together", "RS-AMB-19"},
	{"RS-RL-06", Error, KindResourceList, "an entry of a Resource List has no times of a snapshot", ""},
	{"RS-RL-07", Error, KindResourceList, "an entry of a Resource List has no change, datetime, path, from, until, capability or patch", ""},
	{"RS-RL-08", Error, KindResource, "a listed resource exists", ""},
	{"RS-RLI-01", Error, KindResourceListIndex | KindSource, "a Resource List Index has at and links up to the Capability List", ""},
	{"RS-RLI-01", Warning, KindResourceListIndex | KindSource, "a Resource List Index has a link up", ""},
	{"RS-RLI-02", Error, KindResourceListIndex, "a Resource List Index names each part once", ""},
	{"RS-RLI-03", Advice, KindResourceListIndex | KindSource, "at and completed of the parts are within those of the index, and its entries repeat them", ""},

	// Resource Dump, its index and manifest
	{"RS-RD-01", Error, KindResourceDump | KindSource, "a Resource Dump has at and links up to the Capability List", ""},
	{"RS-RD-01", Warning, KindResourceDump | KindSource, "a Resource Dump has a link up", ""},
	{"RS-RD-02", Error, KindResourceDump | KindSource, "a Resource Dump names each package once, and it exists", ""},
	{"RS-RD-03", Warning, KindResourceDump | KindSource, "an entry for a package has type and length, and the times of its manifest", ""},
	{"RS-RD-04", Error, KindSource, "the target of contents is equal to the manifest in the package", ""},
	{"RS-RD-05", Warning, KindResourceDump | KindChangeDump, "packages are ZIP files", "RS-CD-05"},
	{"RS-RD-07", Error, KindResourceDumpManifest | KindSource, "a resource is in one package of a Resource Dump, once", ""},
	{"RS-RD-08", Error, KindResourceDump, "an entry for a package has no from, until, change, datetime, path or capability", ""},
	{"RS-RDI-01", Error, KindResourceDumpIndex | KindSource, "a Resource Dump Index has at, names each part once, and its link up leads to the Capability List", ""},
	{"RS-RDI-01", Advice, KindResourceDumpIndex | KindSource, "times of parts are within those of a Resource Dump Index, and its entries repeat them", ""},
	{"RS-RDI-01", Warning, KindResourceDumpIndex | KindSource, "a Resource Dump Index has a link up", ""},
	{"RS-RDM-01", Error, KindResourceDumpManifest | KindSource, "a Resource Dump Manifest has at and links up to the Capability List", "RS-AMB-18"},
	{"RS-RDM-01", Warning, KindResourceDumpManifest | KindSource, "a Resource Dump Manifest has a link up", ""},
	{"RS-RDM-03", Error, KindResourceDumpManifest, "an entry of a Resource Dump Manifest has a path, and no patch", ""},
	{"RS-RDM-03", Advice, KindResourceDumpManifest, "each entry of a Resource Dump Manifest has a path of its own", ""},
	{"RS-RDM-03", Warning, KindResourceDumpManifest, "an entry of a Resource Dump Manifest has a type", ""},
	{"RS-RDM-04", Error, KindResourceDumpManifest, "an entry of a Resource Dump Manifest has no change, datetime or times", ""},

	// Change List and its index
	{"RS-CHL-01", Error, KindChangeList | KindSource, "a Change List has from and links up to the Capability List", ""},
	{"RS-CHL-01", Warning, KindChangeList | KindSource, "a Change List has a link up", ""},
	{"RS-CHL-03", Error, KindChangeList, "changes are listed oldest first", "RS-CHL-11"},
	{"RS-CHL-04", Error, KindChangeList, "an entry of a Change List states its change", "RS-CHL-02"},
	{"RS-CHL-05", Error, KindSource, "a Change List has every change of its interval", "RS-MD-06 RS-MD-07"},
	{"RS-CHL-07", Advice, KindChangeList | KindSource, "no two changes of one resource have the same datetime", ""},
	{"RS-CHL-08", Advice, KindChangeList | KindChangeDumpManifest, "a deletion has no hash, length, type, encoding, path or lastmod", ""},
	{"RS-CHL-09", Error, KindChangeList, "an entry of a Change List has no path, no times of a document and no capability", ""},
	{"RS-CHL-10", Advice, KindSource, "the Change List reaches back to the moment of the Resource List, so that a client that has read that can continue", "RS-RLI-04"},
	{"RS-CHI-01", Error, KindChangeListIndex | KindSource, "a Change List Index has from and links up to the Capability List", ""},
	{"RS-CHI-01", Warning, KindChangeListIndex | KindSource, "a Change List Index has a link up", ""},
	{"RS-CHI-02", Error, KindChangeListIndex, "parts are named oldest first", ""},
	{"RS-CHI-03", Error, KindChangeListIndex, "a Change List Index names each part once", ""},
	{"RS-CHI-03", Warning, KindChangeListIndex, "an entry for a part has from", ""},
	{"RS-CHI-04", Error, KindSource, "the entry for a part has until if, and only if, the part is closed", "RS-CHI-10"},
	{"RS-CHI-05", Advice, KindChangeListIndex | KindSource, "at most one part is open, the last; intervals follow each other without gap, within that of the index", ""},

	// Change Dump, its index and manifest
	{"RS-CD-01", Error, KindChangeDump | KindSource, "a Change Dump has from and links up to the Capability List", ""},
	{"RS-CD-01", Warning, KindChangeDump | KindSource, "a Change Dump has a link up", ""},
	{"RS-CD-02", Error, KindChangeDump | KindSource, "a Change Dump names each package once, and it exists", ""},
	{"RS-CD-02", Warning, KindChangeDump | KindSource, "an entry for a package has type, length and from, and the times of its manifest", ""},
	{"RS-CD-03", Warning, KindChangeDump, "packages are named oldest first", ""},
	{"RS-CD-04", Error, KindSource, "the target of contents is equal to the manifest in the package", ""},
	{"RS-CD-06", Advice, KindChangeDump, "an entry for a package has until", ""},
	{"RS-CDI-01", Error, KindChangeDumpIndex | KindSource, "a Change Dump Index has from, names each part once and in order, and states which are closed; its link up leads to the Capability List", ""},
	{"RS-CDI-01", Advice, KindChangeDumpIndex | KindSource, "parts of a Change Dump Index follow each other without gap, at most the last is open", ""},
	{"RS-CDI-01", Warning, KindChangeDumpIndex, "a Change Dump Index has a link up, and an entry for a part has from", ""},
	{"RS-CDM-01", Error, KindChangeDumpManifest | KindSource, "a Change Dump Manifest has from and links up to the Capability List", ""},
	{"RS-CDM-01", Warning, KindChangeDumpManifest | KindSource, "a Change Dump Manifest has a link up", ""},
	{"RS-CDM-01", Advice, KindChangeDumpManifest, "a Change Dump Manifest has until", "RS-AMB-08"},
	{"RS-CDM-02", Error, KindSource, "the manifests of a Change Dump have every change of their intervals", "RS-CD-07"},
	{"RS-CDM-03", Error, KindChangeDumpManifest, "changes are listed oldest first", ""},
	{"RS-CDM-04", Error, KindChangeDumpManifest, "an entry of a Change Dump Manifest states its change and, unless deleted, has a path", ""},
	{"RS-CDM-04", Warning, KindChangeDumpManifest, "an entry of a Change Dump Manifest has a type and, beside a patch, the path of the whole, unless deleted", ""},
	{"RS-CDM-05", Advice, KindChangeDumpManifest, "each change has a path of its own", ""},
	{"RS-CDM-06", Error, KindChangeDumpManifest, "a patch in a manifest has a path", ""},

	// packages
	{"RS-ZIP-01", Error, KindPackage, "manifest.xml is at the root of the package", "RS-RDM-02"},
	{"RS-ZIP-01", Advice, KindPackage, "manifest.xml is the first file in the package", ""},
	{"RS-ZIP-02", Error, KindPackage, "a path is a slash and the name of a file in the package", "RS-ZIP-05"},
	{"RS-ZIP-02", Advice, KindPackage, "names in a package begin with no slash", ""},
	{"RS-ZIP-03", Error, KindPackage, "a package can be unpacked", "RS-ZIP-06"},
	{"RS-ZIP-03", Advice, KindPackage, "names in a package are UTF-8, closed, plain and different; files are stored or deflated and not encrypted", ""},
	{"RS-ZIP-04", Error, KindPackage, "a path is that of a file in the package", "RS-ZIP-08"},
	{"RS-ZIP-04", Advice, KindPackage, "the files in the package are those the manifest names", ""},
	{"RS-ZIP-06", Advice, KindPackage, "the files that are compared can be unpacked within the limits of a run: 200 times what is read of packages, and 1 GiB", ""},

	// related resources
	{"RS-REL-11", Warning, resources, "a link to a mirror repeats no hash, length, type or encoding", ""},
	{"RS-REL-20", Warning, resources, "a link to an alternate representation has a type", "RS-REL-21"},
	{"RS-REL-22", Warning, resources, "there is at most one canonical link", ""},
	{"RS-REL-30", Error, resources, "patches are in change documents", ""},
	{"RS-REL-30", Advice, Events, "patches are on updates", ""},
	{"RS-REL-31", Error, Events, "a link to a patch has a type", ""},
	{"RS-REL-32", Advice, Events, "a patch has none of the media types that the standard prints by mistake", "RS-AMB-12"},
	{"RS-REL-33", Advice, Events, "hash and length are given of the patch and of the whole new version", ""},
	{"RS-REL-51", Warning, resources, "there is at most one memento link, and its hash, length and type are not others than the entry's", ""},
	{"RS-REL-52", Warning, resources, "a timegate link has href only", ""},
	{"RS-REL-53", Advice, resources, "a timemap link has a type", ""},
	{"RS-REL-71", Warning, resources, "there is at most one via link", ""},

	// discovery and transport
	{"RS-DISC-04", Warning, KindResource, "a Link header resourcesync leads to a Capability List", ""},
	{"RS-DISC-07", Warning, KindSource, "robots.txt names Sitemaps by their absolute URIs", ""},
	{"RS-DISC-07", Advice, KindSource, "if there is a robots.txt, it names the Resource List", ""},
	{"RS-DISC-13", Advice, KindSource, "documents are served as application/xml", ""},
	{"RS-SMC-01", Warning, KindSource, "robots.txt names no other documents of ResourceSync", "RA-ADV-05"},
	{"RS-HTTP-01", Warning, KindSource | KindResource, "responses have ETag and Last-Modified", ""},

	// archives
	{"RA-GEN-03", Error, KindSource, "an archive names documents of its own kind, or indexes of them", "RA-GEN-07"},
	{"RA-GEN-09", Error, KindSource, "an archived document exists, and so do the documents it names", "RA-GEN-08"},
	{"RA-GEN-10", Advice, KindSource, "archived changes are closed", ""},
	{"RA-GEN-12", Advice, KindSource, "an archived document links to its archive", ""},
	{"RA-ADV-03", Error, KindSource, "the link archives leads to the archive of the document's own kind", ""},
	{"RA-ADV-06", Advice, documents, "links to archives are in lists, dumps and their indexes only", ""},
	{"RA-DOC-02", Advice, Archives, "an archive has no times at its root", ""},
	{"RA-DOC-03", Error, Archives | KindSource, "an archive links up to the Capability List", ""},
	{"RA-DOC-03", Warning, Archives | KindSource, "an archive has a link up", ""},
	{"RA-DOC-07", Advice, KindArchive, "an entry for a list or dump of resources has at, one for changes from and until", "RA-RES-01 RA-CHG-01"},
	{"RA-DOC-08", Advice, Archives, "an entry of an archive has the times of the archived document and nothing else", "RA-RES-02 RA-CHG-02 RA-IDX-03"},
	{"RA-DOC-09", Advice, Archives | KindSource, "a document is archived once", "RA-DOC-05"},
	{"RA-DOC-10", Advice, KindSource, "an entry of an archive has the times of the document", ""},
	{"RA-RES-03", Advice, KindArchive, "archived snapshots are listed oldest first", ""},
	{"RA-CHG-03", Error, KindArchive | KindSource, "archived changes are listed oldest first", ""},
	{"RA-CHG-04", Advice, KindArchive, "archived changes join without gap or overlap", ""},
	{"RA-CHG-09", Advice, KindSource, "the archive of changes reaches to the beginning of the Change List", ""},

	// notifications
	{"RN-PL-02", Error, KindNotification, "a notification has from and until", ""},
	{"RN-PL-03", Advice, KindNotification, "a notification links up to the Capability List", ""},
	{"RN-PL-04", Error, KindNotification, "changes are listed oldest first", ""},
	{"RN-PL-05", Error, KindNotification, "an entry of a notification states its change", ""},

	// feeds: documents
	{"AP-GEN-03", Error, KindSource, "the feed that a Capability List links to exists", ""},
	{"AP-DOC-01", Error, KindFeed, "a feed document is well-formed XML and a feed according to RFC 4287", ""},
	{"AP-DOC-02", Error, KindFeed, "a feed has one id, title and updated", ""},
	{"AP-DOC-02", Warning, KindFeed, "a feed, or each of its entries, has an author", ""},
	{"AP-DOC-03", Warning, KindFeed, "a feed document links to itself, by its own address", ""},
	{"AP-DOC-04", Advice, KindFeeds, "all documents of a feed have the same id", ""},
	{"AP-DOC-05", Error, KindFeed, "an entry has one id, title and updated", ""},
	{"AP-DOC-06", Warning, KindFeed, "entries of one record in one document have different times", ""},
	{"AP-DOC-07", Warning, KindFeed, "no two alternate links of an entry have the same type and language", ""},
	{"AP-DOC-08", Error, KindFeed, "times are those of RFC 3339, with an upper-case T, and Z or an offset", ""},
	{"AP-DOC-09", Error, KindFeed, "an id is an absolute IRI", ""},
	{"AP-DOC-11", Error, KindFeed, "a feed document needs no declarations of its own; a coding is named in the header", ""},
	{"AP-DOC-11", Warning, KindFeed, "a feed document is served as XML", ""},
	{"AP-DOC-11", Advice, KindFeed | KindFeeds, "a feed document is in UTF-8 and served as application/atom+xml", ""},

	// feeds: times and the chain of documents
	{"AP-TS-01", Error, KindFeed, "(I1) no entry is later than its document", ""},
	{"AP-TS-02", Error, KindFeeds, "(I2) prev-archive leads to a feed document, without a cycle", ""},
	{"AP-TS-03", Error, KindFeeds, "(I3) no document is later than an entry of the one whose prev-archive leads to it", "AP-TS-04"},
	{"AP-TS-05", Error, KindFeeds, "prev-archive leads from the subscription document to all archive documents", ""},
	{"AP-TS-06", Warning, KindFeeds, "an archive document has fh:archive and the link current; next-archive leads to the archive document after it", ""},
	{"AP-TS-07", Warning, KindFeeds, "an archive document has the same entries at each request", "AP-HIS-04"},
	{"AP-TS-10", Error, KindFeed, "the chain is not made of the links of paged feeds", ""},
	{"AP-TS-11", Advice, KindFeed, "no entry has a time in the future", ""},
	{"AP-TS-12", Advice, KindFeeds, "a feed is not cut between entries of one time", ""},
	{"AP-TS-13", Advice, KindFeed | KindFeeds, "a document is of the time of its newest entry or, if it is empty, of the archive before it", ""},

	// feeds: entries
	{"AP-ACT-01", Error, KindFeeds, "there is one active entry for a record", ""},
	{"AP-ACT-03", Warning, KindFeeds, "an active entry is later than all historical entries of the record", ""},
	{"AP-ACT-04", Error, KindFeed, "an entry with an alternate link has no content", "AP-HIS-02"},
	{"AP-ACT-05", Error, KindFeed | KindResource, "an entry that is not a deletion entry has an alternate link, with the type of its target", "AP-HIS-02"},
	{"AP-ACT-06", Error, KindResource, "the targets of the alternate links of active entries exist", ""},
	{"AP-DEL-02", Warning, KindFeed, "a feed with deletion entries is not marked as complete", ""},
	{"AP-DEL-04", Warning, KindFeeds, "a deletion entry is later than all other entries of the record", ""},
	{"AP-DEL-05", Error, KindFeed, "a deletion entry has no alternate link", ""},
	{"AP-DEL-06", Error, KindFeed, "a deletion entry has empty content without src", ""},
	{"AP-CLS-05", Advice, KindFeed, "deletions are expressed by entries, not by tombstones", ""},
	{"AP-CMP-01", Warning, KindFeed, "a complete feed is marked by fh:complete, in this spelling", ""},
	{"AP-CMP-02", Error, KindFeeds, "a document marked as complete has all active entries", "AP-DEL-03"},
	{"AP-CMP-03", Advice, KindFeeds, "a document marked as complete is the only one", ""},

	// feeds: transport
	{"AP-HTTP-01", Warning, KindFeeds | KindResource, "feed documents and representations are served with ETag and Last-Modified", ""},
	{"AP-HTTP-02", Error, KindFeeds, "a conditional request for an unchanged feed document is answered 304, one for a changed document with the document", ""},
	{"AP-HTTP-03", Warning, KindFeeds, "a request with If-Modified-Since equal to Last-Modified is answered 304", ""},

	// OAI-PMH 2.0
	{"OAI-XML-01", Error, KindRepository, "a response is well-formed XML whose root is OAI-PMH (3.2)", ""},
	{"OAI-XML-02", Error, KindRepository, "responses are served as text/xml (3.1.2.1)", ""},
	{"OAI-RSP-01", Error, KindRepository, "a response has responseDate, request, and then the requested elements or defined errors (3.2, 3.6)", ""},
	{"OAI-RSP-02", Error, KindRepository, "a response names the base URL and repeats the arguments of the request, unless that was bad (3.2)", ""},
	{"OAI-DAT-01", Error, KindRepository, "times are in UTC and in one of two forms, datestamps in that stated by Identify (3.3)", ""},
	{"OAI-IDF-01", Error, KindRepository, "Identify has all mandatory elements (4.2)", ""},
	{"OAI-IDF-02", Warning, KindRepository, "the base URL in Identify is the address of the repository (4.2)", ""},
	{"OAI-IDF-03", Error, KindRepository, "no record is older than the earliest datestamp (4.2)", ""},
	{"OAI-FMT-01", Error, KindRepository, "formats have prefix, schema and namespace, and oai_dc is among them (3.4, 4.4)", ""},
	{"OAI-SET-01", Error, KindRepository, "sets have setSpec and setName, or there are none (2.6, 4.6)", ""},
	{"OAI-REC-01", Error, KindRepository, "a record has identifier, datestamp and, unless it is deleted, metadata of one root (2.5)", ""},
	{"OAI-REC-02", Error, KindRepository, "deleted records are listed only if Identify announces them (2.5.1)", ""},
	{"OAI-TOK-01", Error, KindRepository, "a resumption token leads to the rest of the list, whose last response has an empty one (3.5)", ""},
	{"OAI-GET-01", Error, KindRepository, "a listed record can be requested individually (4.1)", ""},
	{"OAI-SEL-01", Error, KindRepository, "from and until are inclusive (2.7.1)", ""},
	{"OAI-ERR-01", Error, KindRepository, "a verb that does not exist is badVerb (3.6)", ""},
	{"OAI-ERR-02", Error, KindRepository, "an argument that is missing is badArgument (3.6)", ""},
	{"OAI-ERR-03", Error, KindRepository, "a format that does not exist is cannotDisseminateFormat (3.6)", ""},
	{"OAI-ERR-04", Error, KindRepository, "an identifier that does not exist is idDoesNotExist (3.6)", ""},
	{"OAI-ERR-05", Error, KindRepository, "a resumption token that does not exist is badResumptionToken (3.6)", ""},
	{"OAI-ERR-06", Error, KindRepository, "a list without records is noRecordsMatch (3.6)", ""},
}

// unseen states why requirements for a Source have no rule.
var unseen = [...]struct{ ids, why string }{
	{"RS-GEN-03 RS-GEN-07 RS-XML-11 RS-XML-15 RS-RL-09 RS-RL-11 RS-CHI-07 RS-REL-01 RS-REL-10 RS-REL-37 RS-REL-40 RS-REL-60 RS-DISC-03",
		"it permits something, or defines a term"},
	{"RS-MD-02 RS-MD-03 RS-EM-05 RS-EM-07 RS-HASH-07 RS-LN-06 RS-REL-50",
		"it defines the meaning of a value; consequences are checked where values are compared"},
	{"RS-DT-06 RS-DT-07 RS-MD-09 RS-CHL-06 RS-RL-13 RS-CHI-06",
		"it is visible only to a client that has seen the earlier state: validate twice, or mirror the Source"},
	{"RS-SET-01 RS-CHL-17 RS-RDM-05 RS-REL-42 RS-REL-70 RS-REL-73 RS-REL-74 RS-SMC-02",
		"it is about the meaning of resources, which documents do not show"},
	{"RS-IDX-08 RS-VER-20 RS-AMB-23 AP-DOC-13 AP-TS-08 AP-ACT-07 AP-HIS-01 AP-HIS-03", "it is a choice of the writer"},
	{"AP-TS-09 AP-DEL-01 AP-DEL-07 AP-DEL-08", "it is visible only to a client that has seen the earlier state: validate twice, or harvest the feed"},
	{"AP-GEN-04 AP-ACT-02", "it is about the meaning of records, which feeds do not show"},
	{"AP-HTTP-04 AP-HTTP-09", "it requires kinds of requests that `validate` does not send"},
}
