package jsonl

import (
	"context"
	"errors"
	"io"
	"runtime"
	"sync"

	"golang.org/x/sync/errgroup"

	"lockstep/intake/internal/chunks"
	"lockstep/intake/internal/listed"
	"lockstep/resourcesync"
)

// A lineBlock is a run of consecutive lines, those of one chunk, and the result of
// parsing them. The limits of chunks bound the memory that reading takes.
type lineBlock struct {
	text  []byte // of the lines, each followed by LF
	said  []byte // the records of the lines, packed
	lines []blockLine
	found []unknownField
	first int64         // number of the first line
	at    int64         // offset in the file of the end of the last line that has a line end
	end   int64         // offset in the file at which the run ends
	bad   bool          // a line could not be read
	done  chan struct{} // closed when it has been parsed

	sum     chunks.Sum // of text
	entries int        // lines with an entry
	packed  []byte     // the entries, by a [chunks.Packer]
}

// A blockLine is one line of a block.
type blockLine struct {
	number   int64
	from, to int // in text
	ended    bool
	err      error  // why the line is not usable
	uri      string // empty: the line has no entry
	saidTo   int    // end of the record in said; it begins where that of the line before ends
	change   resourcesync.Change
	gone     bool
}

// eachBlock calls take with each block that next fills, in order, until next returns
// io.EOF. Before, work is called with it, by as many goroutines as there are
// processors. A block is used again after take.
func eachBlock(ctx context.Context, next func(b *lineBlock) error, work func(p *lineParser, b *lineBlock), take func(b *lineBlock) error) error {
	g, ctx := errgroup.WithContext(ctx)
	n := runtime.GOMAXPROCS(0)
	todo, order := make(chan *lineBlock, n), make(chan *lineBlock, 2*n)
	var used sync.Pool
	g.Go(func() error {
		defer close(todo)
		defer close(order)
		return sendBlocks(ctx, func() (*lineBlock, error) {
			b, ok := used.Get().(*lineBlock)
			if !ok {
				b = new(lineBlock)
			}
			return b, next(b)
		}, todo, order)
	})
	for range n {
		g.Go(func() error {
			p := newLineParser()
			for b := range todo {
				work(p, b)
				close(b.done)
			}
			return nil
		})
	}
	g.Go(func() error {
		for b := range order {
			select {
			case <-b.done:
			case <-ctx.Done():
				return ctx.Err()
			}
			if err := take(b); err != nil {
				return err
			}
			used.Put(b)
		}
		return nil
	})
	return g.Wait()
}

// sendBlocks sends each block to the goroutines that parse and, in the order of the
// file, to the consumer.
func sendBlocks(ctx context.Context, next func() (*lineBlock, error), todo, order chan<- *lineBlock) error {
	for {
		b, err := next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		for _, to := range [...]chan<- *lineBlock{todo, order} {
			select {
			case to <- b:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}
}

// block fills b with the lines of the next chunk, or returns io.EOF.
func (s *lines) block(b *lineBlock) error {
	*b = lineBlock{text: b.text[:0], said: b.said[:0], lines: b.lines[:0], first: s.line + 1, done: make(chan struct{})}
	for {
		text, ended, err := s.next()
		if errors.Is(err, io.EOF) && len(b.lines) > 0 {
			break
		}
		if err != nil && !errors.Is(err, errLongLine) {
			return err
		}
		from := len(b.text)
		b.text = append(append(b.text, text...), '\n')
		b.lines = append(b.lines, blockLine{number: s.line, from: from, to: from + len(text), ended: ended, err: err})
		b.bad = b.bad || err != nil
		if s.cut.Ends(text) {
			break
		}
	}
	b.at, b.end = s.at, s.end
	return nil
}

// parse parses the lines of b. With pack it also packs its entries.
func (b *lineBlock) parse(p *lineParser, pack bool) {
	clear(p.known) // the first line of a field is reported for each chunk
	for i := range b.lines {
		l := &b.lines[i]
		from := len(b.said)
		e, ok, err := p.take(l.number, b.text[l.from:l.to], l.err)
		if l.err = err; ok {
			l.uri, l.change, l.gone = e.Update.URI, e.Change, e.Update.Deleted
			b.said = listed.AppendRecord(b.said, &e.Update.Record)
			b.entries++
			if pack {
				p.packer.Add(l.uri, b.said[from:])
			}
		}
		l.saidTo = len(b.said)
	}
	b.found = p.takeFound()
	if pack {
		b.sum, b.packed = b.textSum(), p.packer.Packed()
	}
}

func (b *lineBlock) textSum() chunks.Sum { return chunks.SumOf(b.text, b.first == 1) }

// each calls take with each line and its packed record.
func (b *lineBlock) each(take func(l *blockLine, said []byte) error) error {
	from := 0
	for i := range b.lines {
		l := &b.lines[i]
		if err := take(l, b.said[from:l.saidTo]); err != nil {
			return err
		}
		from = l.saidTo
	}
	return nil
}
