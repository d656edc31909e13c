package fetch_test

import (
	"net/http"
	"testing"

	"lockstep/internal/fetch"
)

// TestWhatChangesInTheSecondOfItsResponseHasNoValidators: it may change again without
// new ones.
func TestWhatChangesInTheSecondOfItsResponseHasNoValidators(t *testing.T) {
	t.Parallel()
	const second, next = "Mon, 23 Nov 2026 10:00:00 GMT", "Mon, 23 Nov 2026 10:00:01 GMT"
	tests := map[string]struct {
		header         http.Header
		etag, modified string
	}{
		"changed before":     {http.Header{"Date": {next}, "Last-Modified": {second}, "Etag": {`"1"`}}, `"1"`, second},
		"changed just now":   {http.Header{"Date": {second}, "Last-Modified": {second}, "Etag": {`"1"`}}, "", ""},
		"changed later":      {http.Header{"Date": {second}, "Last-Modified": {next}, "Etag": {`"1"`}}, "", ""},
		"no Last-Modified":   {http.Header{"Date": {second}, "Etag": {`"1"`}}, `"1"`, ""},
		"no Date":            {http.Header{"Last-Modified": {second}, "Etag": {`"1"`}}, `"1"`, ""},
		"no date at all":     {http.Header{"Date": {second}, "Last-Modified": {"yesterday"}, "Etag": {`"1"`}}, `"1"`, ""},
		"nothing but a date": {http.Header{"Date": {next}, "Last-Modified": {second}}, "", second},
		"nothing to rely on": {http.Header{}, "", ""},
	}
	for name, tt := range tests {
		if etag, modified := fetch.Validators(tt.header); etag != tt.etag || modified != tt.modified {
			t.Errorf("%s: %q, %q, want %q, %q", name, etag, modified, tt.etag, tt.modified)
		}
	}
}
