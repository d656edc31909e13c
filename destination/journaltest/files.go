package journaltest

import (
	"fmt"
	"testing"
	"time"

	"lockstep/destination/journal"
)

// testFiles compares the listing of files, where a Journal has one, with Held.
func testFiles(t *testing.T, j journal.Journal) {
	lister, ok := j.(journal.FileLister)
	if !ok {
		t.Skip("it is no FileLister")
	}
	same(t, "Files of nothing", collect(t, lister.Files(t.Context())), nil)
	var b journal.Batch
	for i := range 2500 {
		h := journal.Held{URI: fmt.Sprintf("http://a/%05d", i), Path: fmt.Sprintf("d \xff%d\n/%d", i%7, i), Length: int64(i)}
		if i%5 == 0 {
			h.Tag = fmt.Sprint("tag-", i)
		}
		if i%3 == 0 {
			h.Written = time.UnixMicro(int64(i) - 1000).UTC()
		}
		b.Put = append(b.Put, h)
	}
	record(t, j, b)
	var got []journal.FileRecord
	after := ""
	for p, err := range lister.Files(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		if p.After != after || p.Last != b.Put[len(got)+len(p.Files)-1].URI {
			t.Fatalf("a page from %q to %q", p.After, p.Last)
		}
		got, after = append(got, p.Files...), p.Last
	}
	for i, h := range b.Put {
		if f := got[i]; f.Path != h.Path || f.Length != h.Length || !f.Written.Equal(h.Written) || f.Tag != h.Tag {
			t.Fatalf("file %d is %+v, want %+v", i, f, h)
		}
	}
	if len(got) != len(b.Put) {
		t.Errorf("%d files, want %d", len(got), len(b.Put))
	}
}
