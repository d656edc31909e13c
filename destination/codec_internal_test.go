package destination

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
	w := want{URI: "u", Gone: true, Change: resourcesync.Updated, Length: -1, Type: "text/plain", Refused: "no",
		Hashes: resourcesync.Hashes{{Algorithm: resourcesync.MD5, Digest: "0123456789abcdef"}},
		rank:   rank{class: wantChange, doc: 3, pos: 4, nth: 1, event: resourcesync.NewDatetime(time.Unix(1, 5))}}
	h := journal.Held{URI: "u", Path: "p", Length: 1 << 40, Lastmod: time.Unix(5, 1000).UTC(), Hashes: w.Hashes, ETag: `"e"`, Sets: []int{1, 300}}
	f.Add(w.appendTo(nil))
	w.Gone, w.class, w.Lastmod = false, wantPacked, w.event.WithGranularity(resourcesync.Month)
	w.Member = member{Package: 3, Path: "/resources/a b"}
	w.Links = []resourcesync.Link{{Rel: "duplicate", Href: "https://m.example/u", Pri: 7}, {Rel: resourcesync.RelPatch, Href: "p", Type: "application/json-patch+json",
		Encoding: "gzip", Path: "/x", Modified: w.event, Length: 9, HasLength: true, Hashes: w.Hashes}}
	f.Add(w.appendTo(nil))
	f.Add(appendHeld(nil, &h))
	f.Fuzz(func(t *testing.T, b []byte) {
		if w, rest, err := decodeWant("u", string(b)); err == nil {
			text := w.appendTo(nil)
			again, _, err := decodeWant("u", string(text))
			if err != nil || !bytes.Equal(again.appendTo(nil), text) || len(rest) > len(b) {
				t.Errorf("decodeWant(%q) = %+v, then %+v, %v", text, w, again, err)
			}
		}
		if h, _, err := decodeHeld(b); err == nil {
			text := appendHeld(nil, &h)
			again, _, err := decodeHeld(text)
			if err != nil || !bytes.Equal(appendHeld(nil, &again), text) {
				t.Errorf("decodeHeld(%q) = %+v, then %+v, %v", text, h, again, err)
			}
		}
	})
}
