package validate_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"lockstep/validate"
	"lockstep/validate/opener"
)

// TestNamedFeed: anything but a feed at the announced address of a feed
// violates the rules of feeds.
func TestNamedFeed(t *testing.T) {
	t.Parallel()
	for text, says := range map[string]string{
		"<!doctype html><html></html>": "HTML",
		"":                             "",
		"hello":                        "XML",
		`<rss version="2.0"/>`:         "RSS",
		`<entry xmlns="http://www.w3.org/2005/Atom"/>`:        "one entry",
		`<feed xmlns="http://purl.org/atom/ns#"/>`:            "namespace",
		`<urlset xmlns="http://www.sitemaps.org/schemas/x"/>`: "urlset",
	} {
		r, err := validate.Feed(t.Context(), serving(func(string) string { return text }), base+"f", validate.Options{TempDir: t.TempDir(), Settle: 1})
		if err != nil || len(r.Findings) != 1 || r.Findings[0].Rule != "AP-DOC-01" || !strings.Contains(r.Findings[0].Message, says) {
			t.Errorf("%q: %v, %v, want AP-DOC-01 with %q", text, r.Findings, err, says)
		}
	}
}

// TestFeedCompressed: a feed that is compressed without saying so is unreadable
// for most readers; the validator reads it.
func TestFeedCompressed(t *testing.T) {
	t.Parallel()
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	_, _ = io.WriteString(z, feedOf("2024-05-01T00:00:00Z", "", "urn:x:1 2024-05-01T00:00:00Z "+gone)) // into memory
	_ = z.Close()                                                                                      // likewise
	asked := 0
	open := func(context.Context, opener.Request) (*opener.Answer, error) {
		asked++
		h := http.Header{"Content-Type": {"application/atom+xml"}, "Etag": {`"1"`}, "Last-Modified": {"Wed, 01 May 2024 03:00:00 GMT"}}
		if asked > 3 { // two requests for its kind, and one for the feed
			return nil, opener.ErrNotModified
		}
		return &opener.Answer{Header: h, Size: -1, Body: io.NopCloser(bytes.NewReader(packed.Bytes()))}, nil
	}
	r, rules := findings(t, open, "f", validate.Options{})
	if !slices.Equal(rules, []string{"AP-DOC-11", "AP-HTTP-02"}) || r.Entries != 1 {
		t.Errorf("%v", r.Findings)
	}
	if asked > 8 {
		t.Errorf("asked %d times: what stays the same is read once", asked)
	}
}
