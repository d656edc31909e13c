package dir

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"lockstep/catalog"
	"lockstep/intake/internal/entry"
	"lockstep/intake/internal/listed"
	"lockstep/resourcesync"
)

// FuzzSidecar sees to it that the links that are taken can be published.
func FuzzSidecar(f *testing.F) {
	f.Add([]byte(`{"links":[{"rel":"Via","href":"urn:x","modified":"2024","length":0,"pri":9},{"rel":"urn:y","href":"urn:z"}]}`))
	f.Add([]byte(`{"links":null}`))
	f.Add([]byte(`{"foreign":"<foreign xmlns:x='urn:x' x:a='1'><x:b xmlns:x='urn:x'>c</x:b></foreign>","links":[]}`))
	f.Add([]byte(`{"links":[],"links":[]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		said, err := parseSidecar(text)
		if err != nil {
			place, ok := errors.AsType[*entry.Error](err)
			if !ok || place.Offset < 0 || place.Offset > len(text) {
				t.Fatalf("parseSidecar(%q): %#v", text, err)
			}
			return
		}
		if err := entry.CheckListed(&resourcesync.Entry{Loc: "urn:x", Links: said.Links, Foreign: said.Foreign}); err != nil {
			t.Fatalf("parseSidecar(%q) takes what no Resource List can state: %v", text, err)
		}
		want := catalog.Record{URI: "urn:x", Links: said.Links, Foreign: said.Foreign}
		got, err := listed.ParseRecord(listed.AppendRecord(nil, &want))
		got.URI = want.URI
		byInstant := cmp.Comparer(func(a, b resourcesync.Datetime) bool { return a.Compare(b) == 0 })
		if diff := cmp.Diff(want, got, byInstant); diff != "" || err != nil {
			t.Fatalf("%q is not what it was after packing: %v (-want +got)\n%s", text, err, diff)
		}
	})
}
