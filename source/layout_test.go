package source_test

import (
	"path"
	"regexp"
	"strings"
	"testing"

	"lockstep/source"
)

// TestWebLayout holds what other web servers are told to what ours does.
func TestWebLayout(t *testing.T) {
	t.Parallel()
	l := source.WebLayout()
	immutable := regexp.MustCompile(l.Immutable)
	types := map[string]string{}
	for _, m := range l.Types {
		types[m.Extension] = m.Type
	}
	const stamp = "20260102T030405.0000000Z"
	for _, name := range []string{
		"index.html", "description-0123456789abcdef.xml",
		"a/capabilitylist.xml", "a/capabilitylist.xml.gz", "a/resourcelist.xml", "a/changelist.xml", "a/resourcedump.xml", "a/changedump.xml",
		"a/resourcelist-" + stamp + "-00001.xml", "a/resourcelist-" + stamp + "-00001.xml.gz", "a/resourcelist-" + stamp + ".2-00001.xml",
		"a/changelist-" + stamp + ".xml", "a/changelist-" + stamp + ".2.xml",
		"a/resourcedump-" + stamp + "-00001.zip", "a/resourcedump-" + stamp + "-00001.xml", "a/resourcedump-" + stamp + "-list-00001.xml",
		"a/changedump-" + stamp + ".zip", "a/changedump-" + stamp + ".xml", "a/changedump-list-" + stamp + ".xml",
		"a/patches/20260102/T030405.0000000Z-0a1b.json", "a/patches/20260102/T030405.0000000Z-0a1b.dcz",
		"patches/capabilitylist.xml", "description-1/capabilitylist.xml", "description-1.xml2/changelist.xml", "resourcelist-1/changelist.xml",
		"a/atom.xml", "a/atom.xml.gz", "a/feed-" + stamp + "-000001.atom",
	} {
		wantType, wantCache := source.Attributes(l.Documents + name)
		got := types[strings.TrimPrefix(path.Ext(name), ".")]
		if path.Base(name) == l.Feed {
			got = l.FeedType
		}
		if got != wantType {
			t.Errorf("%s: type %q, want %q", name, got, wantType)
		}
		got = l.Revalidate
		if immutable.MatchString(name) {
			got = l.Forever
		}
		if got != wantCache {
			t.Errorf("%s: Cache-Control %q, want %q", name, got, wantCache)
		}
	}
	for _, name := range []string{l.WellKnown, l.Robots} {
		if _, cache := source.Attributes(name); cache != l.Revalidate {
			t.Errorf("%s: Cache-Control %q, want %q", name, cache, l.Revalidate)
		}
	}
	if strings.ContainsAny(l.Immutable, "{} ") {
		t.Errorf("%s has what not every server's configuration can hold", l.Immutable)
	}
}
