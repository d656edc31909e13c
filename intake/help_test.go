package intake_test

import (
	"context"
	"crypto/sha256"
	"fmt"

	"lockstep/catalog"
	"lockstep/intake"
	"lockstep/resourcesync"
)

const (
	set  = "https://example.org/resourcesync/main/capabilitylist.xml"
	base = "https://example.org/data/"
)

// tb is what *testing.T and *rapid.T share.
type tb interface {
	Helper()
	Cleanup(func())
	Fatal(...any)
	Fatalf(string, ...any)
}

// content is what a test knows of a resource: its SHA-256.
type content string

func of(b []byte) content {
	sum := sha256.Sum256(b)
	return content(sum[:])
}

// holds returns what the catalog holds.
func holds(t tb, cat catalog.Catalog) map[string]content {
	t.Helper()
	m := make(map[string]content)
	for r, err := range cat.Resources(context.Background(), set, catalog.Range{}) {
		if err != nil {
			t.Fatal(err)
		}
		m[r.URI] = content(r.Hashes.Get(resourcesync.SHA256))
	}
	return m
}

func must(t tb, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func counts(r intake.Report) string {
	return fmt.Sprintf("%d created, %d updated, %d deleted, %d unchanged, %d listed, %d unreadable",
		r.Created, r.Updated, r.Deleted, r.Unchanged, r.Files, r.Unreadable.Count)
}
