package source

import (
	"path"
	"sort"

	"lockstep/atompmh"
	"lockstep/source/internal/names"
	"lockstep/source/internal/serve"
)

// A Layout says where the documents of a Source are, and what is to be stated of
// them, to those who configure another web server to serve what Publish wrote.
// Names are relative to the base URL, and to the directory Publish wrote to.
type Layout struct {
	WellKnown   string      // the Source Description, which is also looked for at the root of the origin (RS-SD-09)
	Description string      // its media type
	Robots      string      // robots.txt, which is looked for there only
	Documents   string      // directory of all other documents, with a slash at the end
	Index       string      // page in it that represents it
	Private     string      // directory that must not be served, with a slash at the end
	Variant     string      // what the name of a compressed variant ends in, see Compressed
	Types       []MediaType // of what is below Documents
	Feed        string      // what the newest document of a set's feed is called there, whose media type does not follow from an extension
	FeedType    string      // and that type

	// Immutable matches the path below Documents of what never changes. It is in
	// the syntax that PCRE and RE2 share, begins with an anchor, and has no
	// braces or blanks.
	Immutable string

	Forever    string // Cache-Control of what never changes
	Revalidate string // and of everything else
}

// A MediaType is that of names with an extension.
type MediaType struct {
	Extension string // without the dot
	Type      string
}

// WebLayout returns the Layout of every Source. It agrees with [Attributes].
func WebLayout() Layout {
	l := Layout{
		WellKnown: names.WellKnown, Robots: names.Robots, Documents: names.DocumentsDir, Index: path.Base(names.Hint), Private: names.PrivateDir,
		Variant:   names.GzipSuffix,
		Immutable: `^(` + names.DescriptionPrefix + `[0-9a-f]+\.xml(\.gz)?$|[^/]+/(resourcelist|resourcedump|changedump|feed)-[0-9]|[^/]+/patches/[0-9]+/T)`,
		Forever:   serve.CacheForever, Revalidate: serve.CacheRevalidate,
	}
	l.Description, _ = Attributes(names.WellKnown)
	l.Feed, l.FeedType = names.FeedFile, atompmh.MediaType
	for _, name := range []string{names.Hint, names.Set(DefaultSet).CapabilityList(), names.Set(DefaultSet).Demand() + names.PackageSuffix, names.Feed(DefaultSet).Archive("", 0), names.Hint + names.GzipSuffix} {
		t, _ := Attributes(name)
		l.Types = append(l.Types, MediaType{path.Ext(name)[1:], t})
	}
	for t, ext := range names.PatchTypes {
		l.Types = append(l.Types, MediaType{ext[1:], t})
	}
	sort.SliceStable(l.Types, func(i, j int) bool { return l.Types[i].Extension < l.Types[j].Extension })
	return l
}
