package atompmh_test

import (
	"bytes"
	"strings"
	"testing"

	"lockstep/atompmh"
)

// A password with /, ? or # in it makes an address invalid. Readers show no part of it, and
// ignore the link instead of guessing what its host is.
func TestPasswordsInInvalidAddresses(t *testing.T) {
	t.Parallel()
	for _, uri := range []string{"http://bob:s3cret/s3cret@example.org/a", "http://b@c:s3cret?x@s3cret@example.org/", "//bob:s3cret/s3cret@example.org/a"} {
		for _, at := range []string{base, ""} {
			var said []string
			r := atompmh.NewReader(strings.NewReader(head+`<entry xml:base="`+uri+`"><id>`+strings.TrimPrefix(uri, "http:")+`</id>`+stamp+alternate+
				`<link rel="via" href="`+uri+`"/></entry>`+tail), atompmh.ReaderOptions{Base: at, OnWarning: func(w atompmh.Warning) { said = append(said, w.Message) }})
			for e, err := range r.Entries() {
				if err != nil || len(e.Links) != 1 {
					t.Errorf("%s: read %+v, %v; want the other link alone", uri, e.Links, err)
				}
			}
			if text := strings.Join(said, "\n"); strings.Contains(text, "s3cret") || len(said) < 2 {
				t.Errorf("%s: warnings\n%s", uri, text)
			}
		}
	}
}

// Errors of a Writer show no passwords.
func TestWriterShowsNoPasswords(t *testing.T) {
	t.Parallel()
	for _, uri := range []string{"http://bob:s3cret@example.org/a", "http://bob:s3cret/s3cret@example.org/a", "http://bob:s3cret s3cret@example.org/a"} {
		f := atompmh.Feed{ID: uri, Title: "T", Updated: feedTime}
		if _, err := atompmh.NewWriter(new(bytes.Buffer), f); err == nil || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("id %s: error %v", uri, err)
		}
		f = atompmh.Feed{ID: "urn:f", Title: "T", Author: "A", Self: base, Updated: feedTime}
		w, err := atompmh.NewWriter(new(bytes.Buffer), f)
		if err != nil {
			t.Fatal(err)
		}
		e := atompmh.Entry{ID: uri, Title: "T", Updated: may1, Links: []atompmh.Link{{Rel: "alternate", Type: "text/plain", Href: uri}}}
		if err := w.Write(&e); err == nil || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("link %s: error %v", uri, err)
		}
	}
}
