package atompmh_test

import (
	"strings"
	"testing"

	"lockstep/intake/harvest/atompmh"
)

// TestFeedEntriesWithoutIdentity: the same of feeds. Where the feed is complete,
// nothing is deleted.
func TestFeedEntriesWithoutIdentity(t *testing.T) {
	t.Parallel()
	entry := live("b", "11:00")
	for name, bad := range map[string]string{
		"no id":              strings.Replace(entry, "<id>urn:x-test:b</id>", "", 1),
		"empty id":           strings.Replace(entry, "urn:x-test:b", "", 1),
		"no link":            `<entry><id>urn:x-test:b</id><title>b</title><updated>` + stamp("11:00") + `</updated></entry>`,
		"no href":            strings.Replace(entry, ` href="BASE/b"`, "", 1),
		"no time":            strings.Replace(entry, "updated>", "changed>", 2),
		"no namespace":       strings.Replace(entry, "<entry>", `<entry xmlns="">`, 1),
		"misspelt namespace": strings.Replace(entry, "<entry>", `<entry xmlns="http://www.w3.org/2005/atom">`, 1),
	} {
		for _, head := range []string{"", complete} {
			t.Run(name+"/"+head, func(t *testing.T) {
				t.Parallel()
				s := newFeedSite(t)
				h := follow(t, s, atompmh.Options{})
				s.put(map[string]string{"/feed": feedOf("12:00", head, live("a", "11:00"), live("b", "11:00"), live("c", "11:00"))})
				h.clean()
				s.put(map[string]string{"/feed": feedOf("12:01", head, live("a", "11:00"), strings.ReplaceAll(bad, "BASE", s.URL))})
				if r := h.run(); r.Unreadable.Count == 0 {
					t.Errorf("the harvest is said to be complete: %+v", r)
				}
				h.holds("a b c")
				s.put(map[string]string{"/feed": feedOf("12:02", head, live("a", "11:00"))})
				h.clean()
				if head != "" {
					h.holds("a")
				}
			})
		}
	}
}
