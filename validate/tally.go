package validate

import (
	"bufio"
	"bytes"
	"container/heap"
	"encoding/binary"
	"hash/maphash"
	"io"
	"os"
	"slices"

	"lockstep/resourcesync"
)

// A tally remembers what the documents of a set say of each resource, so that
// it can be compared: too much for memory, so it is kept as records of a fixed
// size, sorted in runs that are written to a temporary file and merged. URIs
// stand there as keyed digests; their texts, which only findings need, lie in a
// second file.
type tally struct {
	dir   string
	seeds [2]maphash.Seed
	docs  []string        // URIs of the documents, by number
	known map[string]bool // the same
	recs  []record        // not yet in a run
	file  *os.File        // the runs; nil while all fits into memory
	runs  []int64         // where each ends
	size  int64
	names textFile
	err   error // sticks
}

// A record is what one entry says.
type record struct {
	key       [16]byte
	time      int64 // of the event in nanoseconds; 0 for what says how things are
	about     about
	change    resourcesync.Change
	algorithm resourcesync.Algorithm // of digest; 0 if there is none
	digest    uint64                 // the beginning of it
	length    int64                  // -1 if not stated
	name      int64                  // where its URI is
	doc       uint32
	entry     uint32
}

// about is what kind of document a record is from. Records of one resource are
// sorted by time, those without first.
type about uint8

const (
	listed  about = iota + 1 // in a Resource List
	dumped                   // in a Resource Dump
	changed                  // in a Change List
	repeats                  // in a Change Dump
)

const (
	recordBytes = 59
	// runRecords are sorted at a time: 10 MB.
	runRecords = 1 << 17
	// namesInMemory is how much of the URIs is kept in memory.
	namesInMemory = 4 << 20
	mergeBuffer   = 64 << 10
	// maxEvents caps the changes of one resource that are compared at a time.
	maxEvents = 10_000
)

// A keepError reports that there was no room for what is to be compared.
type keepError struct{ err error }

func (e *keepError) Error() string {
	return "keep what the documents say in a temporary file: " + e.err.Error()
}
func (e *keepError) Unwrap() error { return e.err }

func newTally(dir string) *tally {
	return &tally{dir: dir, seeds: [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}, known: make(map[string]bool), names: textFile{dir: dir}}
}

// begin returns the number of a document; negative, if there is nothing to
// remember of it, or if it was read before.
func (t *tally) begin(uri string) int {
	if t == nil || t.known[uri] {
		return -1
	}
	t.known[uri] = true
	t.docs = append(t.docs, uri)
	return len(t.docs) - 1
}

// add remembers entry n of a document.
func (t *tally) add(number, n int, doc *document, e *resourcesync.Entry) error {
	if number < 0 {
		return nil
	}
	r := record{change: e.Change, length: -1, doc: uint32(number), entry: uint32(n)}
	switch doc.kind {
	case KindResourceList:
		r.about = listed
	case KindResourceDumpManifest:
		r.about = dumped
	case KindChangeList:
		r.about = changed
	case KindChangeDumpManifest:
		r.about = repeats
	default:
		return nil
	}
	if r.about >= changed {
		if e.Datetime.IsZero() {
			return nil // nothing to compare by
		}
		r.time = e.Datetime.Time().UnixNano()
	}
	for _, h := range e.Hashes {
		if r.algorithm == 0 || h.Algorithm == resourcesync.SHA256 {
			r.algorithm, r.digest = h.Algorithm, binary.BigEndian.Uint64([]byte(h.Digest[:8]))
		}
	}
	if e.HasLength {
		r.length = e.Length
	}
	binary.BigEndian.PutUint64(r.key[:8], maphash.String(t.seeds[0], e.Loc))
	binary.BigEndian.PutUint64(r.key[8:], maphash.String(t.seeds[1], e.Loc))
	if r.name, t.err = t.names.add(e.Loc); t.err != nil {
		return t.err
	}
	t.recs = append(t.recs, r)
	if len(t.recs) == runRecords {
		return t.spill()
	}
	return nil
}

func compareRecords(a, b record) int {
	if c := bytes.Compare(a.key[:], b.key[:]); c != 0 {
		return c
	}
	switch {
	case a.time != b.time:
		if a.time < b.time {
			return -1
		}
		return 1
	case a.about != b.about:
		return int(a.about) - int(b.about)
	case a.doc != b.doc:
		return int(int64(a.doc) - int64(b.doc))
	}
	return int(int64(a.entry) - int64(b.entry))
}

// spill sorts what is in memory and writes it to the file as a run.
func (t *tally) spill() (err error) {
	if t.file == nil {
		if t.file, err = temporary(t.dir); err != nil {
			return err
		}
	}
	slices.SortFunc(t.recs, compareRecords)
	w := bufio.NewWriterSize(&offsetWriter{t.file, t.size}, mergeBuffer)
	var b [recordBytes]byte
	for i := range t.recs {
		t.recs[i].put(b[:])
		if _, err := w.Write(b[:]); err != nil {
			return &keepError{err}
		}
	}
	if err := w.Flush(); err != nil {
		return &keepError{err}
	}
	t.size += int64(len(t.recs)) * recordBytes
	t.runs = append(t.runs, t.size)
	t.recs = t.recs[:0]
	return nil
}

// each hands the records to f, sorted.
func (t *tally) each(f func(r *record) error) error {
	slices.SortFunc(t.recs, compareRecords)
	var h runHeap
	begin := int64(0)
	for _, end := range t.runs {
		r := &run{src: bufio.NewReaderSize(io.NewSectionReader(t.file, begin, end-begin), mergeBuffer)}
		begin = end
		if err := r.next(); err == nil {
			h = append(h, r)
		} else if err != io.EOF {
			return err
		}
	}
	if len(t.recs) > 0 {
		h = append(h, &run{rest: t.recs[1:], head: t.recs[0]})
	}
	heap.Init(&h)
	for len(h) > 0 {
		if err := f(&h[0].head); err != nil {
			return err
		}
		err := h[0].next()
		if err == io.EOF {
			heap.Pop(&h)
			continue
		}
		if err != nil {
			return err
		}
		heap.Fix(&h, 0)
	}
	return nil
}

// Close removes the files.
func (t *tally) Close() {
	if t.file != nil {
		discardFile(t.file)
	}
	t.names.Close()
}

// A run is a sorted sequence of records.
type run struct {
	src  *bufio.Reader // of a run in the file
	rest []record      // of the one in memory
	head record
}

func (r *run) next() error {
	if r.src == nil {
		if len(r.rest) == 0 {
			return io.EOF
		}
		r.head, r.rest = r.rest[0], r.rest[1:]
		return nil
	}
	var b [recordBytes]byte
	if _, err := io.ReadFull(r.src, b[:]); err != nil {
		return err
	}
	r.head.take(b[:])
	return nil
}

type runHeap []*run

func (h runHeap) Len() int           { return len(h) }
func (h runHeap) Less(i, j int) bool { return compareRecords(h[i].head, h[j].head) < 0 }
func (h runHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *runHeap) Push(x any)        { *h = append(*h, x.(*run)) }
func (h *runHeap) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}

func (r *record) put(b []byte) {
	le := binary.LittleEndian
	copy(b, r.key[:])
	le.PutUint64(b[16:], uint64(r.time))
	b[24], b[25], b[26] = byte(r.about), byte(r.change), byte(r.algorithm)
	le.PutUint64(b[27:], r.digest)
	le.PutUint64(b[35:], uint64(r.length))
	le.PutUint64(b[43:], uint64(r.name))
	le.PutUint32(b[51:], r.doc)
	le.PutUint32(b[55:], r.entry)
}

func (r *record) take(b []byte) {
	le := binary.LittleEndian
	copy(r.key[:], b)
	r.time = int64(le.Uint64(b[16:]))
	r.about, r.change, r.algorithm = about(b[24]), resourcesync.Change(b[25]), resourcesync.Algorithm(b[26])
	r.digest = le.Uint64(b[27:])
	r.length = int64(le.Uint64(b[35:]))
	r.name = int64(le.Uint64(b[43:]))
	r.doc, r.entry = le.Uint32(b[51:]), le.Uint32(b[55:])
}

// A textFile holds texts, in memory as long as they are few.
type textFile struct {
	dir  string
	file *os.File
	size int64
	buf  []byte // not yet in the file
}

// add keeps s and returns where it is.
func (t *textFile) add(s string) (int64, error) {
	at := t.size + int64(len(t.buf))
	t.buf = binary.AppendUvarint(t.buf, uint64(len(s)))
	t.buf = append(t.buf, s...)
	if len(t.buf) < namesInMemory {
		return at, nil
	}
	if t.file == nil {
		var err error
		if t.file, err = temporary(t.dir); err != nil {
			return 0, err
		}
	}
	if _, err := t.file.WriteAt(t.buf, t.size); err != nil {
		return 0, &keepError{err}
	}
	t.size += int64(len(t.buf))
	t.buf = t.buf[:0]
	return at, nil
}

// get returns the text kept at at, as far as a message has room for it.
func (t *textFile) get(at int64) string { return t.upTo(at, maxMessage) }

// upTo returns the text kept at at, or so many bytes of it.
func (t *textFile) upTo(at int64, most int) string {
	head := make([]byte, most+binary.MaxVarintLen64)
	if at >= t.size {
		head = t.buf[at-t.size:]
	} else {
		n, _ := t.file.ReadAt(head, at) // what is missing is missing in a message
		head = head[:n]
	}
	n, used := binary.Uvarint(head)
	if used <= 0 {
		return "?"
	}
	head = head[used:]
	return string(head[:min(uint64(len(head)), uint64(most), n)])
}

func (t *textFile) Close() {
	if t.file != nil {
		discardFile(t.file)
	}
}

// temporary creates a file that has no name any more, where the system allows it.
func temporary(dir string) (*os.File, error) {
	f, err := os.CreateTemp(dir, "lockstep-validate-")
	if err != nil {
		return nil, &keepError{err}
	}
	_ = os.Remove(f.Name()) // where that fails, discardFile does it
	return f, nil
}

func discardFile(f *os.File) {
	_ = f.Close() // nothing in it is wanted any more
	_ = os.Remove(f.Name())
}

// An offsetWriter appends to a file at a place of its own.
type offsetWriter struct {
	f  *os.File
	at int64
}

func (w *offsetWriter) Write(p []byte) (int, error) {
	n, err := w.f.WriteAt(p, w.at)
	w.at += int64(n)
	return n, err
}
