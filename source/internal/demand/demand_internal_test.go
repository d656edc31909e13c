package demand

import (
	"strings"
	"testing"
)

// FuzzDemand checks that a request's body yields URIs in order, each once and no
// more than allowed, or an error that blames the client.
func FuzzDemand(f *testing.F) {
	for _, body := range []string{"http://h/a\nhttp://h/b\r\n\nhttp://h/a", `["a","b"]`, `["a",1]`, `[["a"]]`, `["a"]x`, `{"a":"b"}`, `["\u0000"]`, "[", ""} {
		f.Add("text/plain; charset=utf-8", body)
		f.Add("application/json", body)
	}
	f.Fuzz(func(t *testing.T, typ, body string) {
		uris, err := parseDemand(typ, strings.NewReader(body), 5)
		if err != nil {
			if p, ok := err.(*demandProblem); !ok || p.status < 400 || p.status > 499 || len(uris) > 0 {
				t.Errorf("parseDemand(%q, %q) = %q, %v", typ, body, uris, err)
			}
			return
		}
		for i, uri := range uris {
			if uri == "" || i > 0 && uri <= uris[i-1] || strings.ContainsRune(uri, 0) {
				t.Errorf("parseDemand(%q, %q) = %q", typ, body, uris)
			}
		}
		if len(uris) > 5 {
			t.Errorf("parseDemand(%q, %q) = %d URIs", typ, body, len(uris))
		}
	})
}
