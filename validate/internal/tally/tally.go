// Package tally stores the entries of all documents of a run about each
// resource or record, in files if memory does not suffice, and returns them
// sorted, so that entries about the same one can be compared.
package tally

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

// A Tally stores the entries of the documents of a set about each resource, so
// that they can be compared. They may not fit into memory, so they are stored as
// sorted records of a fixed size. They contain keyed digests of the URIs; the
// URIs themselves, which only findings need, are in a file.
type Tally struct {
	seeds [2]maphash.Seed
	docs  []string        // URIs of the documents, by number
	known map[string]bool // the same
	recs  *extsort.Sorter
	names textFile
}

// A Record is the content of one entry.
type Record struct {
	Key       [16]byte
	Time      int64                    // of the event in nanoseconds; 0 for an entry about the current state
	Unit      resourcesync.Granularity // of Time
	About     About
	Change    resourcesync.Change
	Algorithm resourcesync.Algorithm // of digest; 0 if there is none
	Digest    uint64                 // the beginning of it
	Length    int64                  // -1 if not stated
	name      int64                  // address of its URI
	Undated   bool                   // a change whose time is not stated
	Doc       uint32
	entry     uint32
}

// About is the kind of document a record is from. Records of one resource are
// sorted by time, those without a time first.
type About uint8

// The kinds of documents.
const (
	Listed  About = iota + 1 // in a Resource List
	Dumped                   // in a Resource Dump
	Changed                  // in a Change List
	Repeats                  // in a Change Dump

	Active   // in a feed, as active
	Deletion // in a feed, as deleted
)

const (
	keyBytes    = 33 // length of the sort key of a record
	recordBytes = 61
	// sortMemory is how much is sorted in memory.
	sortMemory = 8 << 20
	// namesInMemory is how much of the URIs is kept in memory.
	namesInMemory = 4 << 20
	// maxName caps what a message contains of a name.
	maxName = 1000
)

// A KeepError reports that data for the comparison could not be written to a
// temporary file, or read from it.
type KeepError struct{ Err error }

func (e *KeepError) Error() string {
	return "keep what the documents say in a temporary file: " + e.Err.Error()
}
func (e *KeepError) Unwrap() error { return e.Err }

// New returns a Tally that has its files in dir, by default os.TempDir.
func New(dir string) *Tally {
	recs := extsort.New(extsort.TempFiles(dir))
	recs.Memory = sortMemory
	return &Tally{recs: recs, seeds: [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}, known: make(map[string]bool), names: textFile{dir: dir}}
}

// Begin returns the number of a document; negative if nothing is to be recorded
// of it, or if it was read before.
func (t *Tally) Begin(uri string) int {
	if t == nil || t.known[uri] {
		return -1
	}
	t.known[uri] = true
	t.docs = append(t.docs, uri)
	return len(t.docs) - 1
}

// Add records entry n of a document about the resource with that name.
func (t *Tally) Add(number, n int, name string, r Record) (err error) {
	if number < 0 {
		return nil
	}
	r.Doc, r.entry = uint32(number), uint32(n)
	binary.BigEndian.PutUint64(r.Key[:8], maphash.String(t.seeds[0], name))
	binary.BigEndian.PutUint64(r.Key[8:], maphash.String(t.seeds[1], name))
	if r.name, err = t.names.add(name); err != nil {
		return err
	}
	return t.sort(&r)
}

// Keep stores a text and returns its address, for [Tally.Text].
func (t *Tally) Keep(s string) (int64, error) { return t.names.add(s) }

// Text returns the text stored at an address, or at most most bytes of it.
func (t *Tally) Text(at int64, most int) string { return t.names.upTo(at, most) }

// Name returns the name of the resource of r, shortened for use in a message.
func (t *Tally) Name(r *Record) string { return t.names.upTo(r.name, maxName) }

// Document returns the URI of the document of r.
func (t *Tally) Document(r *Record) string { return t.docs[r.Doc] }

// Location returns the location of r in its document, for a finding.
func (r *Record) Location() string { return fmt.Sprintf("entry %d", r.entry) }

// Where returns the location and the document of r.
func (t *Tally) Where(r *Record) string { return r.Location() + " of " + t.Document(r) }

// End returns the end of the unit in which the event of r was, in nanoseconds: it may
// have been at any instant from Time to End.
func (r *Record) End() int64 {
	if r.Unit == resourcesync.Nanosecond {
		return r.Time
	}
	return resourcesync.NewDatetime(time.Unix(0, r.Time)).WithGranularity(r.Unit).End().UnixNano()
}

// sort adds a record.
func (t *Tally) sort(r *Record) error {
	var b [recordBytes]byte
	r.put(b[:])
	if err := t.recs.Add(b[:keyBytes], b[keyBytes:]); err != nil {
		return &KeepError{err}
	}
	return nil
}

// Each passes the records to f, sorted by key, time, kind, document and entry,
// each valid until f returns.
func (t *Tally) Each(ctx context.Context, f func(r *Record) error) error {
	var r Record
	for p, err := range t.recs.Sorted(ctx) {
		if err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return &KeepError{err}
		}
		r.take(p.Key, p.Value)
		if err := f(&r); err != nil {
			return err
		}
	}
	return nil
}

// Close removes the files.
func (t *Tally) Close() {
	_ = t.recs.Close() // its content is no longer needed
	t.names.Close()
}

// put encodes the record, the sort key first, so that the byte order is the
// order of records.
func (r *Record) put(b []byte) {
	be := binary.BigEndian
	copy(b, r.Key[:])
	be.PutUint64(b[16:], uint64(r.Time)^1<<63) // negative times come first
	b[24] = byte(r.About)
	be.PutUint32(b[25:], r.Doc)
	be.PutUint32(b[29:], r.entry)
	b[33], b[34] = byte(r.Change), byte(r.Algorithm)
	be.PutUint64(b[35:], r.Digest)
	be.PutUint64(b[43:], uint64(r.Length))
	be.PutUint64(b[51:], uint64(r.name))
	b[59] = byte(r.Unit)
	b[60] = 0
	if r.Undated {
		b[60] = 1
	}
}

// take decodes the result of put.
func (r *Record) take(key, value []byte) {
	be := binary.BigEndian
	copy(r.Key[:], key)
	r.Time = int64(be.Uint64(key[16:]) ^ 1<<63)
	r.About = About(key[24])
	r.Doc, r.entry = be.Uint32(key[25:]), be.Uint32(key[29:])
	r.Change, r.Algorithm = resourcesync.Change(value[0]), resourcesync.Algorithm(value[1])
	r.Digest = be.Uint64(value[2:])
	r.Length = int64(be.Uint64(value[10:]))
	r.name = int64(be.Uint64(value[18:]))
	r.Unit, r.Undated = resourcesync.Granularity(value[26]), value[27] != 0
}

// A textFile holds texts, in memory as long as they are few.
type textFile struct {
	dir  string
	file *os.File
	size int64
	buf  []byte // not yet in the file
}

// add stores s and returns its address.
func (t *textFile) add(s string) (int64, error) {
	at := t.size + int64(len(t.buf))
	t.buf = binary.AppendUvarint(t.buf, uint64(len(s)))
	t.buf = append(t.buf, s...)
	if len(t.buf) < namesInMemory {
		return at, nil
	}
	if t.file == nil {
		var err error
		if t.file, err = TempFile(t.dir); err != nil {
			return 0, err
		}
	}
	if _, err := t.file.WriteAt(t.buf, t.size); err != nil {
		return 0, &KeepError{err}
	}
	t.size += int64(len(t.buf))
	t.buf = t.buf[:0]
	return at, nil
}

// upTo returns the text stored at at, or at most most bytes of it.
func (t *textFile) upTo(at int64, most int) string {
	head := make([]byte, most+binary.MaxVarintLen64)
	if at >= t.size {
		head = t.buf[at-t.size:]
	} else {
		n, _ := t.file.ReadAt(head, at) // only a message would be incomplete
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
		RemoveFile(t.file)
	}
}

// TempFile creates a temporary file, without a name where the system allows it.
// [RemoveFile] removes it.
func TempFile(dir string) (*os.File, error) {
	f, err := os.CreateTemp(dir, "lockstep-validate-")
	if err != nil {
		return nil, &KeepError{err}
	}
	_ = os.Remove(f.Name()) // if it fails, RemoveFile does it
	return f, nil
}

// RemoveFile closes and removes a temporary file.
func RemoveFile(f *os.File) {
	_ = f.Close() // its content is no longer needed
	_ = os.Remove(f.Name())
}

// Instant returns a time of a record as ResourceSync writes it.
func Instant(ns int64) string { return resourcesync.NewDatetime(time.Unix(0, ns)).String() }
