package mediatype_test

import (
	"testing"

	"lockstep/internal/mediatype"
)

func TestOf(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, head, want string }{
		{"a.txt", "", "text/plain"},
		{"A.PDF", "", "application/pdf"},
		{"a.tar.gz", "", "application/gzip"},
		{"page.warc", "", "application/warc"},
		{"x.jp2", "", "image/jp2"},
		{"x.unknown", "%PDF-1.7\n", "application/pdf"},
		{"LICENSE", "Permission is hereby granted", "text/plain"},
		{"noext", "\x89PNG\r\n\x1a\n", "image/png"},
		{"x.", "<?xml version=\"1.0\"?><a/>", "text/xml"},
		{".txt", "", "text/plain"},
		{"binary", "\x00\x01\x02\x03", "application/octet-stream"},
	} {
		if got := mediatype.Of(tt.name, []byte(tt.head)); got != tt.want {
			t.Errorf("Of(%q, %q) = %q, want %q", tt.name, tt.head, got, tt.want)
		}
	}
}
