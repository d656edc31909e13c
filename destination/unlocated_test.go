package destination_test

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"lockstep/destination"
)

// spoiled are the ways to make the loc of an entry unreadable.
var spoiled = map[string]func(entry, loc string) string{
	"no loc":        func(e, loc string) string { return strings.Replace(e, "<loc>"+loc+"</loc>", "", 1) },
	"empty loc":     func(e, loc string) string { return strings.Replace(e, loc, "", 1) },
	"blank loc":     func(e, loc string) string { return strings.Replace(e, loc, " \n ", 1) },
	"words":         func(e, loc string) string { return strings.Replace(e, loc, "not a uri", 1) },
	"bad host":      func(e, loc string) string { return strings.Replace(e, loc, "http://[::1/a", 1) },
	"bad port":      func(e, loc string) string { return strings.Replace(e, loc, "http://a.example:port/a", 1) },
	"no host":       func(e, loc string) string { return strings.Replace(e, loc, "http://", 1) },
	"bad escape":    func(e, loc string) string { return strings.Replace(e, loc, loc+"%zz", 1) },
	"in a comment":  func(e, loc string) string { return strings.Replace(e, loc, "<!-- "+loc+" -->", 1) },
	"in an element": func(e, loc string) string { return strings.Replace(e, loc, "<b>"+loc+"</b>", 1) },
	"upper case": func(e, loc string) string {
		return strings.NewReplacer("<loc>", "<LOC>", "</loc>", "</LOC>").Replace(e)
	},
	"loc of no namespace": func(e, _ string) string { return strings.Replace(e, "<loc>", `<loc xmlns="">`, 1) },
	"loc of another":      func(e, _ string) string { return strings.Replace(e, "<loc>", `<loc xmlns="urn:x">`, 1) },
	"entry of no space":   func(e, _ string) string { return namespaced(e, "") },
	"misspelt namespace":  func(e, _ string) string { return namespaced(e, "http://www.sitemaps.org/schemas/sitemap/9.0") },
	"entry in an element": func(e, _ string) string { return `<x:group xmlns:x="urn:x">` + e + `</x:group>` },
	"entry in an entry":   func(e, _ string) string { return "<url>" + e + "</url>" },
	"two locs":            func(e, loc string) string { return strings.Replace(e, "<loc>", "<loc>"+loc+"z</loc><loc>", 1) },
	"entry in upper case": func(e, loc string) string {
		return strings.NewReplacer("url>", "URL>", "sitemap>", "SITEMAP>", loc, "").Replace(e)
	},
	"loc that is too deep": func(e, loc string) string {
		return strings.Replace(e, "<loc>"+loc+"</loc>", "<x><loc>"+loc+"</loc></x>", 1)
	},
}

func namespaced(entry, space string) string {
	i := strings.IndexByte(entry, '>')
	return entry[:i] + ` xmlns="` + space + `"` + entry[i:]
}

var anEntry = regexp.MustCompile(`(?s)<(url|sitemap)>.*?</(url|sitemap)>`)

// spoil spoils the last entry of a document whose loc ends in suffix.
func spoil(text, suffix string, how func(entry, loc string) string) string {
	at := anEntry.FindAllStringIndex(text, -1)
	for _, p := range slices.Backward(at) {
		e := text[p[0]:p[1]]
		if loc := e[strings.Index(e, "<loc>")+5 : strings.Index(e, "</loc>")]; strings.HasSuffix(loc, suffix) {
			return text[:p[0]] + how(e, loc) + text[p[1]:]
		}
	}
	return text
}

// TestEntriesWithoutLoc: whatever makes the loc of one entry unreadable, in
// whatever kind of document, the reading is incomplete: nothing is deleted for
// not being listed, the run reports it and fails; once the entry is repaired the
// mirror is the same as the Source. Deletions that the Source states are carried out.
func TestEntriesWithoutLoc(t *testing.T) {
	t.Parallel()
	whole := []struct {
		name   string
		style  style
		doc    string // a prefix of its path
		suffix string
	}{
		{"resource list", style{noChanges: true}, "/rs/resourcelist.xml", "/c"},
		{"resource list index", style{noChanges: true, listParts: 2}, "/rs/resourcelist.xml", ""},
		{"part of an index", style{noChanges: true, listParts: 2}, "/rs/list-1", "/c"},
		{"resource dump", style{noChanges: true, dumpStyle: dumpStyle{dump: true, noList: true, each: 2}}, "/rs/resourcedump.xml", ""},
		{"dump manifest", style{noChanges: true, dumpStyle: dumpStyle{dump: true, noList: true}}, "manifest.xml", "/c"},
		{"copy of a manifest", style{noChanges: true, dumpStyle: dumpStyle{dump: true, noList: true, copies: true}}, "manifest.xml", "/c"},
		{"sitemap", style{sitemap: true}, "/sitemap.xml", "/c"},
		{"capability list", style{noChanges: true}, "/rs/capabilitylist.xml", ""},
		{"source description", style{noChanges: true}, "/.well-known/resourcesync", ""},
	}
	for _, kind := range whole {
		for _, how := range waysToSpoil(kind.name) {
			t.Run(kind.name+"/"+how, func(t *testing.T) {
				t.Parallel()
				s, m := spoiledSite(t, kind.style)
				if kind.style.sitemap {
					m.opts.Delete = destination.DeleteApply
				}
				m.mustSync()
				s.put("/e", "new")
				s.del("/d")
				s.setRewrite(kind.doc, kind.suffix, spoiled[how])
				s.dumps.at = s.dumps.at.Add(-1)
				s.makeDump()
				before := m.files()
				r, err := m.sync()
				if kind.name != "source description" {
					wantIncomplete(t, r, err)
				} else if err == nil {
					t.Errorf("Sync: %+v", r)
				}
				for path := range before {
					if _, ok := m.files()[path]; !ok {
						t.Errorf("%s was deleted\n%+v", path, r)
					}
				}
				if _, err := m.destination().Audit(t.Context(), m.address(), destination.AuditOptions{}); err == nil {
					t.Errorf("Audit: %v", err)
				}
				s.setRewrite("", "", nil)
				s.makeDump()
				m.mustSync()
			})
		}
	}
}

// TestChangesWithoutLoc: of a document of changes the other entries count, the
// deletions among them.
func TestChangesWithoutLoc(t *testing.T) {
	t.Parallel()
	for _, kind := range []struct {
		name   string
		style  style
		doc    string
		suffix string
	}{
		{"change list", style{}, "/rs/changelist.xml", "/c"},
		{"part of an index", style{parts: 4}, "/rs/changes-", "/c"},
		{"change dump manifest", style{dumpStyle: dumpStyle{changeDump: true, noChangeList: true}}, "manifest.xml", "/c"},
	} {
		for _, how := range waysToSpoil(kind.name) {
			t.Run(kind.name+"/"+how, func(t *testing.T) {
				t.Parallel()
				s, m := spoiledSite(t, kind.style)
				m.mustSync()
				s.put("/c", "new")
				s.put("/e", "new")
				s.del("/d")
				s.setRewrite(kind.doc, kind.suffix, spoiled[how])
				for range 2 { // it stays so
					r, err := m.sync()
					wantIncomplete(t, r, err)
				}
				got := m.files()
				if got["c"] != "c" || got["e"] != "new" || got["d"] != "" {
					t.Errorf("mirror: %q", got)
				}
				s.setRewrite("", "", nil)
				s.dumps = siteDumps{}
				m.mustSync()
			})
		}
	}
}

// TestReadableEntries: what does not hide which resource an entry is about does
// not make a reading incomplete.
func TestReadableEntries(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(e, loc string) string{
		"bad lastmod":     func(e, _ string) string { return strings.Replace(e, "</loc>", "</loc><lastmod>yesterday</lastmod>", 1) },
		"bad md":          func(e, _ string) string { return strings.Replace(e, "<rs:md ", `<rs:md type="-" encoding="" `, 1) },
		"white space":     func(e, loc string) string { return strings.Replace(e, loc, "\n"+loc+" ", 1) },
		"cdata":           func(e, loc string) string { return strings.Replace(e, loc, "<![CDATA["+loc+"]]>", 1) },
		"attributes":      func(e, _ string) string { return strings.Replace(e, "<loc>", `<loc a="b">`, 1) },
		"twice the same":  func(e, loc string) string { return strings.Replace(e, "<loc>", "<loc>"+loc+"</loc><loc>", 1) },
		"foreign element": func(e, _ string) string { return `<x:y xmlns:x="urn:x"><x:loc>a b</x:loc></x:y>` + e },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, m := spoiledSite(t, style{noChanges: true})
			m.mustSync()
			s.del("/d")
			s.setRewrite("/rs/resourcelist.xml", "/c", change)
			m.mustSync()
		})
	}
}

// waysToSpoil returns all of them for the two kinds of documents that mirrors
// read most, and some for the others.
func waysToSpoil(kind string) []string {
	if kind == "resource list" || kind == "change list" {
		return slices.Sorted(maps.Keys(spoiled))
	}
	return []string{"no loc", "words", "misspelt namespace"}
}

func spoiledSite(t *testing.T, st style) (*site, *mirror) {
	s := newSite(t, st)
	for _, name := range []string{"a", "b", "c", "d", "e", "f", "g", "h"} {
		s.put("/"+name, name)
	}
	return s, newMirror(t, s)
}

func (s *site) setRewrite(doc, suffix string, how func(entry, loc string) string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rewrite = nil
	if how == nil {
		return
	}
	s.rewrite = func(path, text string) string {
		if !strings.HasPrefix(path, doc) {
			return text
		}
		return spoil(text, suffix, how)
	}
}

func wantIncomplete(t *testing.T, r destination.Report, err error) {
	t.Helper()
	if !errors.Is(err, destination.ErrIncomplete) {
		t.Fatalf("Sync: %v\n%+v", err, r)
	}
	if strings.Contains(err.Error(), "no set could be read") {
		return
	}
	if !slices.ContainsFunc(r.Failures, func(f destination.Failure) bool {
		return strings.Contains(f.Cause, "line ") && strings.Contains(f.Cause, "http://") && strings.Contains(f.Cause, "incomplete")
	}) {
		t.Errorf("no failure says which entry of which document it is: %s", fmt.Sprint(r.Failures))
	}
}
