package chunks

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"

	"lockstep/internal/private"
)

// The file has the packed entries of chunks, in any order, and tables. A Ref says
// where the table is that counts.
//
// Order of writes: packed entries and a table are appended, then made durable, and
// only then the caller stores the new Ref. What was appended since the last stored Ref
// is overwritten. Once the file has more that is no longer needed than what is, it is
// replaced by one without that; the former Ref is not valid for it.

// A Ref is the position of a table in the file, with its SHA-256.
type Ref struct {
	At   int64  `json:"at"`
	Size int64  `json:"size"`
	Sum  string `json:"sum"`
}

// A File is an open file of chunks.
type File struct {
	Table
	path string
	f    *os.File
	end  int64 // of the table
}

// Open opens the file at path and reads the table at ref. It fails if the file is not
// as it was when ref was returned by [Writer.Save].
func Open(path string, ref Ref) (*File, error) {
	if ref.At < 0 || ref.Size < 0 || ref.Size > maxTable {
		return nil, errDamaged
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	b := make([]byte, ref.Size)
	c := &File{path: path, f: f, end: ref.At + ref.Size}
	_, err = f.ReadAt(b, ref.At)
	if err == nil && sumOf(b) != ref.Sum {
		err = errDamaged
	}
	if err == nil {
		c.Table, err = parseTable(b, ref.At)
	}
	if err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

func sumOf(table []byte) string {
	sum := sha256.Sum256(table)
	return hex.EncodeToString(sum[:])
}

// Close closes the file.
func (f *File) Close() {
	_ = f.f.Close() // Save has made durable what counts
}

// Named returns the entries of a chunk of the table.
func (f *File) Named(c *Chunk) ([]Entry, error) {
	b, err := f.packed(c)
	if err != nil {
		return nil, err
	}
	return unpack(b, c.Entries)
}

// packed returns the packed entries of c.
func (f *File) packed(c *Chunk) ([]byte, error) {
	b := make([]byte, c.size)
	if _, err := f.f.ReadAt(b, c.at); err != nil {
		return nil, err
	}
	if PrintOf(b) != c.check {
		return nil, errDamaged
	}
	return b, nil
}

// Append returns a Writer that adds to the file.
func (f *File) Append() *Writer {
	return &Writer{path: f.path, old: f, f: f.f, at: f.end}
}

// writeBytes is how much is written at a time.
const writeBytes = 256 << 10

// A Writer writes the packed entries of chunks, and then a table.
type Writer struct {
	path string
	old  *File    // to which it appends; nil: the file is new
	f    *os.File // nil: not yet created
	at   int64    // offset after what is in buf
	buf  []byte
	err  error // the first one
}

// Create returns a Writer of a new file, which replaces the one at path when it is
// saved.
func Create(path string) *Writer { return &Writer{path: path} }

// Store stores the packed entries of c. [Writer.Save] returns its error.
func (w *Writer) Store(c *Chunk, packed []byte) {
	c.at, c.size, c.check = w.at, len(packed), PrintOf(packed)
	w.write(packed)
}

func (w *Writer) write(p []byte) {
	w.buf = append(w.buf, p...)
	w.at += int64(len(p))
	if len(w.buf) >= writeBytes {
		w.flush()
	}
}

func (w *Writer) flush() {
	if w.f == nil && w.err == nil {
		w.f, w.err = os.OpenFile(w.path+".new", os.O_RDWR|os.O_CREATE|os.O_TRUNC, private.FileMode)
	}
	if w.err == nil {
		_, w.err = w.f.WriteAt(w.buf, w.at-int64(len(w.buf)))
	}
	w.buf = w.buf[:0]
}

// errSize reports a table with too few or too many chunks to be stored.
var errSize = errors.New("too few or too many chunks")

// Save stores t, whose chunks were stored by w or are of the file to which it appends,
// durably. The Writer cannot be used afterwards.
func (w *Writer) Save(t *Table) (*Ref, error) {
	if n := len(t.Chunks); n < MinChunks || n > MaxChunks {
		w.Discard()
		return nil, errSize
	}
	if w.old != nil && w.at-t.packedSize() > t.packedSize()+writeBytes {
		return w.compact(t)
	}
	table := t.append(nil)
	ref := &Ref{At: w.at, Size: int64(len(table)), Sum: sumOf(table)}
	if ref.Size > maxTable {
		w.err = errSize
	}
	w.write(table)
	w.flush()
	if w.err == nil {
		w.err = w.f.Truncate(w.at)
	}
	if w.err == nil {
		w.err = w.f.Sync()
	}
	if w.err == nil && w.old == nil {
		w.err = w.replace()
	}
	if w.err != nil {
		w.Discard()
		return nil, w.err
	}
	return ref, nil
}

// compact replaces the file by one that has only the chunks of t.
func (w *Writer) compact(t *Table) (*Ref, error) {
	if w.flush(); w.err != nil {
		return nil, w.err
	}
	next, chunks := Create(w.path), make([]Chunk, len(t.Chunks))
	for i := range t.Chunks {
		chunks[i] = t.Chunks[i]
		b, err := w.old.packed(&chunks[i])
		if err != nil {
			next.Discard()
			return nil, err
		}
		next.Store(&chunks[i], b)
	}
	w.old.Close() // an open file cannot be replaced on every system
	return next.Save(&Table{t.Fields, chunks})
}

// replace gives the new file its name.
func (w *Writer) replace() error {
	if err := w.f.Close(); err != nil {
		return err
	}
	if err := os.Rename(w.path+".new", w.path); err != nil {
		return err
	}
	w.f = nil
	return private.SyncDir(filepath.Dir(w.path))
}

// Discard removes what was written. It does nothing after [Writer.Save].
func (w *Writer) Discard() {
	if w.old == nil && w.f != nil {
		_ = w.f.Close() // it is removed
		_ = os.Remove(w.path + ".new")
		w.f = nil
	}
}
