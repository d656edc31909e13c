package source

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

// This is the only file that knows addresses of documents. A document's name
// is its blob's name and, below the base URL, its address.
const (
	wellKnownName = ".well-known/resourcesync" // Source Description (RS-SD-09)
	robotsName    = "robots.txt"
	hintName      = documentsDir + "index.html" // the page that points to the Capability Lists
	homeName      = ""                          // the page at the base URL itself
	healthName    = "-/healthz"                 // says that the process answers
	documentsDir  = "resourcesync/"
	pagesDir      = "-/"         // pages about the Source, for people and monitors
	privateDir    = ".lockstep/" // what we keep for ourselves; never served
	gzipSuffix    = ".gz"        // of a document's compressed variant, see Compressed
	feedSuffix    = ".atom"      // of an archive of a feed
)

func capabilityListName(set string) string { return documentsDir + set + "/capabilitylist.xml" }
func resourceListName(set string) string   { return documentsDir + set + "/resourcelist.xml" }
func changeListName(set string) string     { return documentsDir + set + "/changelist.xml" }
func resourceDumpName(set string) string   { return documentsDir + set + "/resourcedump.xml" }
func changeDumpName(set string) string     { return documentsDir + set + "/changedump.xml" }

// atomFile is what the subscription document of a set's Atom-PMH feed is called.
const atomFile = "atom.xml"

func atomName(set string) string { return documentsDir + set + "/" + atomFile }

// atomPrefix is what the names of a feed's archives begin with.
func atomPrefix(set string) string { return documentsDir + set + "/feed-" }

// atomArchiveName names an archive of a feed. Chains are never continued with a
// number that was given before: a name stands for the same bytes for good.
func atomArchiveName(set, chain string, number int) string {
	return fmt.Sprintf("%s%s-%06d%s", atomPrefix(set), chain, number, feedSuffix)
}

// atomChain is what tells the archives of a chain from others, see generation.
var atomChain = regexp.MustCompile(`^[0-9]{8}T[0-9]{6}\.[0-9]{7}Z(\.[0-9]+)?$`)

// atomArchive is what archives are called within a set's directory.
var atomArchive = regexp.MustCompile(`^feed-([0-9]{8}T[0-9]{6}\.[0-9]{7}Z(?:\.[0-9]+)?)-[0-9]{6,}\.atom$`)

// atomArchiveChain returns the chain of the archive of that name; "" if it is
// none of the set.
func atomArchiveChain(set, name string) string {
	rest, ok := strings.CutPrefix(name, documentsDir+set+"/")
	m := atomArchive.FindStringSubmatch(rest)
	if !ok || m == nil {
		return ""
	}
	return m[1]
}

// atomStateName is where the state of a set's feed is kept.
func atomStateName(set string) string { return privateDir + "atom/" + set + ".json" }

// atomGroupName is where a part of what is known of which resources belong
// together is kept, of a chain.
func atomGroupName(set, chain string, part int) string {
	return fmt.Sprintf("%s%s-%03x.json", atomGroupPrefix(set), chain, part)
}

func atomGroupPrefix(set string) string { return privateDir + "atomgroups/" + set + "/" }

// stateName is where a set's publishing state is kept, beside the documents it
// describes.
func stateName(set string) string { return privateDir + set + ".json" }

// tailName is where the end of it is kept which changes most, see tail.
func tailName(set string) string { return privateDir + set + ".tail.json" }

// stampLayout writes an instant so that names sort by it. Part addresses hold
// instants, not counters: a catalog that was lost and filled again counts from
// 1 once more, and its parts must not meet readers of the old ones.
const stampLayout = "20060102T150405.0000000Z"

// resourceListPartName names a part of the generation gen, see generation.
func resourceListPartName(set, gen string, part int) string {
	return fmt.Sprintf("%s%s/resourcelist-%s-%05d.xml", documentsDir, set, gen, part)
}

// changeListPartName names the part whose interval begins at from, which only
// ever grows until it is closed. A second one that begins then, with other
// bytes, has another number.
func changeListPartName(set string, from time.Time, number int) string {
	stamp := from.UTC().Format(stampLayout)
	if number > 1 {
		stamp = fmt.Sprintf("%s.%d", stamp, number)
	}
	return documentsDir + set + "/changelist-" + stamp + ".xml"
}

// descriptionPartName names a part of an index of Source Descriptions.
func descriptionPartName(sum []byte) string {
	return documentsDir + descriptionPrefix + hex.EncodeToString(sum) + ".xml"
}

// dumpStateName is where the state of a set's dumps is kept.
func dumpStateName(set string) string { return privateDir + set + ".dumps.json" }

// resourceDumpPrefix is what all names of the generation gen begin with.
func resourceDumpPrefix(set, gen string) string {
	return documentsDir + set + "/resourcedump-" + gen + "-"
}

// resourceDumpPackageName names a package of the generation gen; its manifest's
// copy has the same name with another extension, see manifestName.
func resourceDumpPackageName(set, gen string, part int) string {
	return fmt.Sprintf("%s%05d.zip", resourceDumpPrefix(set, gen), part)
}

// resourceDumpListName names a part of the index of the generation gen.
func resourceDumpListName(set, gen string, part int) string {
	return fmt.Sprintf("%slist-%05d.xml", resourceDumpPrefix(set, gen), part)
}

// changeDumpPackageName names the package whose interval begins at from.
func changeDumpPackageName(set string, from time.Time) string {
	return documentsDir + set + "/changedump-" + from.UTC().Format(stampLayout) + ".zip"
}

// changeDumpListName names the part of a Change Dump's index whose interval
// begins at from. It grows until it is closed.
func changeDumpListName(set string, from time.Time) string {
	return documentsDir + set + "/changedump-list-" + from.UTC().Format(stampLayout) + ".xml"
}

// resourceListCopyName names the Resource List of the generation gen for good:
// what an archive names. Its entry document has the same bytes while it is the
// newest.
func resourceListCopyName(set, gen string) string {
	return documentsDir + set + "/resourcelist-" + gen + ".xml"
}

// copyOfPart returns the name of the copy that the part of a Resource List
// belongs to; another one if it is no such part.
func copyOfPart(name string) string {
	if i := strings.LastIndexByte(name, '-'); i >= 0 {
		return name[:i] + ".xml"
	}
	return name
}

// resourceDumpCopyName names the Resource Dump of the generation gen for good.
func resourceDumpCopyName(set, gen string) string {
	return documentsDir + set + "/resourcedump-" + gen + ".xml"
}

// archiveName names the archive of documents that have the capability, or the
// index over its parts.
func archiveName(set string, c resourcesync.Capability) string {
	return documentsDir + set + "/" + string(archiveOf(c)) + ".xml"
}

// archivePartName names a part of an archive.
func archivePartName(set string, c resourcesync.Capability, number int) string {
	return fmt.Sprintf("%s%s/%s-%05d.xml", documentsDir, set, archiveOf(c), number)
}

// archivePartNumber returns the number of the part of that name; 0 if it is
// none.
func archivePartNumber(set string, c resourcesync.Capability, name string) int {
	digits := strings.TrimSuffix(strings.TrimPrefix(name, documentsDir+set+"/"+string(archiveOf(c))+"-"), ".xml")
	if n, err := strconv.Atoi(digits); err == nil && n > 0 && archivePartName(set, c, n) == name {
		return n
	}
	return 0
}

// archivedName is what documents are called that archives name.
var archivedName = regexp.MustCompile(`^(resourcelist|changelist|resourcedump|changedump-list)-[0-9]{8}T[0-9]{6}\.[0-9]{7}Z(\.[0-9]+)?\.xml$`)

// isArchived reports whether name can be that of a document which the archive
// of documents of that capability names.
func isArchived(set string, c resourcesync.Capability, name string) bool {
	rest, ok := strings.CutPrefix(name, documentsDir+set+"/")
	m := archivedName.FindStringSubmatch(rest)
	return ok && m != nil && strings.TrimSuffix(m[1], "-list") == string(c)
}

// archivesName is where it is kept what the archives of a set's lists name, or
// of its dumps.
func archivesName(set string, dumps bool) string {
	if dumps {
		set += ".dumps" // no set is called so
	}
	return privateDir + "archives/" + set + ".json"
}

// manifestName names the copy of a package's manifest.
func manifestName(pkg string) string { return strings.TrimSuffix(pkg, packageSuffix) + ".xml" }

// numbered returns name with a number in front of its extension: another name
// where the first is taken.
func numbered(name string, n int) string {
	ext := path.Ext(name)
	return fmt.Sprintf("%s.%d%s", strings.TrimSuffix(name, ext), n, ext)
}

const packageSuffix = ".zip"

// isPackage reports whether name is that of a package we may hand out.
func isPackage(name string) bool {
	return strings.HasPrefix(name, documentsDir) && strings.HasSuffix(name, packageSuffix) && immutable(name)
}

// dumpPart is what dumps consist of, but for their entry documents.
var dumpPart = regexp.MustCompile(`^((resourcedump-[0-9]{8}T[0-9]{6}\.[0-9]{7}Z(\.[0-9]+)?(-list)?-[0-9]{5,}|changedump(-list)?-[0-9]{8}T[0-9]{6}\.[0-9]{7}Z(\.[0-9]+)?)\.(zip|xml)|` +
	`(resourcedump-[0-9]{8}T[0-9]{6}\.[0-9]{7}Z(\.[0-9]+)?|(resourcedump|changedump)-archive-[0-9]{5,})\.xml)$`)

// isDumpPart reports whether name is that of a package, a manifest's copy or a
// part of an index of dumps, of whatever generation.
func isDumpPart(set, name string) bool {
	rest, ok := strings.CutPrefix(name, documentsDir+set+"/")
	return ok && dumpPart.MatchString(rest)
}

// demandName is where packages are asked for.
func demandName(set string) string { return documentsDir + set + "/dump" }

// topicName is the topic of a set's notifications (RN-CH-03), and what stands
// there.
func topicName(set string) string { return documentsDir + set + "/changes" }

// isTopic reports whether name is that of a topic of any set.
func isTopic(name string) bool {
	rest, ok := strings.CutPrefix(name, documentsDir)
	set, rest, _ := strings.Cut(rest, "/")
	return ok && rest == "changes" && setName.MatchString(set)
}

// notifyName is where it is kept how far hubs have been told of a set.
func notifyName(set string) string { return privateDir + set + ".notify.json" }

// patchTypes are the media types of patches, each with the extension of their
// names.
var patchTypes = map[string]string{
	"application/json-patch+json":  ".json",
	"application/vnd.lockstep.dcz": ".dcz",
}

// patchDir is where the patches of a set are: in a directory of their own, and
// there in one for each day, for they are many.
func patchDir(set string) string { return documentsDir + set + "/patches/" }

// patchLayout writes an instant as a day and a time of it.
const patchLayout = "20060102/T150405.0000000Z"

// patchName names a patch published at now; unique tells it from others of that
// instant. Nobody knows yet when the change will be that names it.
func patchName(set, mediaType string, now time.Time, unique string) (name string, ok bool) {
	ext, ok := patchTypes[mediaType]
	return patchDir(set) + now.UTC().Format(patchLayout) + "-" + unique + ext, ok
}

// patchFile is what patches are called within patchDir.
var patchFile = regexp.MustCompile(`^([0-9]{8}/T[0-9]{6}\.[0-9]{7}Z)-[0-9a-f]+(\.json|\.dcz)$`)

// parsePatchName returns when the patch of that name was published.
func parsePatchName(set, name string) (at time.Time, ok bool) {
	rest, ok := strings.CutPrefix(name, patchDir(set))
	m := patchFile.FindStringSubmatch(rest)
	if !ok || m == nil {
		return time.Time{}, false
	}
	at, err := time.Parse(patchLayout, m[1])
	return at, err == nil
}

// isPatch reports whether name is that of a patch of any set.
func isPatch(name string) bool {
	rest, ok := strings.CutPrefix(name, documentsDir)
	set, _, _ := strings.Cut(rest, "/")
	_, named := parsePatchName(set, name)
	return ok && named
}

// generation names a Resource List whose snapshot was taken at. Should the
// clock stand still, a suffix keeps it apart from those taken before it.
func generation(set string, at time.Time, taken func(name string) bool) string {
	stamp := at.UTC().Format(stampLayout)
	gen := stamp
	for n := 2; taken(resourceListPartName(set, gen, 1)) || taken(resourceListCopyName(set, gen)); n++ {
		gen = fmt.Sprintf("%s.%d", stamp, n)
	}
	return gen
}

// partName is what parts of ours, and copies for archives, are called within a
// set's directory. Whatever
// else is there is not ours to remove.
var partName = regexp.MustCompile(`^(resourcelist-[0-9]{8}T[0-9]{6}\.[0-9]{7}Z(\.[0-9]+)?(-[0-9]{5,})?|changelist-[0-9]{8}T[0-9]{6}\.[0-9]{7}Z(\.[0-9]+)?|` +
	`(resourcelist|changelist)-archive-[0-9]{5,})\.xml$`)

// isPart reports whether name is that of a part, of whatever generation.
func isPart(set, name string) bool {
	rest, ok := strings.CutPrefix(name, documentsDir+set+"/")
	return ok && partName.MatchString(rest)
}

// served reports whether name is that of a document we may hand out.
func served(name string) bool {
	return name == wellKnownName || name == robotsName || strings.HasPrefix(name, documentsDir)
}

// Reserved reports whether rel, a slash-separated path below the base URL, is
// an address of ours, or below a directory where lockstep keeps state. No resource
// can be published there.
func Reserved(rel string) bool {
	if rel == wellKnownName || rel == robotsName {
		return true
	}
	for _, dir := range []string{documentsDir, pagesDir} {
		if strings.HasPrefix(rel, dir) || rel+"/" == dir {
			return true
		}
	}
	return strings.Contains("/"+rel+"/", "/"+privateDir) // at any depth
}

// isDocument reports whether name is that of a document of the set.
func isDocument(set, name string) bool {
	switch name {
	case capabilityListName(set), resourceListName(set), changeListName(set), resourceDumpName(set), changeDumpName(set), atomName(set):
		return true
	}
	return atomArchiveChain(set, name) != "" || isPart(set, name) || isDumpPart(set, name) || isArchive(set, name)
}

// isArchive reports whether name is that of an archive of the set, or of the
// index over its parts.
func isArchive(set, name string) bool {
	for _, c := range archivable {
		if name == archiveName(set, c) {
			return true
		}
	}
	return false
}

// archivable are the capabilities of documents that have archives.
var archivable = [...]resourcesync.Capability{resourcesync.ResourceList, resourcesync.ResourceDump, resourcesync.ChangeList, resourcesync.ChangeDump}

// isChangePart reports whether name is that of a part of the set's Change List.
func isChangePart(set, name string) bool {
	return isArchived(set, resourcesync.ChangeList, name)
}

// descriptionPart is what the parts of an index of Source Descriptions are
// called, in documentsDir.
var descriptionPart = regexp.MustCompile(`^` + descriptionPrefix + `[0-9a-f]{16}\.xml$`)

const descriptionPrefix = "description-"

// setName is what a set may be called: it stands in addresses as it is.
var setName = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}$`)

// notSetName is what none may be called, for we have such names ourselves
// beside the directories of sets, or beside their states.
var notSetName = regexp.MustCompile(`\.(xml|html|gz|tail|dumps|notify)$`)

// BaseURL returns the base URL as addresses begin with it: checked, in the
// characters of a URI, with a slash at the end.
func BaseURL(s string) (string, error) {
	b, err := parseBase(s)
	return b.prefix, err
}

// CapabilityListURI returns the URI of the set's Capability List below baseURL,
// which is also the set's name in the catalog.
func CapabilityListURI(baseURL, set string) (string, error) {
	base, err := parseBase(baseURL)
	if err != nil {
		return "", err
	}
	if !setName.MatchString(set) {
		return "", fmt.Errorf("set %q: a name is made of letters, digits, '_', '-' and '.', at most 100, and does not begin with '-' or '.'", set)
	}
	if notSetName.MatchString(set) {
		return "", fmt.Errorf("set %q: a name must not end in .xml, .html, .gz, .tail, .dumps or .notify", set)
	}
	return base.uri(capabilityListName(set)), nil
}

// TopicURI returns the URI of the topic that notifications of the set below
// baseURL are about (RN-CH-01).
func TopicURI(baseURL, set string) (string, error) {
	if _, err := CapabilityListURI(baseURL, set); err != nil {
		return "", err
	}
	base, err := parseBase(baseURL)
	return base.uri(topicName(set)), err
}
