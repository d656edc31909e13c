package jsonl

import (
	"os"
	"sync/atomic"

	"lockstep/intake"
	"lockstep/intake/internal/chunks"
)

// A chunkLog collects the chunks of a reading, so that the next one need not parse
// those that are the same. It is closed as soon as that is known to be impossible.
type chunkLog struct {
	open  atomic.Bool // w is not nil; for the goroutines that parse
	w     *chunks.Writer
	table chunks.Table
}

func (g *chunkLog) begin(w *chunks.Writer) {
	g.w, g.table = w, chunks.Table{}
	g.open.Store(true)
}

// close discards the chunks.
func (g *chunkLog) close() {
	if g.w != nil {
		g.w.Discard()
	}
	g.w, g.table = nil, chunks.Table{}
	g.open.Store(false)
}

// add adds the chunk with the lines of b.
func (g *chunkLog) add(b *lineBlock) {
	if g.w == nil {
		return
	}
	c := chunks.Chunk{Sum: b.sum}
	if len(g.table.Chunks) == chunks.MaxChunks || !g.fill(&c, b) {
		g.close()
		return
	}
	g.table.Chunks = append(g.table.Chunks, c)
}

// fill stores the entries of b as those of c. It reports false if c cannot have all
// that the next reading needs.
func (g *chunkLog) fill(c *chunks.Chunk, b *lineBlock) bool {
	c.Lines, c.Entries = len(b.lines), b.entries
	for _, f := range b.found {
		i, ok := g.table.Field(chunks.Field{Name: f.name, Known: f.known})
		if !ok {
			return false
		}
		c.Found = append(c.Found, chunks.Found{Field: i, Line: int(f.line - b.first)})
	}
	g.w.Store(c, b.packed)
	return true
}

// chunkFile returns the path of the file of chunks.
func (j *List) chunkFile() string { return j.o.State + ".chunks" }

// forgetChunks makes the stored chunks invalid. Until they are stored again, the
// catalog may differ from them: a refreshed record does not show in the Point.
func (j *List) forgetChunks() error {
	if j.memory.Chunks == nil {
		return nil
	}
	j.memory.Chunks = nil
	return j.save(j.memory)
}

// saveChunks stores the chunks if they name exactly the resources of the set, each
// once: all lines were applied, and there are as many as resources. Without them the
// next reading parses all lines.
func (r *reading) saveChunks(at intake.Point) *chunks.Ref {
	if r.j.o.State == "" {
		return nil
	}
	if r.log.w != nil && !r.changes && !r.flawed && r.log.table.Entries() == at.Resources {
		if ref, err := r.log.w.Save(&r.log.table); err == nil {
			return ref
		}
	}
	_ = os.Remove(r.j.chunkFile()) // without a Ref it is not read
	return nil
}
