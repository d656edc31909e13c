package zipfile

import (
	"hash/crc32"
	"io"
	"sync"

	"github.com/klauspost/compress/flate"
)

const (
	// copyBuffer is the size of the pieces in which [Writer.Splice] copies.
	copyBuffer = 256 << 10

	// deflateLevel is where more effort stops to pay: packages are made once and
	// fetched often, but every change in them makes them again.
	deflateLevel = 5
)

// A Writer appends files to a package and collects its directory. What is
// written to it between Begin and End is the data of a file.
type Writer struct {
	w       io.Writer
	n       int64 // bytes written
	entries []Entry
	head    []byte
}

// NewWriter returns a Writer of a package to w, with room for the directory of
// so many files.
func NewWriter(w io.Writer, files int) *Writer {
	return &Writer{w: w, entries: make([]Entry, 0, files)}
}

// Size returns the number of bytes written so far.
func (z *Writer) Size() int64 { return z.n }

// Write writes data of the file last begun.
func (z *Writer) Write(p []byte) (int, error) {
	n, err := z.w.Write(p)
	z.n += int64(n)
	return n, err
}

// Append appends files whose headers and data are in buf. The offsets of the
// entries count from the start of buf.
func (z *Writer) Append(buf []byte, entries []Entry) error {
	for _, e := range entries {
		e.Offset += z.n
		z.entries = append(z.entries, e)
	}
	_, err := z.Write(buf)
	return err
}

// Begin writes the header of a streamed file, whose data has to be written
// next. It sets e.Offset.
func (z *Writer) Begin(e *Entry) error {
	e.Offset = z.n
	z.head = e.AppendLocal(z.head[:0])
	_, err := z.Write(z.head)
	return err
}

// End finishes the file last begun. The caller has set e.CRC32 and e.Size; End
// sets e.Packed.
func (z *Writer) End(e *Entry) error {
	e.Packed = z.n - e.Offset - int64(e.HeaderSize())
	z.head = e.appendDescriptor(z.head[:0])
	if _, err := z.Write(z.head); err != nil {
		return err
	}
	z.entries = append(z.entries, *e)
	return nil
}

// Splice appends the files of another package, from, that is not finished.
// content reads the bytes that were written to it.
func (z *Writer) Splice(from *Writer, content io.Reader) error {
	for _, e := range from.entries {
		e.Offset += z.n
		z.entries = append(z.entries, e)
	}
	_, err := io.CopyBuffer(struct{ io.Writer }{z}, content, make([]byte, copyBuffer))
	return err
}

// Finish writes the directory.
func (z *Writer) Finish() error {
	start := z.n
	for i := range z.entries {
		z.head = z.entries[i].appendCentral(z.head[:0])
		if _, err := z.Write(z.head); err != nil {
			return err
		}
	}
	z.head = appendEnd(z.head[:0], len(z.entries), z.n-start, start)
	_, err := z.Write(z.head)
	return err
}

// A File deflates one file into a package.
type File struct {
	z       *Writer
	e       Entry
	deflate *flate.Writer
}

// Create begins a file of unknown size with the name and time of e. It has to
// be closed before another file is begun.
func (z *Writer) Create(e Entry) (*File, error) {
	f := &File{z: z, e: e}
	f.e.Streamed, f.e.Method = true, Deflate
	if err := z.Begin(&f.e); err != nil {
		return nil, err
	}
	f.deflate = GetDeflater()
	f.deflate.Reset(z)
	return f, nil
}

// Write deflates p into the package.
func (f *File) Write(p []byte) (int, error) {
	f.e.CRC32 = crc32.Update(f.e.CRC32, crc32.IEEETable, p)
	f.e.Size += int64(len(p))
	return f.deflate.Write(p)
}

// Close finishes the file.
func (f *File) Close() error {
	if err := f.deflate.Close(); err != nil {
		return err
	}
	PutDeflater(f.deflate)
	return f.z.End(&f.e)
}

// deflaters are reused: creating one costs as much as deflating 50 files.
var deflaters = sync.Pool{New: func() any {
	w, _ := flate.NewWriter(nil, deflateLevel) // the level is valid
	return w
}}

// GetDeflater returns a compressor for data of entries. The caller resets it
// before use, and returns it with [PutDeflater].
func GetDeflater() *flate.Writer { return deflaters.Get().(*flate.Writer) }

// PutDeflater takes back a compressor for reuse.
func PutDeflater(w *flate.Writer) { deflaters.Put(w) }
