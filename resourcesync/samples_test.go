package resourcesync_test

import (
	"bytes"
	"testing"

	"lockstep/resourcesync"
)

const (
	upLink = `<rs:ln rel="up" href="http://example.org/cl.xml"/>`
	listMD = `<rs:md capability="resourcelist" at="2024-05-01T02:00:00Z"/>`
)

// date returns the Datetime written as s.
func date(s string) resourcesync.Datetime {
	d, err := resourcesync.ParseDatetime(s)
	if err != nil {
		panic(err)
	}
	return d
}

// hashes returns the Hashes written as s.
func hashes(s string) resourcesync.Hashes {
	hs, liberties := resourcesync.ParseHashes(s)
	if len(liberties) > 0 {
		panic(liberties)
	}
	return hs
}

// write returns the document of h and entries.
func write(t testing.TB, h resourcesync.Header, entries ...resourcesync.Entry) []byte {
	t.Helper()
	var buf bytes.Buffer
	w, err := resourcesync.NewWriter(&buf, h)
	if err != nil {
		t.Fatal(err)
	}
	for i := range entries {
		if err := w.Write(&entries[i]); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

var (
	up      = resourcesync.Link{Rel: resourcesync.RelUp, Href: "https://lib.example.net/rs/maps/capabilitylist.xml"}
	toIndex = resourcesync.Link{Rel: resourcesync.RelIndex, Href: "https://lib.example.net/rs/maps/index.xml"}
	about   = resourcesync.Link{Rel: resourcesync.RelDescribedBy, Href: "https://lib.example.net/about?a=1&b='2'", Type: "text/html; charset=\"utf-8\""}
	past    = resourcesync.Link{Rel: resourcesync.RelArchives, Href: "https://lib.example.net/rs/maps/archive.xml"}

	day1 = date("2024-05-01T02:00:00Z")
	day2 = date("2024-05-02T06:00:00.25Z")
	day3 = date("2024-05-03T00:00:00Z")

	// content has every attribute of a representation.
	content = resourcesync.Metadata{Hashes: hashes(all5), Length: 1 << 40, HasLength: true, Type: "image/tiff; a=b", Encoding: "gzip, br"}

	// related has links with every attribute.
	related = []resourcesync.Link{
		{Rel: "duplicate", Href: "ftp://mirror.example.net/%20a", Pri: 1, Modified: day1},
		{Rel: "alternate", Href: "https://lib.example.net/a.jp2", Type: "image/jp2", Encoding: "gzip",
			Hashes: hashes(testHashes), Length: 0, HasLength: true, Pri: 999_999},
		{Rel: "describes", Href: "urn:isbn:1"}, {Rel: "http://example.org/rel", Href: "https://lib.example.net/x"},
		{Rel: "via", Href: "https://origin.example.net/a", Modified: date("1999-08-01T00:00:00Z")},
		{Rel: "timemap", Href: "https://lib.example.net/tm", Type: "application/link-format"},
	}
)

func with(m resourcesync.Metadata, set func(*resourcesync.Metadata)) resourcesync.Metadata {
	set(&m)
	return m
}

func changed(c resourcesync.Change, at resourcesync.Datetime, m resourcesync.Metadata) resourcesync.Metadata {
	m.Change, m.Datetime = c, at
	return m
}

// patch is a patch link; its path is for manifests only.
func patch(path string) resourcesync.Link {
	return resourcesync.Link{Rel: resourcesync.RelPatch, Href: "https://lib.example.net/a.patch", Type: "application/json-patch+json",
		Hashes: hashes(testMD5), Length: 4, HasLength: true, Path: path}
}

// A sample is a document with everything that documents of its kind can
// contain.
type sample struct {
	name    string
	header  resourcesync.Header
	entries []resourcesync.Entry
}

const loc = "https://lib.example.net/maps/0001.tif?a=1&b=2"

var samples = []sample{
	{"description", resourcesync.Header{Capability: resourcesync.Description, Links: []resourcesync.Link{about, toIndex}},
		[]resourcesync.Entry{{Loc: loc, Lastmod: day1, Metadata: resourcesync.Metadata{Capability: resourcesync.CapabilityList}, Links: []resourcesync.Link{about}}}},
	{"description index", resourcesync.Header{Capability: resourcesync.Description, Index: true, Links: []resourcesync.Link{about}},
		[]resourcesync.Entry{{Loc: loc}, {Loc: loc + "2", Metadata: resourcesync.Metadata{Capability: resourcesync.Description}}}},
	{"capability list", resourcesync.Header{Capability: resourcesync.CapabilityList, Links: []resourcesync.Link{up, about}},
		[]resourcesync.Entry{
			{Loc: loc, Metadata: resourcesync.Metadata{Capability: resourcesync.ResourceList}},
			{Loc: loc, Lastmod: day1, Metadata: resourcesync.Metadata{Capability: resourcesync.ChangeListArchive}, Links: []resourcesync.Link{about}},
			{Loc: loc, Metadata: resourcesync.Metadata{Capability: resourcesync.ChangeNotification},
				Links: []resourcesync.Link{{Rel: resourcesync.RelHub, Href: "https://hub.example.net/"}}},
		}},
	{"resource list", resourcesync.Header{Capability: resourcesync.ResourceList, At: day1, Completed: day2, Links: []resourcesync.Link{up, toIndex, about, past}},
		[]resourcesync.Entry{{Loc: loc}, {Loc: "urn:x:1", Lastmod: day1, ChangeFreq: "never", Metadata: content, Links: related},
			{Loc: loc, Metadata: resourcesync.Metadata{HasLength: true}}}},
	{"resource list index", resourcesync.Header{Capability: resourcesync.ResourceList, Index: true, At: day1, Completed: day3, Links: []resourcesync.Link{up, about, past}},
		[]resourcesync.Entry{{Loc: loc, Metadata: resourcesync.Metadata{At: day1, Completed: day2}}, {Loc: loc, Lastmod: day1, Metadata: resourcesync.Metadata{At: day2, Completed: day3}}}},
	{"resource dump", resourcesync.Header{Capability: resourcesync.ResourceDump, At: day1, Completed: day3, Links: []resourcesync.Link{up, toIndex}},
		[]resourcesync.Entry{{Loc: loc, Lastmod: day2,
			Metadata: with(content, func(m *resourcesync.Metadata) { m.At, m.Completed = day1, day2 }),
			Links:    []resourcesync.Link{{Rel: resourcesync.RelContents, Href: "https://lib.example.net/m.xml", Type: "application/xml"}}}}},
	{"resource dump index", resourcesync.Header{Capability: resourcesync.ResourceDump, Index: true, At: day1, Links: []resourcesync.Link{up}},
		[]resourcesync.Entry{{Loc: loc, Metadata: resourcesync.Metadata{At: day1}}}},
	{"resource dump manifest", resourcesync.Header{Capability: resourcesync.ResourceDumpManifest, At: day1, Links: []resourcesync.Link{up}},
		[]resourcesync.Entry{{Loc: loc, Lastmod: day1, ChangeFreq: "daily", Links: related,
			Metadata: with(content, func(m *resourcesync.Metadata) { m.Path = "/b/é \"1\".tif" })}}},
	{"change list", resourcesync.Header{Capability: resourcesync.ChangeList, From: day1, Until: day3, Links: []resourcesync.Link{up, toIndex, past}},
		[]resourcesync.Entry{
			{Loc: loc, Lastmod: date("1999-08-01T00:00:00Z"), ChangeFreq: "always", Metadata: changed(resourcesync.Created, day1, content), Links: related},
			{Loc: loc, Metadata: changed(resourcesync.Updated, day1, resourcesync.Metadata{}), Links: []resourcesync.Link{patch("")}},
			{Loc: loc, Metadata: changed(resourcesync.Deleted, day3, resourcesync.Metadata{})},
		}},
	{"open change list", resourcesync.Header{Capability: resourcesync.ChangeList, From: day1, Links: []resourcesync.Link{up}}, nil},
	{"change list index", resourcesync.Header{Capability: resourcesync.ChangeList, Index: true, From: day1, Links: []resourcesync.Link{up}},
		[]resourcesync.Entry{{Loc: loc, Metadata: resourcesync.Metadata{From: day1, Until: day2}}, {Loc: loc, Lastmod: day3, Metadata: resourcesync.Metadata{From: day2}}}},
	{"change dump", resourcesync.Header{Capability: resourcesync.ChangeDump, From: day1, Until: day3, Links: []resourcesync.Link{up, toIndex}},
		[]resourcesync.Entry{{Loc: loc, Metadata: with(content, func(m *resourcesync.Metadata) { m.From, m.Until = day1, day3 }),
			Links: []resourcesync.Link{{Rel: resourcesync.RelContents, Href: "https://lib.example.net/m.xml"}}}}},
	{"change dump index", resourcesync.Header{Capability: resourcesync.ChangeDump, Index: true, From: day1, Until: day3, Links: []resourcesync.Link{up, about}},
		[]resourcesync.Entry{{Loc: loc, Metadata: resourcesync.Metadata{From: day1, Until: day3}}}},
	{"change dump manifest", resourcesync.Header{Capability: resourcesync.ChangeDumpManifest, From: day1, Until: day3, Links: []resourcesync.Link{up}},
		[]resourcesync.Entry{
			{Loc: loc, Metadata: with(changed(resourcesync.Updated, day2, content), func(m *resourcesync.Metadata) { m.Path = "/1" }),
				Links: []resourcesync.Link{patch("/p/1")}},
			{Loc: loc, Metadata: changed(resourcesync.Deleted, day2, resourcesync.Metadata{})},
		}},
	{"resource list archive", resourcesync.Header{Capability: resourcesync.ResourceListArchive, Links: []resourcesync.Link{up, toIndex}},
		[]resourcesync.Entry{{Loc: loc, Metadata: resourcesync.Metadata{At: day1, Completed: day2}}}},
	{"change dump archive", resourcesync.Header{Capability: resourcesync.ChangeDumpArchive, Links: []resourcesync.Link{up}},
		[]resourcesync.Entry{{Loc: loc, Lastmod: day1, Metadata: resourcesync.Metadata{From: day1, Until: day2}}}},
	{"archive index", resourcesync.Header{Capability: resourcesync.ResourceDumpArchive, Index: true, Links: []resourcesync.Link{up}},
		[]resourcesync.Entry{{Loc: loc, Lastmod: day1}}},
	{"change notification", resourcesync.Header{Capability: resourcesync.ChangeNotification, From: day1, Until: day3, Links: []resourcesync.Link{up}},
		[]resourcesync.Entry{{Loc: loc, Metadata: changed(resourcesync.Created, day2, content)}}},
}

// Written documents are read back equal, by a strict Reader and by another
// parser.
func TestSamples(t *testing.T) {
	t.Parallel()
	for _, s := range samples {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			doc := write(t, s.header, s.entries...)
			wantDocument(t, doc, s.header, s.entries)
			if ok, out := xmllint(t, string(doc)); !ok {
				t.Errorf("xmllint: %s", out)
			}
		})
	}
}
