package linkrel_test

import (
	"testing"

	"lockstep/internal/linkrel"
)

// TestCheck: registered names and URIs are relations, anything else is not
// (RS-LN-03).
func TestCheck(t *testing.T) {
	t.Parallel()
	for _, rel := range []string{"alternate", "describedby", "Canonical", "duplicate", "collection", "memento", "timegate", "resourcesync", "intervalAfter", "http://www.openarchives.org/rs/terms/patch", "urn:x:y", "tag:example.org,2026:rel"} {
		if err := linkrel.Check(rel); err != nil {
			t.Errorf("%s: %v", rel, err)
		}
	}
	for _, rel := range []string{"", "sitemap", "my-own", "canonical2", "alternate describedby", "//example.org/rel", "/rel", "http:", "a b:c", ":x"} {
		if linkrel.Check(rel) == nil {
			t.Errorf("%q is taken for a relation", rel)
		}
	}
}
