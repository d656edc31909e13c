package jsonl

import (
	"bytes"
	"context"
	"errors"
	"io"

	"lockstep/catalog"
	"lockstep/intake"
	"lockstep/intake/internal/chunks"
	"lockstep/intake/internal/listed"
	"lockstep/internal/extsort"
)

// errReadAll reports that changed chunks alone do not show what has changed: all
// lines must be read.
var errReadAll = errors.New("all lines must be read")

// A difference is the result of comparing a list of the whole set with the chunks of
// which it consisted when it was read last. Chunks with the same text are not parsed.
// The entries of the chunks that are new are compared with those of the chunks that
// are gone.
//
// This relies on the fact that the chunks name exactly the resources of the set, each
// once, and that the catalog has their records. Therefore chunks are stored only if
// their entries are as many as the resources, and forgotten before anything is written
// to the catalog. Nothing is written before the difference is known to be complete.
type difference struct {
	*reading
	old    *chunks.File
	kept   []bool       // of the chunks in old
	added  []addedChunk // the new chunks
	sorted *extsort.Sorter
	todo   listed.Sorter // the entries to apply, and the resources to delete
	search searcher
	listed int64 // entries
	same   int64 // entries that are unchanged
}

// An addedChunk is the place of a new chunk.
type addedChunk struct {
	index     int   // in the table
	from, end int64 // in the file
	line      int64 // number of its first line
}

// Kinds of sorted values: the entry of a chunk that is gone comes before that of a new
// one with the same URI.
const (
	formerEntry = iota // followed by its Print
	newEntry           // followed by the packed record
)

// compare compares the list with its former chunks. Without them, or if they do not
// show what has changed, it returns nil, and all lines must be read. The set is at the
// point at.
func (r *reading) compare(ctx context.Context, at intake.Point) (*difference, error) {
	ref := r.j.memory.Chunks
	if ref == nil || !r.known {
		return nil, nil
	}
	old, err := chunks.Open(r.j.chunkFile(), *ref)
	if err != nil {
		return nil, nil // the file is lost or damaged: reading all lines replaces it
	}
	d := &difference{
		reading: r, old: old, kept: make([]bool, len(old.Chunks)),
		sorted: extsort.New(extsort.TempFiles(r.list.TempDir)),
		todo:   listed.Sorter{Dir: r.list.TempDir}, search: searcher{list: r.list, all: at.Resources},
	}
	d.sorted.Stable = true
	r.log.begin(old.Append())
	err = d.find(ctx)
	if err == nil {
		return d, nil
	}
	d.close()
	r.log.close()
	if errors.Is(err, errReadAll) {
		return nil, r.rewind(ctx)
	}
	return nil, err
}

// find finds out what has changed.
func (d *difference) find(ctx context.Context) error {
	if err := d.findChunks(ctx); err != nil {
		return err
	}
	if err := d.addFormer(); err != nil {
		return err
	}
	if err := d.parseAdded(ctx); err != nil {
		return err
	}
	return d.decide(ctx)
}

func (d *difference) close() {
	d.old.Close()
	_ = d.sorted.Close() // its contents are no longer needed
	d.todo.Close()
	d.search.stop()
}

// findChunks reads the file and finds the chunks that are new, and those that are gone.
func (d *difference) findChunks(ctx context.Context) error {
	known := make(map[chunks.Sum]int, len(d.old.Chunks))
	for i := range d.old.Chunks {
		known[d.old.Chunks[i].Sum] = i
	}
	most := len(d.old.Chunks) / 4 // with more, reading all lines takes no longer
	table, from := &d.log.table, int64(0)
	table.Fields = d.old.Fields
	d.lines.sum = nil
	err := eachBlock(ctx, d.lines.block, func(_ *lineParser, b *lineBlock) {
		b.sum = b.textSum()
	}, func(b *lineBlock) error {
		d.list.Bytes.Store(b.at)
		i, ok := known[b.sum]
		switch {
		case b.bad, ok && d.kept[i] && d.old.Chunks[i].Entries > 0, !ok && len(d.added) == most:
			return errReadAll
		case ok:
			d.kept[i] = true
			d.same += int64(d.old.Chunks[i].Entries)
			table.Chunks = append(table.Chunks, d.old.Chunks[i])
		default:
			d.added = append(d.added, addedChunk{len(table.Chunks), from, b.end, b.first})
			table.Chunks = append(table.Chunks, chunks.Chunk{Sum: b.sum})
		}
		from = b.end
		return nil
	})
	if err != nil {
		return err
	}
	for _, kept := range d.kept {
		if !kept {
			most--
		}
	}
	if most < 0 {
		return errReadAll
	}
	d.listed = d.same
	return nil
}

// addFormer adds the entries of the chunks that are gone.
func (d *difference) addFormer() error {
	var value []byte
	for i := range d.old.Chunks {
		if d.kept[i] {
			continue
		}
		entries, err := d.old.Named(&d.old.Chunks[i])
		if err != nil {
			return errReadAll // the file is damaged: reading all lines replaces it
		}
		for _, e := range entries {
			value = append(append(value[:0], formerEntry), e.Print[:]...)
			if err := d.sorted.Add(e.URI, value); err != nil {
				return err
			}
		}
	}
	return nil
}

// parseAdded parses the lines of the new chunks and adds their entries.
func (d *difference) parseAdded(ctx context.Context) error {
	todo := d.added
	next := func(b *lineBlock) error {
		if len(todo) == 0 {
			return io.EOF
		}
		c := todo[0]
		todo = todo[1:]
		in := newLines(readUntil(ctx, io.NewSectionReader(d.f, c.from, c.end-c.from)))
		in.line, in.cut.Mean = c.line-1, d.j.chunkMean
		err := in.block(b)
		if errors.Is(err, io.EOF) {
			return errReadAll // the file has become shorter
		}
		return err
	}
	var value []byte
	at := 0
	return eachBlock(ctx, next, func(p *lineParser, b *lineBlock) { b.parse(p, true) }, func(b *lineBlock) error {
		c := &d.log.table.Chunks[d.added[at].index]
		at++
		if b.sum != c.Sum || !d.log.fill(c, b) { // the file was modified, or has too many unknown fields
			return errReadAll
		}
		return b.each(func(l *blockLine, said []byte) error {
			if l.err != nil || l.change != 0 {
				return errReadAll
			}
			if l.uri == "" {
				return nil
			}
			value = append(append(value[:0], newEntry), said...)
			return d.sorted.Add([]byte(l.uri), value)
		})
	})
}

// decide compares the entries with the same URI.
func (d *difference) decide(ctx context.Context) error {
	var c comparison
	for p, err := range d.sorted.Sorted(ctx) {
		if err != nil {
			return err
		}
		if !bytes.Equal(p.Key, c.uri) {
			if err := d.decideOne(ctx, &c); err != nil {
				return err
			}
			c = comparison{uri: append(c.uri[:0], p.Key...), former: c.former[:0], said: c.said[:0]}
		}
		if kind, value := p.Value[0], p.Value[1:]; kind == newEntry {
			c.isNew, c.said = true, append(c.said[:0], value...) // the last one counts
		} else if c.wasListed {
			return errReadAll
		} else {
			c.wasListed, c.former = true, append(c.former[:0], value...)
		}
	}
	return d.decideOne(ctx, &c)
}

// A comparison is what the former and the new chunks contain about one resource.
type comparison struct {
	uri       []byte
	wasListed bool
	former    []byte // Print of the former entry
	isNew     bool
	said      []byte // packed record of the new entry
}

// decideOne adds what is to do about one resource.
func (d *difference) decideOne(ctx context.Context, c *comparison) error {
	if !c.isNew {
		if !c.wasListed {
			return nil // there are no entries
		}
		return d.todo.Add(c.uri, 0, true, nil)
	}
	d.listed++
	if c.wasListed {
		if now := chunks.PrintOf(c.said); bytes.Equal(now[:], c.former) {
			d.same++
			return nil
		}
	} else if known, err := d.search.has(ctx, string(c.uri)); err != nil {
		return err
	} else if known {
		return errReadAll // a chunk that is the same names it as well
	}
	return d.todo.Add(c.uri, 0, false, c.said)
}

// apply applies the new and changed entries and adds the resources that are no longer
// listed to those to delete, in the order of [intake.Listing.TakeListed].
func (d *difference) apply(ctx context.Context) error {
	d.reportUnknown()
	d.list.Files.Add(d.listed)
	d.list.Unchanged.Add(d.same)
	err := d.todo.All(ctx, func(it *listed.Entry) error {
		if it.Gone {
			return d.list.Gone.Add(string(it.URI))
		}
		u, err := it.Update()
		if err != nil {
			return err
		}
		return d.list.Put(ctx, u)
	})
	if err != nil {
		return err
	}
	return d.list.Flush(ctx)
}

// reportUnknown reports the unknown fields in all chunks.
func (d *difference) reportUnknown() {
	t, line := &d.log.table, int64(1)
	for i := range t.Chunks {
		for _, f := range t.Chunks[i].Found {
			field := t.Fields[f.Field]
			d.unknown.add([]unknownField{{line + int64(f.Line), field.Name, field.Known}})
		}
		line += int64(t.Chunks[i].Lines)
	}
}

// A searcher finds out whether resources are in the catalog, asked for in the order of
// their URIs: each for itself, or, if they are many, by reading all rows.
type searcher struct {
	list *intake.Listing
	all  int64 // resources in the set
	n    int64 // resources asked for
	rows *intake.Rows
}

// rowsPerSearch is how many rows are read in the time in which one resource is found.
const rowsPerSearch = 32

func (s *searcher) has(ctx context.Context, uri string) (bool, error) {
	if s.n++; s.n <= s.all/rowsPerSearch {
		_, known, err := catalog.Find(ctx, s.list.Catalog, s.list.Set, uri)
		return known, err
	}
	if s.rows == nil {
		s.rows = intake.ReadRows(ctx, s.list.Catalog, s.list.Set, []catalog.Range{{From: uri}})
	}
	for s.rows.More() && s.rows.Row().URI < uri {
		s.rows.Next()
	}
	return s.rows.More() && s.rows.Row().URI == uri, s.rows.Err
}

func (s *searcher) stop() {
	if s.rows != nil {
		s.rows.Stop()
	}
}
