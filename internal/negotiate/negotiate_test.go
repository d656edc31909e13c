package negotiate_test

import (
	"strings"
	"testing"

	"lockstep/internal/negotiate"
)

func TestGzip(t *testing.T) {
	t.Parallel()
	for lines, want := range map[string]bool{
		"": false, "gzip": true, "x-gzip": true, "GZIP": true, "deflate, gzip;q=0.5": true, "*": true, "br\ngzip": true,
		"gzip;q=0": false, "gzip; q=0.000": false, "*;q=0": false, "*, gzip;q=0": false, "identity, gzip;q=0.5": false, "identity;q=0.5, *": true,
		"gzip;q=2": false, "gzip;level=1": false, "deflate": false, "gzipped": false,
	} {
		if negotiate.Gzip(strings.Split(lines, "\n")) != want {
			t.Errorf("Gzip(%q) is not %v", lines, want)
		}
	}
	if negotiate.Gzip(nil) {
		t.Error("who says nothing is sent gzip")
	}
}

func TestHas(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		lines, etag string
		want        bool
	}{
		{`"a"`, `"a"`, true},
		{`W/"a"`, `"a"`, true},
		{`"a"`, `W/"a"`, true},
		{`"b", "a"`, `"a"`, true},
		{"\"b\"\n\"a\"", `"a"`, true},
		{`*`, `"a"`, true},
		{`"b"`, `"a"`, false},
		{`a`, `"a"`, false},
		{`*`, ``, false},
		{``, ``, false},
		{``, `"a"`, false},
	} {
		if got := negotiate.Has(strings.Split(tt.lines, "\n"), tt.etag); got != tt.want {
			t.Errorf("Has(%q, %s) = %v, want %v", tt.lines, tt.etag, got, tt.want)
		}
	}
	if negotiate.Has(nil, `"a"`) {
		t.Error("who says nothing has it")
	}
}
