package resourcesync_test

import (
	"bytes"
	"strings"
	"testing"

	"lockstep/resourcesync"
)

// A password with /, ? or # in it makes an address invalid. Readers show no part of it, and
// do not guess what the host is: the entry counts as unreadable, and the link is ignored.
func TestPasswordsInInvalidAddresses(t *testing.T) {
	t.Parallel()
	for _, uri := range []string{"http://bob:s3cret/s3cret@example.org/a", "http://bob:s3cret#s3cret@example.org/a", "http://b@c:s3cret?x@s3cret@example.org/"} {
		entry := "<url><loc>" + uri + "</loc></url>"
		link := `<url><loc>http://example.org/b</loc><rs:ln rel="via" href="` + uri + `"/></url>`
		got, err := readAll(inRoot(upLink+listMD+entry+link), resourcesync.ReaderOptions{Exact: true})
		if err != nil || len(got.entries) != 1 || got.entries[0].Loc != "http://example.org/b" || len(got.entries[0].Links) > 0 {
			t.Errorf("%s: read %+v, %v; want one entry without links", uri, got.entries, err)
		}
		if got.stats.Skipped != 1 || len(got.warnings) < 2 {
			t.Errorf("%s: %+v, %v; want an unreadable entry and warnings", uri, got.stats, got.warnings)
		}
		for _, w := range got.warnings {
			if strings.Contains(w.Message, "s3cret") {
				t.Errorf("%s: warning %s", uri, w.Message)
			}
		}
	}
}

// Errors of a Writer show no passwords.
func TestWriterShowsNoPasswords(t *testing.T) {
	t.Parallel()
	for _, uri := range []string{"http://bob:s3cret@example.org/a", "http://bob:s3cret/s3cret@example.org/a", "http://bob:s3cret s3cret@example.org/a"} {
		h, entries := sampleOf(t, "resource list")
		w, err := resourcesync.NewWriter(new(bytes.Buffer), h)
		if err != nil {
			t.Fatal(err)
		}
		e := entries[0]
		e.Loc = uri
		if err := w.Write(&e); err == nil || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("loc %s: error %v", uri, err)
		}
		e.Loc, e.Links = "http://example.org/", []resourcesync.Link{{Rel: "via", Href: uri}}
		if err := w.Write(&e); err == nil || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("href %s: error %v", uri, err)
		}
	}
}
