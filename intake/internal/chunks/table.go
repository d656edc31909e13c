package chunks

import (
	"encoding/binary"
	"slices"
)

// Limits of a table, which bound the memory that it takes and the size of the file.
const (
	MinChunks = 4       // a shorter list is read as fast as its table
	MaxChunks = 1 << 18 // 8 GiB of text with the usual length of chunks

	maxFields = 100
	maxName   = 1 << 10
	maxTable  = 64 << 20 // bytes
)

// A Table lists the chunks of a list in their order.
type Table struct {
	Fields []Field // that entries should not have
	Chunks []Chunk
}

// A Field is a field of entries that is unknown.
type Field struct {
	Name  string
	Known string // the fields allowed in its place
}

// A Chunk is a run of lines of a list.
type Chunk struct {
	Sum     Sum
	Lines   int
	Entries int     // lines that name a resource
	Found   []Found // where unknown fields occur first

	at    int64 // of the packed entries in the file
	size  int
	check Print // of the packed entries
}

// A Found is the first line of a chunk, from 0, in which an unknown field occurs.
type Found struct{ Field, Line int }

// Entries returns how many lines of the list name a resource.
func (t *Table) Entries() (n int64) {
	for i := range t.Chunks {
		n += int64(t.Chunks[i].Entries)
	}
	return n
}

// Field returns the index of f in t.Fields, to which it adds f if necessary. ok is
// false if f cannot be stored.
func (t *Table) Field(f Field) (index int, ok bool) {
	if index = slices.Index(t.Fields, f); index >= 0 {
		return index, true
	}
	if len(t.Fields) == maxFields || len(f.Name)+len(f.Known) > maxName {
		return 0, false
	}
	t.Fields = append(t.Fields, f)
	return len(t.Fields) - 1, true
}

// packedSize returns the length of the packed entries of all chunks.
func (t *Table) packedSize() (n int64) {
	for i := range t.Chunks {
		n += int64(t.Chunks[i].size)
	}
	return n
}

// tableMagic begins a table. Its number is incremented with each change of the format.
const tableMagic = "lockstep chunks 1\n"

// append appends t to b.
func (t *Table) append(b []byte) []byte {
	b = append(b, tableMagic...)
	b = binary.AppendUvarint(b, uint64(len(t.Fields)))
	for _, f := range t.Fields {
		for _, s := range [...]string{f.Name, f.Known} {
			b = append(binary.AppendUvarint(b, uint64(len(s))), s...)
		}
	}
	b = binary.AppendUvarint(b, uint64(len(t.Chunks)))
	for i := range t.Chunks {
		c := &t.Chunks[i]
		b = append(append(b, c.Sum[:]...), c.check[:]...)
		b = binary.AppendUvarint(b, uint64(c.at))
		for _, n := range [...]int{c.size, c.Lines, c.Entries, len(c.Found)} {
			b = binary.AppendUvarint(b, uint64(n))
		}
		for _, f := range c.Found {
			b = binary.AppendUvarint(binary.AppendUvarint(b, uint64(f.Field)), uint64(f.Line))
		}
	}
	return b
}

// parseTable is the inverse of append. The packed entries of all chunks are before the
// offset end of the file.
func parseTable(b []byte, end int64) (t Table, err error) {
	r := reader{b: b}
	if string(r.take(uint64(len(tableMagic)))) != tableMagic {
		return Table{}, errDamaged
	}
	for range r.count(maxFields) {
		t.Fields = append(t.Fields, Field{string(r.text()), string(r.text())})
	}
	n := r.count(MaxChunks)
	for range n {
		if r.bad {
			break
		}
		var c Chunk
		copy(c.Sum[:], r.take(uint64(len(c.Sum))))
		copy(c.check[:], r.take(uint64(len(c.check))))
		c.at = r.number(end)
		c.size = r.count(maxPacked)
		r.bad = r.bad || int64(c.size) > end-c.at
		c.Lines = r.count(maxLines)
		c.Entries = r.count(c.Lines)
		for range r.count(len(t.Fields)) {
			c.Found = append(c.Found, Found{r.count(len(t.Fields) - 1), r.count(c.Lines)})
		}
		t.Chunks = append(t.Chunks, c)
	}
	if r.bad || len(r.b) > 0 {
		return Table{}, errDamaged
	}
	return t, nil
}

// reader is the unread rest of a packed text. After an error all it returns is empty.
type reader struct {
	b   []byte
	bad bool
}

func (r *reader) take(n uint64) []byte {
	if n > uint64(len(r.b)) {
		r.bad, r.b = true, nil
		return nil
	}
	b := r.b[:n]
	r.b = r.b[n:]
	return b
}

func (r *reader) uvarint() uint64 {
	v, n := binary.Uvarint(r.b)
	if n <= 0 {
		r.bad, r.b = true, nil
		return 0
	}
	r.b = r.b[n:]
	return v
}

// number returns a number that must not be above most.
func (r *reader) number(most int64) int64 {
	v := r.uvarint()
	if v > uint64(max(most, 0)) {
		r.bad, r.b = true, nil
		return 0
	}
	return int64(v)
}

func (r *reader) count(most int) int { return int(r.number(int64(most))) }

func (r *reader) text() []byte { return r.take(r.uvarint()) }
