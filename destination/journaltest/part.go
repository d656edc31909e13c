package journaltest

import (
	"testing"

	"lockstep/destination/journal"
	"lockstep/destination/journal/part"
)

// RunPart tests a part of each of the Journals that open returns, which are empty. Other parts, with names
// that are below, above and longer, have rows of URIs below, among and above those of the tests.
func RunPart(t *testing.T, open func(t *testing.T) part.Whole) {
	RunPresent(t, func(t *testing.T) journal.Journal {
		whole := open(t)
		var b journal.Batch
		for _, uri := range []string{"a", "http://a/1", "http://b/", "zzz"} {
			b.Put = append(b.Put, journal.Held{URI: uri, Path: "other", Sets: []int{1}})
			b.Owe = append(b.Owe, journal.Owed{Set: 1, URI: uri, Entry: []byte("other"), Cause: "other"})
		}
		b.Save = map[string][]byte{"counts": []byte("other"), "set/1": []byte("other")}
		for _, name := range []string{"ma", "maps", "map-", "map!", "map/x", "zoo"} {
			record(t, part.Of(whole, name), b)
		}
		return part.Of(whole, "map")
	})
}
