package jsonl

import (
	"context"
	"errors"
	"io"
	"runtime"

	"golang.org/x/sync/errgroup"

	"lockstep/intake/internal/listed"
	"lockstep/resourcesync"
)

// Sizes of the blocks in which the lines of a file are passed to the parsers. They
// bound the memory that reading takes.
const (
	lineBlockBytes = 128 << 10
	lineBlockLines = 1 << 10
)

// A lineBlock is a run of consecutive lines and the result of parsing them.
type lineBlock struct {
	text  []byte
	said  []byte // the records of the lines, packed
	lines []blockLine
	found []unknownField
	at    int64         // offset in the file at which the run ends
	done  chan struct{} // closed when it has been parsed
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

// eachLine reads all lines and calls take with each, in order. They are parsed by as
// many goroutines as there are processors.
func (r *reading) eachLine(ctx context.Context, take func(l *blockLine, said []byte) error) error {
	g, ctx := errgroup.WithContext(ctx)
	n := runtime.GOMAXPROCS(0)
	work, order := make(chan *lineBlock, n), make(chan *lineBlock, 2*n)
	g.Go(func() error {
		defer close(work)
		defer close(order)
		return r.readBlocks(ctx, work, order)
	})
	for range n {
		g.Go(func() error {
			p := newLineParser()
			for b := range work {
				b.parse(p)
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
			r.unknown.add(b.found)
			from := 0
			for i := range b.lines {
				l := &b.lines[i]
				if err := take(l, b.said[from:l.saidTo]); err != nil {
					return err
				}
				from = l.saidTo
			}
			r.list.Bytes.Store(b.at)
		}
		return nil
	})
	return g.Wait()
}

// readBlocks reads the lines in blocks. It sends each block to the parsers and, in
// the order of the file, to the consumer.
func (r *reading) readBlocks(ctx context.Context, work, order chan<- *lineBlock) error {
	for end := false; !end; {
		b := &lineBlock{done: make(chan struct{})}
		for len(b.text) < lineBlockBytes && len(b.lines) < lineBlockLines {
			text, ended, err := r.lines.next()
			if errors.Is(err, io.EOF) {
				end = true
				break
			}
			if err != nil && !errors.Is(err, errLongLine) {
				return err
			}
			from := len(b.text)
			b.text = append(b.text, text...)
			b.lines = append(b.lines, blockLine{number: r.lines.line, from: from, to: len(b.text), ended: ended, err: err})
		}
		b.at = r.lines.at
		for _, to := range [...]chan<- *lineBlock{work, order} {
			select {
			case to <- b:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}
	return nil
}

// parse parses the lines of b.
func (b *lineBlock) parse(p *lineParser) {
	for i := range b.lines {
		l := &b.lines[i]
		e, ok, err := p.take(l.number, b.text[l.from:l.to], l.err)
		if l.err = err; ok {
			l.uri, l.change, l.gone = e.Update.URI, e.Change, e.Update.Deleted
			b.said = listed.AppendRecord(b.said, &e.Update.Record)
		}
		l.saidTo = len(b.said)
	}
	b.found = p.takeFound()
}
