package resourcesync_test

import (
	"bytes"
	"io"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"lockstep/resourcesync"
)

// resources returns a Resource List of n entries with the usual attributes.
func resources(t testing.TB, n int) []byte {
	t.Helper()
	var buf bytes.Buffer
	w, err := resourcesync.NewWriter(&buf, listHeader)
	if err != nil {
		t.Fatal(err)
	}
	e := resourcesync.Entry{Lastmod: day1, Metadata: resourcesync.Metadata{Hashes: hashes(testHashes), HasLength: true, Type: "text/plain"}}
	for i := range n {
		e.Loc, e.Length = "https://data.example.org/collection/resource-"+strconv.Itoa(i), int64(i)
		if err := w.Write(&e); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

// Reading an entry costs at most two allocations, writing one none.
func TestAllocations(t *testing.T) {
	const n = 1000
	doc := resources(t, n)
	perEntry := testing.AllocsPerRun(5, func() {
		r := resourcesync.NewReader(bytes.NewReader(doc), resourcesync.ReaderOptions{})
		var e resourcesync.Entry
		for {
			if err := r.Read(&e); err == io.EOF {
				return
			} else if err != nil {
				t.Fatal(err)
			}
		}
	}) / n
	if perEntry > 2 {
		t.Errorf("%.2f allocations for an entry read, want at most 2", perEntry)
	}
	e := resourcesync.Entry{Loc: loc, Lastmod: day1, Metadata: content}
	w, err := resourcesync.NewWriter(io.Discard, listHeader)
	if err != nil {
		t.Fatal(err)
	}
	if got := testing.AllocsPerRun(n, func() { _ = w.Write(&e) }); got > 0 { // its errors are tested elsewhere
		t.Errorf("%.2f allocations for an entry written, want none", got)
	}
}

// Memory does not grow with the number of entries: 10^6 of them, in a document
// generated while it is read.
func TestFlatMemory(t *testing.T) {
	n := 1_000_000
	if raceEnabled { // which slows everything down many times, and has a heap of its own
		n = 120_000
	}
	entry := `<url><loc>https://data.example.org/collection/resource</loc><rs:md hash="` + testMD5 + `" length="4" type="text/plain"/></url>` + "\n"
	var warned int
	r := resourcesync.NewReader(endless(openRoot+upLink+listMD, entry, int64(n*len(entry)), closeRoot),
		resourcesync.ReaderOptions{OnWarning: func(resourcesync.Warning) { warned++ }})
	var e resourcesync.Entry
	if err := r.Read(&e); err != nil {
		t.Fatal(err)
	}
	var first, now uint64
	for i := 1; i < n; i++ {
		if err := r.Read(&e); err != nil {
			t.Fatalf("entry %d: %v", i, err)
		}
		switch i {
		case 1000:
			first = heap()
		case n / 2, n - 1:
			now = max(now, heap())
		}
	}
	if err := r.Read(&e); err != io.EOF {
		t.Fatalf("error %v behind the last entry", err)
	}
	if st := r.Stats(); st.Entries != n || warned < 1 || warned > 2 { // of entries, and of bytes
		t.Errorf("%+v with %d warnings", st, warned)
	}
	if now > first+1<<20 {
		t.Errorf("%d bytes in use after a thousand entries, %d after a million", first, now)
	}

	parts, err := resourcesync.WriteParts(listHeader, numbered(n/4, 0), func(part int, write func(io.Writer) error) error {
		if part%2 == 0 {
			now = max(now, heap())
		}
		return write(io.Discard)
	})
	if err != nil || parts != (n/4+resourcesync.MaxEntries-1)/resourcesync.MaxEntries || now > first+1<<20 {
		t.Errorf("wrote %d parts, %v, with %d bytes in use", parts, err, now)
	}
}

// A Reader does not store long capabilities to find those listed twice.
func TestLongCapabilities(t *testing.T) {
	var doc strings.Builder
	doc.WriteString(openRoot + `<rs:md capability="capabilitylist"/>`)
	for i := range 40 {
		doc.WriteString("<url><loc>urn:a</loc><rs:md capability='" + strconv.Itoa(i) + strings.Repeat("x", 500_000) + "'/></url>")
	}
	doc.WriteString(closeRoot)
	before := heap()
	r := resourcesync.NewReader(strings.NewReader(doc.String()), resourcesync.ReaderOptions{})
	n := 0
	for _, err := range r.Entries() {
		if n++; err != nil {
			t.Fatal(err)
		}
	}
	if after := heap(); n != 40 || after > before+10<<20 {
		t.Errorf("%d entries, %d bytes in use before and %d after", n, before, after)
	}
	runtime.KeepAlive(r)
	runtime.KeepAlive(&doc)
}

// heap returns the number of bytes in use.
func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// Reading further entries does not change earlier ones.
func TestEntriesAreKept(t *testing.T) {
	t.Parallel()
	doc := resources(t, 3000)
	var kept []resourcesync.Entry
	var said []string
	for e, err := range resourcesync.NewReader(bytes.NewReader(doc), resourcesync.ReaderOptions{}).Entries() {
		if err != nil {
			t.Fatal(err)
		}
		kept, said = append(kept, e), append(said, describeEntry(e))
	}
	for i, e := range kept {
		if describeEntry(e) != said[i] {
			t.Fatalf("entry %d was %s, and is %s now", i, said[i], describeEntry(e))
		}
		if want := "https://data.example.org/collection/resource-" + strconv.Itoa(i); e.Loc != want || e.Length != int64(i) || e.Hashes.String() != testHashes {
			t.Fatalf("entry %d is %s", i, said[i])
		}
	}
}

func BenchmarkReader(b *testing.B) {
	doc := resources(b, 50_000)
	b.SetBytes(int64(len(doc)))
	b.ReportAllocs()
	for b.Loop() {
		r := resourcesync.NewReader(bytes.NewReader(doc), resourcesync.ReaderOptions{})
		var e resourcesync.Entry
		for r.Read(&e) == nil {
		}
		if r.Stats().Entries != 50_000 {
			b.Fatal(r.Stats())
		}
	}
}

func BenchmarkWriter(b *testing.B) {
	size := len(resources(b, 50_000))
	b.SetBytes(int64(size))
	b.ReportAllocs()
	for b.Loop() {
		w, err := resourcesync.NewWriter(io.Discard, listHeader)
		if err != nil {
			b.Fatal(err)
		}
		e := resourcesync.Entry{Loc: "https://data.example.org/collection/resource-12345", Lastmod: day1,
			Metadata: resourcesync.Metadata{Hashes: hashes(testHashes), HasLength: true, Type: "text/plain"}}
		for range 50_000 {
			if err := w.Write(&e); err != nil {
				b.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			b.Fatal(err)
		}
	}
}
