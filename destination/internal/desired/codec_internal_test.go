package desired

import (
	"bytes"
	"testing"
	"time"

	"lockstep/destination/journal"
	"lockstep/resourcesync"
)

// FuzzState reads state that is damaged: no panic, and what can be read is
// written back equal.
func FuzzState(f *testing.F) {
	w := Resource{URI: "u", Gone: true, Change: resourcesync.Updated, Length: -1, Type: "text/plain", Refused: "no",
		Hashes: resourcesync.Hashes{{Algorithm: resourcesync.MD5, Digest: "0123456789abcdef"}},
		Rank:   Rank{Class: Changed, Doc: 3, Pos: 4, Nth: 1, Event: resourcesync.NewDatetime(time.Unix(1, 5))}}
	h := journal.Held{URI: "u", Path: "p", Length: 1 << 40, Lastmod: time.Unix(5, 1000).UTC(), Hashes: w.Hashes, ETag: `"e"`, Sets: []int{1, 300}}
	f.Add(w.Append(nil))
	w.Gone, w.Class, w.Lastmod = false, Packed, w.Event.WithGranularity(resourcesync.Month)
	w.Member = Member{Package: 3, Path: "/resources/a b"}
	w.Links = []resourcesync.Link{{Rel: "duplicate", Href: "https://m.example/u", Pri: 7}, {Rel: resourcesync.RelPatch, Href: "p", Type: "application/json-patch+json",
		Encoding: "gzip", Path: "/x", Modified: w.Event, Length: 9, HasLength: true, Hashes: w.Hashes}}
	f.Add(w.Append(nil))
	f.Add(AppendHeld(nil, &h))
	h.Type, h.Links, h.Stated = "text/plain", w.Links, &journal.Stated{Lastmod: w.Event, Length: 1 << 40, Hashes: w.Hashes, Encoding: "gzip"}
	f.Add(AppendHeld(nil, &h))
	foreign, err := resourcesync.ParseForeign(`<foreign xmlns:x="urn:x" x:a="1"><x:b xmlns:x="urn:x">c</x:b></foreign>`)
	if err != nil {
		f.Fatal(err)
	}
	w.Foreign, w.Links[1].Foreign, h.Stated.Foreign = foreign, foreign, foreign
	f.Add(w.Append(nil))
	f.Add(AppendHeld(nil, &h))
	f.Fuzz(func(t *testing.T, b []byte) {
		if w, rest, err := Decode("u", string(b)); err == nil {
			text := w.Append(nil)
			again, _, err := Decode("u", string(text))
			if err != nil || !bytes.Equal(again.Append(nil), text) || len(rest) > len(b) {
				t.Errorf("decodeWant(%q) = %+v, then %+v, %v", text, w, again, err)
			}
		}
		if h, _, err := DecodeHeld(b); err == nil {
			text := AppendHeld(nil, &h)
			again, _, err := DecodeHeld(text)
			if err != nil || !bytes.Equal(AppendHeld(nil, &again), text) {
				t.Errorf("decodeHeld(%q) = %+v, then %+v, %v", text, h, again, err)
			}
		}
	})
}
