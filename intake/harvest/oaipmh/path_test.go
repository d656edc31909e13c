package oaipmh_test

import (
	"net/url"
	"strings"
	"testing"

	"lockstep/blob"
	"lockstep/intake/harvest/oaipmh"
)

// identifierOf reads what RecordPath made: that can be done, so two identifiers
// never have the same path.
func identifierOf(path string) string {
	name, err := url.PathUnescape(path)
	if err != nil {
		return err.Error()
	}
	return strings.NewReplacer("%2F", "/", "%25", "%").Replace(strings.TrimSuffix(name, ".xml"))
}

func TestRecordPath(t *testing.T) {
	t.Parallel()
	for id, want := range map[string]string{
		"oai:arXiv.org:cs/0112017": "oai:arXiv.org:cs/0112017.xml",
		"oai:x:10.1/a b?c#d":       "oai:x:10.1/a%20b%3Fc%23d.xml",
		"a//b":                     "a%252F%252Fb.xml",
		"/a":                       "%252Fa.xml",
		"../../etc/passwd":         "..%252F..%252Fetc/passwd.xml",
		"a/":                       "a/.xml",
		"a%2Fb":                    "a%25252Fb.xml",
		"resourcesync/main":        "resourcesync%252Fmain.xml",
		"":                         ".xml",
		"ä":                        "%C3%A4.xml",
	} {
		if got := oaipmh.RecordPath(id); got != want {
			t.Errorf("RecordPath(%q) = %q, want %q", id, got, want)
		}
		if back := identifierOf(want); back != id {
			t.Errorf("%q leads to the path %q, which leads back to %q", id, want, back)
		}
	}
}

func FuzzRecordPath(f *testing.F) {
	for _, id := range []string{"oai:x:1", "a//b", "..", "./.", "%2F", "%252F/", "-/x", "\xff"} {
		f.Add(id)
	}
	f.Fuzz(func(t *testing.T, id string) {
		path := oaipmh.RecordPath(id)
		if back := identifierOf(path); back != id {
			t.Fatalf("%q has the path %q, which is of %q", id, path, back)
		}
		name := oaipmh.RecordName(id)
		if !blob.ValidName(name) && !strings.Contains(id, "\x00") {
			t.Fatalf("%q has the name %q", id, name)
		}
		u, err := url.Parse("http://example.org/" + path)
		if err != nil || u.Path != "/"+name || u.EscapedPath() != "/"+path {
			t.Fatalf("%q has the path %q: %v, %v", id, path, u, err)
		}
	})
}
