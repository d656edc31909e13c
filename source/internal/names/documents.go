package names

import (
	"encoding/hex"
	"fmt"
	"iter"
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

// A Set is the name of a set of resources. Its methods name the documents of the
// set, and recognize their names.
type Set string

// A Feed is the name of a set. Its methods name the documents and the state of the
// set's Atom-PMH feed.
type Feed string

// Dumps is the name of a set. Its methods name the documents, packages and the
// state of the set's dumps.
type Dumps string

// The entry documents of a set.
func (set Set) CapabilityList() string { return DocumentsDir + string(set) + "/capabilitylist.xml" }
func (set Set) ResourceList() string   { return DocumentsDir + string(set) + "/resourcelist.xml" }
func (set Set) ChangeList() string     { return DocumentsDir + string(set) + "/changelist.xml" }
func (set Set) ResourceDump() string   { return DocumentsDir + string(set) + "/resourcedump.xml" }
func (set Set) ChangeDump() string     { return DocumentsDir + string(set) + "/changedump.xml" }

// FeedFile is the name of the subscription document within the directory of its
// set.
const FeedFile = "atom.xml"

// Document names the subscription document of a set's Atom-PMH feed.
func (set Feed) Document() string { return DocumentsDir + string(set) + "/" + FeedFile }

// Prefix is the start of the names of a feed's archives.
func (set Feed) Prefix() string { return DocumentsDir + string(set) + "/feed-" }

// Archive names an archive of a feed. A chain never reuses a number: the
// bytes of a name never change.
func (set Feed) Archive(chain string, number int) string {
	return fmt.Sprintf("%s%s-%06d%s", set.Prefix(), chain, number, FeedSuffix)
}

// FeedChain matches the identifiers of chains of archives, see Generation.
var FeedChain = regexp.MustCompile(`^[0-9]{8}T[0-9]{6}\.[0-9]{7}Z(\.[0-9]+)?$`)

// feedArchive matches the names of archives within a set's directory.
var feedArchive = regexp.MustCompile(`^feed-([0-9]{8}T[0-9]{6}\.[0-9]{7}Z(?:\.[0-9]+)?)-[0-9]{6,}\.atom$`)

// ArchiveChain returns the chain of the archive called name; "" if name is
// not an archive of the set.
func (set Feed) ArchiveChain(name string) string {
	rest, ok := strings.CutPrefix(name, DocumentsDir+string(set)+"/")
	m := feedArchive.FindStringSubmatch(rest)
	if !ok || m == nil {
		return ""
	}
	return m[1]
}

// State names the stored state of a set's feed.
func (set Feed) State() string { return PrivateDir + "atom/" + string(set) + ".json" }

// Group names a part of the stored groups of a chain: the resources that
// belong together.
func (set Feed) Group(chain string, part int) string {
	return fmt.Sprintf("%s%s-%03x.json", set.GroupPrefix(), chain, part)
}

// GroupPrefix is the start of the names of a set's groups.
func (set Feed) GroupPrefix() string { return PrivateDir + "atomgroups/" + string(set) + "/" }

// State names the stored state of a set's documents.
func (set Set) State() string { return PrivateDir + string(set) + ".json" }

// Tail names the part of that state that changes most often.
func (set Set) Tail() string { return PrivateDir + string(set) + ".tail.json" }

// StampLayout formats an instant so that names sort by it. Names of parts
// contain instants instead of counters: a catalog that was lost and filled
// again counts from 1, and readers of the old parts must not meet the new ones.
const StampLayout = "20060102T150405.0000000Z"

// ResourceListPart names a part of the generation gen, see Generation.
func (set Set) ResourceListPart(gen string, part int) string {
	return fmt.Sprintf("%s%s/resourcelist-%s-%05d.xml", DocumentsDir, set, gen, part)
}

// ChangeListPart names the part whose interval begins at from. It grows until it
// is closed. Further parts that begin at the same instant with other bytes have
// numbers from 2.
func (set Set) ChangeListPart(from time.Time, number int) string {
	stamp := from.UTC().Format(StampLayout)
	if number > 1 {
		stamp = fmt.Sprintf("%s.%d", stamp, number)
	}
	return DocumentsDir + string(set) + "/changelist-" + stamp + ".xml"
}

// DescriptionPart names a part of an index of Source Descriptions.
func DescriptionPart(sum []byte) string {
	return DocumentsDir + DescriptionPrefix + hex.EncodeToString(sum) + ".xml"
}

// State is where the state of a set's dumps is kept.
func (set Dumps) State() string { return PrivateDir + string(set) + ".dumps.json" }

// ResourcePrefix is the start of all names of the generation gen.
func (set Dumps) ResourcePrefix(gen string) string {
	return DocumentsDir + string(set) + "/resourcedump-" + gen + "-"
}

// ResourcePackage names a package of the generation gen; its manifest's
// copy has the same name with another extension, see Manifest.
func (set Dumps) ResourcePackage(gen string, part int) string {
	return fmt.Sprintf("%s%05d.zip", set.ResourcePrefix(gen), part)
}

// ResourcePart names a part of the index of the generation gen.
func (set Dumps) ResourcePart(gen string, part int) string {
	return fmt.Sprintf("%slist-%05d.xml", set.ResourcePrefix(gen), part)
}

// ChangePackage names the package whose interval begins at from.
func (set Dumps) ChangePackage(from time.Time) string {
	return DocumentsDir + string(set) + "/changedump-" + from.UTC().Format(StampLayout) + ".zip"
}

// ChangePart names the part of a Change Dump's index whose interval
// begins at from. It grows until it is closed.
func (set Dumps) ChangePart(from time.Time) string {
	return DocumentsDir + string(set) + "/changedump-list-" + from.UTC().Format(StampLayout) + ".xml"
}

// ResourceListCopy names the copy of the Resource List of the generation gen
// that its archive lists. The entry document has the same bytes while it is the
// newest.
func (set Set) ResourceListCopy(gen string) string {
	return DocumentsDir + string(set) + "/resourcelist-" + gen + ".xml"
}

// CopyOfPart returns the name of the copy to which a part of a Resource List
// belongs.
func CopyOfPart(name string) string {
	if i := strings.LastIndexByte(name, '-'); i >= 0 {
		return name[:i] + ".xml"
	}
	return name
}

// ResourceCopy names the copy of the Resource Dump of the generation gen that
// its archive lists.
func (set Dumps) ResourceCopy(gen string) string {
	return DocumentsDir + string(set) + "/resourcedump-" + gen + ".xml"
}

// Archive names the archive of documents that have the capability, or the index
// of its parts.
func (set Set) Archive(c resourcesync.Capability) string {
	return DocumentsDir + string(set) + "/" + string(ArchiveOf(c)) + ".xml"
}

// ArchivePart names a part of an archive.
func (set Set) ArchivePart(c resourcesync.Capability, number int) string {
	return fmt.Sprintf("%s%s/%s-%05d.xml", DocumentsDir, set, ArchiveOf(c), number)
}

// ArchivePartNumber returns the number of the part called name; 0 if name is not
// a part of the archive.
func (set Set) ArchivePartNumber(c resourcesync.Capability, name string) int {
	digits := strings.TrimSuffix(strings.TrimPrefix(name, DocumentsDir+string(set)+"/"+string(ArchiveOf(c))+"-"), ".xml")
	if n, err := strconv.Atoi(digits); err == nil && n > 0 && set.ArchivePart(c, n) == name {
		return n
	}
	return 0
}

// archivedName matches the documents that archives list.
var archivedName = regexp.MustCompile(`^(resourcelist|changelist|resourcedump|changedump-list)-[0-9]{8}T[0-9]{6}\.[0-9]{7}Z(\.[0-9]+)?\.xml$`)

// IsArchived reports whether the archive of documents with the capability can
// list name.
func (set Set) IsArchived(c resourcesync.Capability, name string) bool {
	rest, ok := strings.CutPrefix(name, DocumentsDir+string(set)+"/")
	m := archivedName.FindStringSubmatch(rest)
	return ok && m != nil && strings.TrimSuffix(m[1], "-list") == string(c)
}

// ArchiveState names the stored content of the archives of a set's lists, or of
// its dumps.
func (set Set) ArchiveState(dumps bool) string {
	if dumps {
		set += ".dumps" // no set is called so
	}
	return PrivateDir + "archives/" + string(set) + ".json"
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

// IsPart reports whether name is a package, a manifest's copy or a part of an
// index of dumps, of any generation.
func (set Dumps) IsPart(name string) bool {
	rest, ok := strings.CutPrefix(name, DocumentsDir+string(set)+"/")
	return ok && dumpPart.MatchString(rest)
}

// Demand is the address at which clients request packages on demand.
func (set Set) Demand() string { return DocumentsDir + string(set) + "/dump" }

// Topic is the topic of a set's notifications (RN-CH-03), and the name of the
// page or event stream at that address.
func (set Set) Topic() string { return DocumentsDir + string(set) + "/changes" }

// IsTopic reports whether name is the topic of any set.
func IsTopic(name string) bool {
	rest, ok := strings.CutPrefix(name, DocumentsDir)
	set, rest, _ := strings.Cut(rest, "/")
	return ok && rest == "changes" && setName.MatchString(set)
}

// NotifyState names the stored progress of a set's notifications.
func (set Set) NotifyState() string { return PrivateDir + string(set) + ".notify.json" }

// PatchTypes maps the media types of patches to the extensions of their names.
var PatchTypes = map[string]string{
	"application/json-patch+json":         ".json",
	"application/vnd.lockstep.dcz":        ".dcz",
	"application/vnd.lockstep.chunkdelta": ".chunkdelta",
}

// PatchDir is the directory of a set's patches, which has a subdirectory for
// each day.
func (set Set) PatchDir() string { return DocumentsDir + string(set) + "/patches/" }

// patchLayout formats an instant as a day and a time of day.
const patchLayout = "20060102/T150405.0000000Z"

// Patch names a patch published at now; unique distinguishes it from others of
// that instant. The time of the change that will link to it is not yet known.
func (set Set) Patch(mediaType string, now time.Time, unique string) (name string, ok bool) {
	ext, ok := PatchTypes[mediaType]
	return set.PatchDir() + now.UTC().Format(patchLayout) + "-" + unique + ext, ok
}

// patchFile matches the names of patches within PatchDir.
var patchFile = regexp.MustCompile(`^([0-9]{8}/T[0-9]{6}\.[0-9]{7}Z)-[0-9a-f]+(\.json|\.dcz|\.chunkdelta)$`)

// ParsePatch returns the time at which the patch called name was published.
func (set Set) ParsePatch(name string) (at time.Time, ok bool) {
	rest, ok := strings.CutPrefix(name, set.PatchDir())
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
	_, named := Set(set).ParsePatch(name)
	return ok && named
}

// Generation identifies a Resource List by the instant of its snapshot. A suffix
// distinguishes it from earlier ones of the same instant, in case the clock
// stalls; docNames are the documents of the set that exist.
func (set Set) Generation(at time.Time, docNames iter.Seq[string]) string {
	taken := func(gen string) bool {
		for name := range docNames {
			rest, ok := strings.CutPrefix(name, DocumentsDir+string(set)+"/resourcelist-"+gen)
			if ok && (strings.HasPrefix(rest, "-") || strings.HasPrefix(rest, ".xml")) {
				return true
			}
		}
		return false
	}
	stamp := at.UTC().Format(StampLayout)
	gen := stamp
	for n := 2; taken(gen); n++ {
		gen = fmt.Sprintf("%s.%d", stamp, n)
	}
	return gen
}

// partName matches parts, and copies for archives, within a set's directory. All
// other files there belong to other programs and must not be removed.
var partName = regexp.MustCompile(`^(resourcelist-[0-9]{8}T[0-9]{6}\.[0-9]{7}Z(\.[0-9]+)?(-[0-9]{5,})?|changelist-[0-9]{8}T[0-9]{6}\.[0-9]{7}Z(\.[0-9]+)?|` +
	`(resourcelist|changelist)-archive-[0-9]{5,})\.xml$`)

// IsPart reports whether name is a part of any generation.
func (set Set) IsPart(name string) bool {
	rest, ok := strings.CutPrefix(name, DocumentsDir+string(set)+"/")
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
func (set Set) IsDocument(name string) bool {
	switch name {
	case set.CapabilityList(), set.ResourceList(), set.ChangeList(), set.ResourceDump(), set.ChangeDump(), Feed(set).Document():
		return true
	}
	return Feed(set).ArchiveChain(name) != "" || set.IsPart(name) || Dumps(set).IsPart(name) || set.isArchive(name)
}

// isArchive reports whether name is an archive of the set, or the index of its
// parts.
func (set Set) isArchive(name string) bool {
	for _, c := range Archivable {
		if name == set.Archive(c) {
			return true
		}
	}
	return false
}

// Archivable lists the capabilities of documents that have archives.
var Archivable = [...]resourcesync.Capability{resourcesync.ResourceList, resourcesync.ResourceDump, resourcesync.ChangeList, resourcesync.ChangeDump}

// IsChangePart reports whether name is a part of the set's Change List.
func (set Set) IsChangePart(name string) bool {
	return set.IsArchived(resourcesync.ChangeList, name)
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

// Check reports why set cannot be the name of a set.
func (set Set) Check() error {
	if !setName.MatchString(string(set)) {
		return fmt.Errorf("set %q: a name is made of letters, digits, '_', '-' and '.', at most 100, and does not begin with '-' or '.'", set)
	}
	if notSetName.MatchString(string(set)) {
		return fmt.Errorf("set %q: a name must not end in .xml, .html, .gz, .tail, .dumps or .notify", set)
	}
	return nil
}
