package pathname

import (
	"testing"
)

// TestBaseURI: resources are below an address that can be fetched.
func TestBaseURI(t *testing.T) {
	t.Parallel()
	for base, ok := range map[string]bool{"https://example.org/a": true, "http://example.org": true, "ftp://example.org/": false, "https://u:p@example.org/": false, "https://example.org/#a": false} {
		if _, err := ParseBase(base); (err == nil) != ok {
			t.Errorf("%s: %v", base, err)
		}
	}
}
