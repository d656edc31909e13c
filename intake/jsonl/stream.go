package jsonl

import (
	"context"
	"errors"
	"io"
	"time"

	"lockstep/catalog"
	"lockstep/intake"
	"lockstep/intake/internal/listed"
)

// flushAfter is how long a line of a stream waits for others to be applied with it.
const flushAfter = 250 * time.Millisecond

// streamAhead is how many lines of a stream are read ahead.
const streamAhead = 1024

// lineStream is a stream that is read once.
type lineStream struct {
	r    io.Reader
	used bool
}

// streamed is the result of one line: an entry, or an error that ends the stream.
type streamed struct {
	update catalog.Update
	err    error
}

// read reads lines until the stream or ctx ends. It uses a goroutine of its own,
// because a read from a pipe cannot be interrupted, and a caller that waited for the
// next line could not apply the last one. The goroutine ends with the read in
// progress.
func (s *lineStream) read(ctx context.Context, l *intake.Listing) <-chan streamed {
	out := make(chan streamed, streamAhead)
	if s.used {
		close(out)
		return out
	}
	s.used = true
	go func() {
		defer close(out)
		send := func(v streamed) bool {
			select {
			case out <- v:
				return true
			case <-ctx.Done():
				return false
			}
		}
		p, in, unknown := newLineParser(), newLines(s.r), unknownReports{list: l}
		for ctx.Err() == nil {
			text, ended, err := in.next()
			if errors.Is(err, io.EOF) {
				return
			}
			if err != nil && !errors.Is(err, errLongLine) {
				send(streamed{err: err})
				return
			}
			l.Bytes.Store(in.at)
			e, ok, err := p.take(in.line, text, err)
			unknown.add(p.takeFound())
			switch _, ofLine := errors.AsType[*intake.LineError](err); {
			case err != nil && !ofLine:
				send(streamed{err: err})
				return
			case err != nil && !ended:
				l.Illegible(l.Name, &intake.LineError{Line: in.line, Err: errCutOff})
			case err != nil:
				l.Illegible(l.Name, err)
			case ok:
				send(streamed{update: e.Update})
			}
		}
	}()
	return out
}

// follow applies the lines of the stream as they arrive, in order. It calls onChange,
// which may be nil, after each batch that changed the catalog or could not be applied.
func (j *List) follow(ctx context.Context, l *intake.Listing, onChange func(intake.Report)) error {
	in := j.stream.read(ctx, l)
	tick := time.NewTicker(flushAfter)
	defer tick.Stop()
	var said []byte
	reported := l.Report()
	for {
		end, full := false, false
		var broken error
		select {
		case v, ok := <-in:
			broken = v.err
			end = !ok || broken != nil
			if !end {
				l.Files.Add(1)
				said = listed.AppendRecord(said[:0], &v.update.Record)
				v.update.Token = string(listed.AppendFingerprint(nil, said))
				l.Batch = append(l.Batch, v.update)
				full = len(l.Batch) == intake.BatchRows
			}
		case <-tick.C:
			full = len(l.Batch) > 0
		case <-ctx.Done():
			return ctx.Err()
		}
		if !end && !full {
			continue
		}
		err := l.Flush(ctx)
		if now := l.Report(); onChange != nil && (err != nil || now.Changed()) {
			if d := now.Since(reported); err != nil || d.Changed() {
				onChange(d)
			}
			reported = now
		}
		if err != nil {
			return err
		}
		if broken != nil {
			return broken
		}
		if end {
			return ctx.Err()
		}
	}
}

// takeStream makes the set equal to the list in the stream, once that has ended.
func (j *List) takeStream(ctx context.Context, l *intake.Listing) error {
	if j.stream.used {
		return nil
	}
	var said []byte
	for v := range j.stream.read(ctx, l) {
		if v.err != nil {
			return v.err
		}
		said = listed.AppendRecord(said[:0], &v.update.Record)
		if err := l.Sorter.Add([]byte(v.update.URI), 0, v.update.Deleted, said); err != nil {
			return err
		}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := l.TakeListed(ctx); err != nil {
		return err
	}
	return l.Finish(ctx)
}
