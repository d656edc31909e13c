package column

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"lockstep/catalog"
	"lockstep/resourcesync"
)

// FuzzRecord parses any bytes; a parsed record must be encoded and parsed again
// as the same. The encoding is internal to the package.
func FuzzRecord(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{recordPlain})
	f.Add(AppendRecord(nil, &catalog.Record{Length: -1}))
	f.Add(AppendRecord(nil, &catalog.Record{
		Seq: 1 << 40, EventTime: time.Unix(1_700_000_000, 1000), Lastmod: time.Unix(-5, 0), Length: 1 << 62,
		Type: "a/b", Encoding: "gzip", Token: "\x00\xff",
		Hashes: resourcesync.Hashes{{Algorithm: resourcesync.MD5, Digest: "0123456789abcdef"}, {Algorithm: 255}},
	}))
	linked := catalog.Record{URI: "u", Length: 3, Links: []resourcesync.Link{
		{Rel: "duplicate", Href: "https://m.example.org/a", Pri: 3},
		{Rel: "via", Href: "https://o.example.org/a", Modified: resourcesync.NewDatetime(time.Unix(5, 1000)), HasLength: true,
			Hashes: resourcesync.Hashes{{Algorithm: resourcesync.MD5, Digest: "0123456789abcdef"}}},
	}}
	f.Add(AppendRecord(nil, &linked))
	for _, text := range []string{`<foreign xmlns:x="urn:x" x:a="1"/>`, `<foreign><x:b xmlns:x="urn:x">c</x:b></foreign>`} {
		foreign, err := resourcesync.ParseForeign(text)
		if err != nil {
			f.Fatal(err)
		}
		linked.Foreign = foreign
		f.Add(AppendRecord(nil, &linked))
		linked.Foreign, linked.Links[0].Foreign = resourcesync.Foreign{}, foreign
		f.Add(AppendRecord(nil, &linked))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var r, again catalog.Record
		if err := ParseRecord(b, &r); err != nil {
			return
		}
		if err := ParseRecord(AppendRecord(nil, &r), &again); err != nil {
			t.Fatalf("%+v: %v", r, err)
		}
		if diff := cmp.Diff(r, again, cmp.Comparer(func(a, b resourcesync.Datetime) bool { return a.Compare(b) == 0 })); diff != "" {
			t.Errorf("(-first +again):\n%s", diff)
		}
	})
}
