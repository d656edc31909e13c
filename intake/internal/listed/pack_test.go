package listed

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"lockstep/catalog"
	"lockstep/resourcesync"
)

var byInstant = cmp.Comparer(func(a, b resourcesync.Datetime) bool { return a.Compare(b) == 0 })

// FuzzParseRecord sees to it that damage is noticed, not followed.
func FuzzParseRecord(f *testing.F) {
	f.Add(AppendRecord(nil, &catalog.Record{Length: -1, Links: []resourcesync.Link{{Rel: "via", Href: "urn:x"}}}))
	foreign, err := resourcesync.ParseForeign(`<foreign xmlns:x="urn:x" x:a="1"/>`)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(AppendRecord(nil, &catalog.Record{Foreign: foreign}))
	f.Add(AppendRecord(nil, &catalog.Record{Links: []resourcesync.Link{{Rel: "via", Href: "urn:x"}, {Rel: "via", Href: "urn:y", Foreign: foreign}}}))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := ParseRecord(b)
		if err == nil {
			roundTripLoose(t, &r)
		}
	})
}

func roundTripLoose(t *testing.T, r *catalog.Record) {
	t.Helper()
	got, err := ParseRecord(AppendRecord(nil, r))
	if diff := cmp.Diff(*r, got, byInstant); diff != "" || err != nil {
		t.Fatalf("parseRecord(appendRecord(%+v)): %v (-want +got)\n%s", *r, err, diff)
	}
}
