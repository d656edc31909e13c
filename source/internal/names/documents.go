package names

import (
	"encoding/hex"
	"fmt"
	"path"
	"regexp"
	"strconv"
	"strings"
	"time"

	"lockstep/resourcesync"
)

// The names of documents that exist once, and the directories of the others. A
// document's name is its blob's name and, below the base URL, its address.
const (
	WellKnown    = ".well-known/resourcesync" // Source Description (RS-SD-09)
	Robots       = "robots.txt"
	Hint         = DocumentsDir + "index.html" // the page that points to the Capability Lists
	Home         = ""                          // the page at the base URL itself
	Health       = "-/healthz"                 // says that the process answers
	DocumentsDir = "resourcesync/"
	pagesDir     = "-/"         // pages about the Source, for people and monitors
	PrivateDir   = ".lockstep/" // state; never served
	GzipSuffix   = ".gz"        // of a document's compressed variant
	FeedSuffix   = ".atom"      // of an archive of a feed
)

// The entry documents of a set.
func CapabilityList(set string) string { return DocumentsDir + set + "/capabilitylist.xml" }
func ResourceList(set string) string   { return DocumentsDir + set + "/resourcelist.xml" }
func ChangeList(set string) string     { return DocumentsDir + set + "/changelist.xml" }
func ResourceDump(set string) string   { return DocumentsDir + set + "/resourcedump.xml" }
func ChangeDump(set string) string     { return DocumentsDir + set + "/changedump.xml" }

// FeedFile is the name of the subscription document within the directory of its
// set.
const FeedFile = "atom.xml"

// Feed names the subscription document of a set's Atom-PMH feed.
func Feed(set string) string { return DocumentsDir + set + "/" + FeedFile }

// FeedPrefix is the start of the names of a feed's archives.
func FeedPrefix(set string) string { return DocumentsDir + set + "/feed-" }

// FeedArchive names an archive of a feed. A chain never reuses a number: the
// bytes of a name never change.
func FeedArchive(set, chain string, number int) string {
	return fmt.Sprintf("%s%s-%06d%s", FeedPrefix(set), chain, number, FeedSuffix)
}

// FeedChain matches the identifiers of chains of archives, see Generation.
var FeedChain = regexp.MustCompile(`^[0-9]{8}T[0-9]{6}\.[0-9]{7}Z(\.[0-9]+)?$`)

// feedArchive matches the names of archives within a set's directory.
var feedArchive = regexp.MustCompile(`^feed-([0-9]{8}T[0-9]{6}\.[0-9]{7}Z(?:\.[0-9]+)?)-[0-9]{6,}\.atom$`)

// FeedArchiveChain returns the chain of the archive called name; "" if name is
// not an archive of the set.
func FeedArchiveChain(set, name string) string {
	rest, ok := strings.CutPrefix(name, DocumentsDir+set+"/")
	m := feedArchive.FindStringSubmatch(rest)
	if !ok || m == nil {
		return ""
	}
	return m[1]
}

// FeedState names the stored state of a set's feed.
func FeedState(set string) string { return PrivateDir + "atom/" + set + ".json" }

// FeedGroup names a part of the stored groups of a chain: the resources that
// belong together.
func FeedGroup(set, chain string, part int) string {
	return fmt.Sprintf("%s%s-%03x.json", FeedGroupPrefix(set), chain, part)
}

// FeedGroupPrefix is the start of the names of a set's groups.
func FeedGroupPrefix(set string) string { return PrivateDir + "atomgroups/" + set + "/" }

// State names the stored state of a set's documents.
func State(set string) string { return PrivateDir + set + ".json" }

// Tail names the part of that state that changes most often.
func Tail(set string) string { return PrivateDir + set + ".tail.json" }

// StampLayout formats an instant so that names sort by it. Names of parts
// contain instants instead of counters: a catalog that was lost and filled
// again counts from 1, and readers of the old parts must not meet the new ones.
const StampLayout = "20060102T150405.0000000Z"

// ResourceListPart names a part of the generation gen, see Generation.
func ResourceListPart(set, gen string, part int) string {
	return fmt.Sprintf("%s%s/resourcelist-%s-%05d.xml", DocumentsDir, set, gen, part)
}

// ChangeListPart names the part whose interval begins at from. It grows until it
// is closed. Further parts that begin at the same instant with other bytes have
// numbers from 2.
func ChangeListPart(set string, from time.Time, number int) string {
	stamp := from.UTC().Format(StampLayout)
	if number > 1 {
		stamp = fmt.Sprintf("%s.%d", stamp, number)
	}
	return DocumentsDir + set + "/changelist-" + stamp + ".xml"
}

// DescriptionPart names a part of an index of Source Descriptions.
func DescriptionPart(sum []byte) string {
	return DocumentsDir + DescriptionPrefix + hex.EncodeToString(sum) + ".xml"
}

// DumpState is where the state of a set's dumps is kept.
func DumpState(set string) string { return PrivateDir + set + ".dumps.json" }

// ResourceDumpPrefix is the start of all names of the generation gen.
func ResourceDumpPrefix(set, gen string) string {
	return DocumentsDir + set + "/resourcedump-" + gen + "-"
}

// ResourceDumpPackage names a package of the generation gen; its manifest's
// copy has the same name with another extension, see Manifest.
func ResourceDumpPackage(set, gen string, part int) string {
	return fmt.Sprintf("%s%05d.zip", ResourceDumpPrefix(set, gen), part)
}

// ResourceDumpList names a part of the index of the generation gen.
func ResourceDumpList(set, gen string, part int) string {
	return fmt.Sprintf("%slist-%05d.xml", ResourceDumpPrefix(set, gen), part)
}

// ChangeDumpPackage names the package whose interval begins at from.
func ChangeDumpPackage(set string, from time.Time) string {
	return DocumentsDir + set + "/changedump-" + from.UTC().Format(StampLayout) + ".zip"
}

// ChangeDumpList names the part of a Change Dump's index whose interval
// begins at from. It grows until it is closed.
func ChangeDumpList(set string, from time.Time) string {
	return DocumentsDir + set + "/changedump-list-" + from.UTC().Format(StampLayout) + ".xml"
}

// ResourceListCopy names the copy of the Resource List of the generation gen
// that its archive lists. The entry document has the same bytes while it is the
// newest.
func ResourceListCopy(set, gen string) string {
	return DocumentsDir + set + "/resourcelist-" + gen + ".xml"
}

// CopyOfPart returns the name of the copy to which a part of a Resource List
// belongs.
func CopyOfPart(name string) string {
	if i := strings.LastIndexByte(name, '-'); i >= 0 {
		return name[:i] + ".xml"
	}
	return name
}

// ResourceDumpCopy names the copy of the Resource Dump of the generation gen that
// its archive lists.
func ResourceDumpCopy(set, gen string) string {
	return DocumentsDir + set + "/resourcedump-" + gen + ".xml"
}

// Archive names the archive of documents that have the capability, or the index
// of its parts.
func Archive(set string, c resourcesync.Capability) string {
	return DocumentsDir + set + "/" + string(ArchiveOf(c)) + ".xml"
}

// ArchivePart names a part of an archive.
func ArchivePart(set string, c resourcesync.Capability, number int) string {
	return fmt.Sprintf("%s%s/%s-%05d.xml", DocumentsDir, set, ArchiveOf(c), number)
}

// ArchivePartNumber returns the number of the part called name; 0 if name is not
// a part of the archive.
func ArchivePartNumber(set string, c resourcesync.Capability, name string) int {
	digits := strings.TrimSuffix(strings.TrimPrefix(name, DocumentsDir+set+"/"+string(ArchiveOf(c))+"-"), ".xml")
	if n, err := strconv.Atoi(digits); err == nil && n > 0 && ArchivePart(set, c, n) == name {
		return n
	}
	return 0
}

// archivedName matches the documents that archives list.
var archivedName = regexp.MustCompile(`^(resourcelist|changelist|resourcedump|changedump-list)-[0-9]{8}T[0-9]{6}\.[0-9]{7}Z(\.[0-9]+)?\.xml$`)

// IsArchived reports whether the archive of documents with the capability can
// list name.
func IsArchived(set string, c resourcesync.Capability, name string) bool {
	rest, ok := strings.CutPrefix(name, DocumentsDir+set+"/")
	m := archivedName.FindStringSubmatch(rest)
	return ok && m != nil && strings.TrimSuffix(m[1], "-list") == string(c)
}

// ArchiveState names the stored content of the archives of a set's lists, or of
// its dumps.
func ArchiveState(set string, dumps bool) string {
	if dumps {
		set += ".dumps" // no set is called so
	}
	return PrivateDir + "archives/" + set + ".json"
}

// Manifest names the copy of a package's manifest.
func Manifest(pkg string) string { return strings.TrimSuffix(pkg, PackageSuffix) + ".xml" }

// Numbered returns name with a number before its extension, for a name that is
// taken.
func Numbered(name string, n int) string {
	ext := path.Ext(name)
	return fmt.Sprintf("%s.%d%s", strings.TrimSuffix(name, ext), n, ext)
}

const PackageSuffix = ".zip"

// IsPackage reports whether name is a package that may be served.
func IsPackage(name string) bool {
	return strings.HasPrefix(name, DocumentsDir) && strings.HasSuffix(name, PackageSuffix) && Immutable(name)
}

// dumpPart matches the files of dumps except their entry documents.
var dumpPart = regexp.MustCompile(`^((resourcedump-[0-9]{8}T[0-9]{6}\.[0-9]{7}Z(\.[0-9]+)?(-list)?-[0-9]{5,}|changedump(-list)?-[0-9]{8}T[0-9]{6}\.[0-9]{7}Z(\.[0-9]+)?)\.(zip|xml)|` +
	`(resourcedump-[0-9]{8}T[0-9]{6}\.[0-9]{7}Z(\.[0-9]+)?|(resourcedump|changedump)-archive-[0-9]{5,})\.xml)$`)

// IsDumpPart reports whether name is a package, a manifest's copy or a part of an
// index of dumps, of any generation.
func IsDumpPart(set, name string) bool {
	rest, ok := strings.CutPrefix(name, DocumentsDir+set+"/")
	return ok && dumpPart.MatchString(rest)
}

// Demand is the address at which clients request packages on demand.
func Demand(set string) string { return DocumentsDir + set + "/dump" }

// Topic is the topic of a set's notifications (RN-CH-03), and the name of the
// page or event stream at that address.
func Topic(set string) string { return DocumentsDir + set + "/changes" }

// IsTopic reports whether name is the topic of any set.
func IsTopic(name string) bool {
	rest, ok := strings.CutPrefix(name, DocumentsDir)
	set, rest, _ := strings.Cut(rest, "/")
	return ok && rest == "changes" && setName.MatchString(set)
}

// NotifyState names the stored progress of a set's notifications.
func NotifyState(set string) string { return PrivateDir + set + ".notify.json" }

// PatchTypes maps the media types of patches to the extensions of their names.
var PatchTypes = map[string]string{
	"application/json-patch+json":  ".json",
	"application/vnd.lockstep.dcz": ".dcz",
}

// PatchDir is the directory of a set's patches, which has a subdirectory for
// each day.
func PatchDir(set string) string { return DocumentsDir + set + "/patches/" }

// patchLayout formats an instant as a day and a time of day.
const patchLayout = "20060102/T150405.0000000Z"

// Patch names a patch published at now; unique distinguishes it from others of
// that instant. The time of the change that will link to it is not yet known.
func Patch(set, mediaType string, now time.Time, unique string) (name string, ok bool) {
	ext, ok := PatchTypes[mediaType]
	return PatchDir(set) + now.UTC().Format(patchLayout) + "-" + unique + ext, ok
}

// patchFile matches the names of patches within PatchDir.
var patchFile = regexp.MustCompile(`^([0-9]{8}/T[0-9]{6}\.[0-9]{7}Z)-[0-9a-f]+(\.json|\.dcz)$`)

// ParsePatch returns the time at which the patch called name was published.
func ParsePatch(set, name string) (at time.Time, ok bool) {
	rest, ok := strings.CutPrefix(name, PatchDir(set))
	m := patchFile.FindStringSubmatch(rest)
	if !ok || m == nil {
		return time.Time{}, false
	}
	at, err := time.Parse(patchLayout, m[1])
	return at, err == nil
}

// IsPatch reports whether name is a patch of any set.
func IsPatch(name string) bool {
	rest, ok := strings.CutPrefix(name, DocumentsDir)
	set, _, _ := strings.Cut(rest, "/")
	_, named := ParsePatch(set, name)
	return ok && named
}

// Generation identifies a Resource List by the instant of its snapshot. A suffix
// distinguishes it from earlier ones of the same instant, in case the clock
// stalls.
func Generation(set string, at time.Time, taken func(name string) bool) string {
	stamp := at.UTC().Format(StampLayout)
	gen := stamp
	for n := 2; taken(ResourceListPart(set, gen, 1)) || taken(ResourceListCopy(set, gen)); n++ {
		gen = fmt.Sprintf("%s.%d", stamp, n)
	}
	return gen
}

// partName matches parts, and copies for archives, within a set's directory. All
// other files there belong to other programs and must not be removed.
var partName = regexp.MustCompile(`^(resourcelist-[0-9]{8}T[0-9]{6}\.[0-9]{7}Z(\.[0-9]+)?(-[0-9]{5,})?|changelist-[0-9]{8}T[0-9]{6}\.[0-9]{7}Z(\.[0-9]+)?|` +
	`(resourcelist|changelist)-archive-[0-9]{5,})\.xml$`)

// IsPart reports whether name is a part of any generation.
func IsPart(set, name string) bool {
	rest, ok := strings.CutPrefix(name, DocumentsDir+set+"/")
	return ok && partName.MatchString(rest)
}

// Served reports whether name is a document that may be served.
func Served(name string) bool {
	return name == WellKnown || name == Robots || strings.HasPrefix(name, DocumentsDir)
}

// Reserved reports whether rel, a slash-separated path below the base URL, is
// the address of a document or page, or below a directory with lockstep's state.
// No resource can be published there.
func Reserved(rel string) bool {
	if rel == WellKnown || rel == Robots {
		return true
	}
	for _, dir := range []string{DocumentsDir, pagesDir} {
		if strings.HasPrefix(rel, dir) || rel+"/" == dir {
			return true
		}
	}
	return strings.Contains("/"+rel+"/", "/"+PrivateDir) // at any depth
}

// IsDocument reports whether name is a document of the set.
func IsDocument(set, name string) bool {
	switch name {
	case CapabilityList(set), ResourceList(set), ChangeList(set), ResourceDump(set), ChangeDump(set), Feed(set):
		return true
	}
	return FeedArchiveChain(set, name) != "" || IsPart(set, name) || IsDumpPart(set, name) || isArchive(set, name)
}

// isArchive reports whether name is an archive of the set, or the index of its
// parts.
func isArchive(set, name string) bool {
	for _, c := range Archivable {
		if name == Archive(set, c) {
			return true
		}
	}
	return false
}

// Archivable lists the capabilities of documents that have archives.
var Archivable = [...]resourcesync.Capability{resourcesync.ResourceList, resourcesync.ResourceDump, resourcesync.ChangeList, resourcesync.ChangeDump}

// IsChangePart reports whether name is a part of the set's Change List.
func IsChangePart(set, name string) bool {
	return IsArchived(set, resourcesync.ChangeList, name)
}

// DescriptionParts matches, within DocumentsDir, the parts of an index of Source
// Descriptions.
var DescriptionParts = regexp.MustCompile(`^` + DescriptionPrefix + `[0-9a-f]{16}\.xml$`)

// DescriptionPrefix is the start of their names.
const DescriptionPrefix = "description-"

// setName matches the allowed names of sets: addresses contain them unescaped.
var setName = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}$`)

// notSetName matches names that would collide with files beside the directories
// of sets, or beside their states.
var notSetName = regexp.MustCompile(`\.(xml|html|gz|tail|dumps|notify)$`)

// immutableName matches the names within a set's directory whose bytes never
// change: parts of Resource Lists, packages and documents of dumps, and archives
// of feeds (AP-TS-07). All contain an instant. Parts of the Change List grow
// until they are closed.
var immutableName = regexp.MustCompile(`^(resourcelist|resourcedump|changedump|feed)-[0-9]`)

// Immutable reports whether the bytes under name never change (RS-IDX-06).
func Immutable(name string) bool {
	rest, ok := strings.CutPrefix(name, DocumentsDir)
	if !ok {
		return false
	}
	set, file, inSet := strings.Cut(rest, "/")
	return inSet && immutableName.MatchString(file) || !inSet && DescriptionParts.MatchString(set)
}

// ArchiveOf returns the capability of archives of documents that have c
// (RA-GEN-01).
func ArchiveOf(c resourcesync.Capability) resourcesync.Capability {
	switch c {
	case resourcesync.ResourceList:
		return resourcesync.ResourceListArchive
	case resourcesync.ResourceDump:
		return resourcesync.ResourceDumpArchive
	case resourcesync.ChangeList:
		return resourcesync.ChangeListArchive
	}
	return resourcesync.ChangeDumpArchive
}

// CheckSet reports why set cannot be the name of a set.
func CheckSet(set string) error {
	if !setName.MatchString(set) {
		return fmt.Errorf("set %q: a name is made of letters, digits, '_', '-' and '.', at most 100, and does not begin with '-' or '.'", set)
	}
	if notSetName.MatchString(set) {
		return fmt.Errorf("set %q: a name must not end in .xml, .html, .gz, .tail, .dumps or .notify", set)
	}
	return nil
}
