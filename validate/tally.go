package validate

import (
	"context"
	"encoding/binary"
	"fmt"
	"hash/maphash"
	"os"
	"time"

	"lockstep/internal/extsort"
	"lockstep/resourcesync"
)

// A tally remembers what the documents of a set say of each resource, so that
// it can be compared. That may be too much for memory, so it is stored as sorted
// records of a fixed size. They have keyed digests of the URIs; the URIs, which
// only findings need, are in a file.
type tally struct {
	seeds [2]maphash.Seed
	docs  []string        // URIs of the documents, by number
	known map[string]bool // the same
	recs  *extsort.Sorter
	names textFile
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

	activeTold   // in a feed, as active
	deletionTold // in a feed, as deleted
)

const (
	keyBytes    = 33 // of a record: what orders it
	recordBytes = 59
	// sortMemory is how much is sorted in memory.
	sortMemory = 8 << 20
	// namesInMemory is how much of the URIs is kept in memory.
	namesInMemory = 4 << 20
	// maxName caps what a message contains of a name.
	maxName = 1000
)

// A keepError reports that there was no room for what is to be compared.
type keepError struct{ err error }

func (e *keepError) Error() string {
	return "keep what the documents say in a temporary file: " + e.err.Error()
}
func (e *keepError) Unwrap() error { return e.err }

func newTally(dir string) *tally {
	recs := extsort.New(extsort.TempFiles(dir))
	recs.Memory = sortMemory
	return &tally{recs: recs, seeds: [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}, known: make(map[string]bool), names: textFile{dir: dir}}
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

// Add remembers what entry n of a document says of the resource of that name.
func (t *tally) add(number, n int, name string, r record) (err error) {
	if number < 0 {
		return nil
	}
	r.doc, r.entry = uint32(number), uint32(n)
	binary.BigEndian.PutUint64(r.key[:8], maphash.String(t.seeds[0], name))
	binary.BigEndian.PutUint64(r.key[8:], maphash.String(t.seeds[1], name))
	if r.name, err = t.names.add(name); err != nil {
		return err
	}
	return t.sort(&r)
}

// Keep keeps a text and returns its address, for [Tally.Text].
func (t *tally) keepText(s string) (int64, error) { return t.names.add(s) }

// Text returns the text kept at an address, or so many bytes of it.
func (t *tally) text(at int64, most int) string { return t.names.upTo(at, most) }

// Name returns the name of the resource of r, as much of it as a message can
// contain.
func (t *tally) nameOf(r *record) string { return t.names.upTo(r.name, maxName) }

// Document returns the URI of the document of r.
func (t *tally) document(r *record) string { return t.docs[r.doc] }

// Location returns the location of r in its document.
func (r *record) location() string { return fmt.Sprintf("entry %d", r.entry) }

// Where returns the location and the document of r.
func (t *tally) where(r *record) string { return r.location() + " of " + t.document(r) }

// sort adds a record.
func (t *tally) sort(r *record) error {
	var b [recordBytes]byte
	r.put(b[:])
	if err := t.recs.Add(b[:keyBytes], b[keyBytes:]); err != nil {
		return &keepError{err}
	}
	return nil
}

// each hands the records to f, sorted by key, time, kind, document and entry,
// each valid until f returns.
func (t *tally) each(ctx context.Context, f func(r *record) error) error {
	var r record
	for p, err := range t.recs.Sorted(ctx) {
		if err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return &keepError{err}
		}
		r.take(p.Key, p.Value)
		if err := f(&r); err != nil {
			return err
		}
	}
	return nil
}

// Close removes the files.
func (t *tally) Close() {
	_ = t.recs.Close() // nothing in it is needed any more
	t.names.Close()
}

// put encodes the record: what orders it first, so that the order of the bytes
// is that of the records.
func (r *record) put(b []byte) {
	be := binary.BigEndian
	copy(b, r.key[:])
	be.PutUint64(b[16:], uint64(r.time)^1<<63) // negative times come first
	b[24] = byte(r.about)
	be.PutUint32(b[25:], r.doc)
	be.PutUint32(b[29:], r.entry)
	b[33], b[34] = byte(r.change), byte(r.algorithm)
	be.PutUint64(b[35:], r.digest)
	be.PutUint64(b[43:], uint64(r.length))
	be.PutUint64(b[51:], uint64(r.name))
}

// take decodes what put encoded.
func (r *record) take(key, value []byte) {
	be := binary.BigEndian
	copy(r.key[:], key)
	r.time = int64(be.Uint64(key[16:]) ^ 1<<63)
	r.about = about(key[24])
	r.doc, r.entry = be.Uint32(key[25:]), be.Uint32(key[29:])
	r.change, r.algorithm = resourcesync.Change(value[0]), resourcesync.Algorithm(value[1])
	r.digest = be.Uint64(value[2:])
	r.length = int64(be.Uint64(value[10:]))
	r.name = int64(be.Uint64(value[18:]))
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

// Instant returns a time of a record as ResourceSync writes it.
func instant(ns int64) string { return resourcesync.NewDatetime(time.Unix(0, ns)).String() }
