package atompmh_test

import (
	"fmt"
	"strings"
	"testing"

	"lockstep/intake/harvest/atompmh"
)

// TestFeedOfEmptyDocuments follows a chain of archive documents without an entry.
func TestFeedOfEmptyDocuments(t *testing.T) {
	t.Parallel()
	s := newFeedSite(t)
	site := map[string]string{"/feed": feedOf("13:00", prev("/x/1"), live("a", "13:00"))}
	for i := range 1100 {
		site[fmt.Sprintf("/x/%d", i+1)] = feedOf("12:00", prev(fmt.Sprintf("/x/%d", i+2)))
	}
	s.put(site)
	h := follow(t, s, atompmh.Options{})
	reported(t, h.run().Unreadable, "1000 documents in a row")
	if n := strings.Count(s.took(), "/x/"); n > 1000 {
		t.Errorf("%d archive documents asked for", n)
	}
	h.holds("a")
}
