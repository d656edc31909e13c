package source

import (
	"hash/crc32"
	"io"
	"sync"

	"github.com/klauspost/compress/flate"
)

// A zipOut appends files to a package and keeps its directory.
type zipOut struct {
	w       io.Writer
	n       int64 // bytes written
	entries []zipEntry
	head    []byte
}

func (z *zipOut) Write(p []byte) (int, error) {
	n, err := z.w.Write(p)
	z.n += int64(n)
	return n, err
}

// append appends files whose headers and data stand in buf.
func (z *zipOut) append(buf []byte, entries []zipEntry) error {
	for _, e := range entries {
		e.offset += z.n
		z.entries = append(z.entries, e)
	}
	_, err := z.Write(buf)
	return err
}

// begin writes the header of a streamed file, whose data is to be written next.
func (z *zipOut) begin(e *zipEntry) error {
	e.offset = z.n
	z.head = e.appendLocal(z.head[:0])
	_, err := z.Write(z.head)
	return err
}

// end ends the file last begun.
func (z *zipOut) end(e *zipEntry) error {
	e.raw = z.n - e.offset - int64(e.headerSize())
	z.head = e.appendDescriptor(z.head[:0])
	if _, err := z.Write(z.head); err != nil {
		return err
	}
	z.entries = append(z.entries, *e)
	return nil
}

// splice appends the files of another package that has no directory yet.
func (z *zipOut) splice(from *zipOut, content io.Reader) error {
	for _, e := range from.entries {
		e.offset += z.n
		z.entries = append(z.entries, e)
	}
	_, err := io.CopyBuffer(struct{ io.Writer }{z}, content, make([]byte, streamSize))
	return err
}

// finish writes the directory.
func (z *zipOut) finish() error {
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

// A fileWriter deflates one file into a package: its manifest.
type fileWriter struct {
	z       *zipOut
	e       zipEntry
	deflate *flate.Writer
}

func (z *zipOut) create(e zipEntry) (*fileWriter, error) {
	f := &fileWriter{z: z, e: e}
	f.e.streamed, f.e.method = true, methodDeflate
	if err := z.begin(&f.e); err != nil {
		return nil, err
	}
	f.deflate = deflaters.Get().(*flate.Writer)
	f.deflate.Reset(z)
	return f, nil
}

// deflaters are used again: making one costs as much as deflating 50 files.
var deflaters = sync.Pool{New: func() any {
	w, _ := flate.NewWriter(nil, deflateLevel) // the level is one
	return w
}}

func (f *fileWriter) Write(p []byte) (int, error) {
	f.e.crc = crc32.Update(f.e.crc, crc32.IEEETable, p)
	f.e.size += int64(len(p))
	return f.deflate.Write(p)
}

func (f *fileWriter) close() error {
	if err := f.deflate.Close(); err != nil {
		return err
	}
	deflaters.Put(f.deflate)
	return f.z.end(&f.e)
}
