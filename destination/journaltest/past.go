package journaltest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"lockstep/destination/journal"
)

// past returns a Past with every field set.
func past(uri string, seq int64, sets ...int) journal.Past {
	p := journal.Past{Held: held(uri, sets...), Seq: seq, Digest: [32]byte{31: 0xff}}
	p.ETag, p.Modified, p.Written, p.Tag, p.Type, p.Links, p.Stated = "", "", time.Time{}, "", "", nil, nil
	return p
}

func testPast(t *testing.T, j journal.Journal) {
	a3, a7 := past("http://a/1", 3, 1), past("http://a/1", 7, 1, 300)
	b5 := journal.Past{Held: journal.Held{URI: "http://a/2"}, Seq: 5, Was: journal.WasAbsent}
	all := func(want ...journal.Past) {
		t.Helper()
		same(t, "Past", collect(t, j.Past(t.Context(), "", "", 0)), want)
	}
	all()
	withTag := a7
	withTag.ETag, withTag.Modified, withTag.Type, withTag.Stated = "x", "y", "text/plain", &journal.Stated{} // not kept
	record(t, j, journal.Batch{Past: []journal.Past{b5, withTag, a3}})
	all(a3, a7, b5)
	same(t, "Past above 3", collect(t, j.Past(t.Context(), "", "", 3)), []journal.Past{a7, b5})
	same(t, "Past above 7", collect(t, j.Past(t.Context(), "", "", 7)), nil)
	same(t, "Past from", collect(t, j.Past(t.Context(), "http://a/2", "", 0)), []journal.Past{b5})
	same(t, "Past to", collect(t, j.Past(t.Context(), "", "http://a/2", 0)), []journal.Past{a3, a7})
	same(t, "Past of one", collect(t, j.Past(t.Context(), "http://a/1", "http://a/1\x00", 4)), []journal.Past{a7})

	other := b5
	other.Was, other.Path = journal.WasHeld, "other"
	record(t, j, journal.Batch{Past: []journal.Past{other}}) // what is known stays
	all(a3, a7, b5)
	forgotten := journal.Past{Held: journal.Held{URI: "http://a/1"}, Seq: 7, Was: journal.WasForgotten}
	record(t, j, journal.Batch{
		Forget: []journal.Past{{Held: journal.Held{URI: "http://a/1"}, Seq: 3}, {Held: journal.Held{URI: "http://a/1"}, Seq: 7}, {Held: journal.Held{URI: "http://none"}, Seq: 7}},
		Past:   []journal.Past{forgotten},
	})
	all(forgotten, b5)

	got := collect(t, j.Past(t.Context(), "http://a/2", "", 0))
	got[0].URI = "changed"
	all(forgotten, b5)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, err := range j.Past(ctx, "", "", 0) {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("Past with a canceled context yields %v, want %v", err, context.Canceled)
		}
	}
}

func testPastOrder(t *testing.T, j journal.Journal) {
	var want []journal.Past
	for i := range 30 {
		for seq := range int64(80) { // pages end within a resource, too
			want = append(want, past(fmt.Sprintf("http://a/%02d", i), seq+1, 1))
		}
	}
	for k := range 7 {
		var b journal.Batch
		for i := k; i < len(want); i += 7 {
			b.Past = append(b.Past, want[i])
		}
		record(t, j, b)
	}
	seq := j.Past(t.Context(), "", "", 0)
	same(t, "Past", collect(t, seq), want)
	same(t, "Past, read again", collect(t, seq), want)
	var above []journal.Past
	for _, p := range want {
		if p.Seq > 41 {
			above = append(above, p)
		}
	}
	same(t, "Past above 41", collect(t, j.Past(t.Context(), "", "", 41)), above)
	same(t, "Past of some", collect(t, j.Past(t.Context(), "http://a/03", "http://a/20", 0)), want[3*80:20*80])
}

func testInstants(t *testing.T, j journal.Journal) {
	at := func(n int64) time.Time { return time.UnixMicro(n).UTC() }
	same(t, "Instant of none", instant(t, j, at(1)), journal.Instant{})
	for n := int64(1); n <= 5; n++ {
		record(t, j, journal.Batch{Instant: journal.Instant{At: at(10 * n), Seq: n, Note: []byte{byte(n)}}})
	}
	same(t, "Instant before all", instant(t, j, at(9)), journal.Instant{})
	same(t, "Instant", instant(t, j, at(20)), journal.Instant{At: at(20), Seq: 2, Note: []byte{2}})
	same(t, "Instant between", instant(t, j, at(29).Add(999)), journal.Instant{At: at(20), Seq: 2, Note: []byte{2}})
	same(t, "Instant after all", instant(t, j, time.Now()), journal.Instant{At: at(50), Seq: 5, Note: []byte{5}})
	record(t, j, journal.Batch{Instant: journal.Instant{At: at(50), Seq: 7}})
	same(t, "Instant replaced", instant(t, j, at(50)), journal.Instant{At: at(50), Seq: 7})
	record(t, j, journal.Batch{Since: 3})
	same(t, "Instant removed", instant(t, j, at(29)), journal.Instant{})
	same(t, "Instant that stays", instant(t, j, at(30)), journal.Instant{At: at(30), Seq: 3, Note: []byte{3}})
}

func instant(t *testing.T, j journal.Journal, at time.Time) journal.Instant {
	t.Helper()
	i, err := j.Instant(t.Context(), at)
	if err != nil {
		t.Fatalf("Instant(%v): %v", at, err)
	}
	return i
}
