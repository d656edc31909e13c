package intake_test

import (
	"crypto/sha256"
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

func must(t tb, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
