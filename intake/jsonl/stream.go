package jsonl

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync/atomic"
	"time"

	"lockstep/catalog"
	"lockstep/intake"
	"lockstep/intake/internal/listed"
	"lockstep/internal/sleep"
)

// flushAfter is how long a line of a stream waits for others to be applied with it.
const flushAfter = 250 * time.Millisecond

// streamAhead is how many lines of a stream are read ahead.
const streamAhead = 1024

// lineStream is a stream that is read once.
type lineStream struct {
	r    io.Reader
	used bool
	last atomic.Int64 // number of the last line read that has an entry

	// Of a stream that lists the whole set, if it could not be applied:
	list       *listed.Sorter // nil: there is nothing to apply
	incomplete bool           // a line of it could not be read
}

// streamed is the result of one line: an entry, or an error that ends the stream.
type streamed struct {
	line   int64
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
				s.last.Store(in.line)
				send(streamed{line: in.line, update: e.Update})
			}
		}
	}()
	return out
}

var errUnrecorded = errors.New("this line and those after it were not recorded: send them again")

// follow applies the lines of the stream as they arrive, in order. With keepOn, what fails
// is repeated until it succeeds or ctx ends, because the lines are not sent again. It calls
// onChange, which may be nil, after each batch that changed the catalog or could not be
// applied.
func (j *List) follow(ctx context.Context, l *intake.Listing, keepOn bool, onChange func(intake.Report)) error {
	in := j.stream.read(ctx, l)
	tick := time.NewTicker(flushAfter)
	defer tick.Stop()
	var said []byte
	var first, last, applied int64 // lines: of the batch, and the last one that was applied
	defer func() {
		if keepOn && j.stream.last.Load() > applied {
			l.Unreadable(l.Name, &intake.LineError{Line: applied + 1, Err: errUnrecorded})
		}
	}()
	reported := l.Report()
	report := func(err error) {
		if now := l.Report(); onChange != nil && (err != nil || now.Changed()) {
			if d := now.Since(reported); err != nil || d.Changed() {
				onChange(d)
			}
			reported = now
		}
	}
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
				if len(l.Batch) == 0 {
					first = v.line
				}
				l.Batch, last = append(l.Batch, v.update), v.line
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
		if err := j.applyLines(ctx, l, first, keepOn, report); err != nil {
			return err
		}
		applied = last
		if broken != nil {
			return broken
		}
		if end {
			return ctx.Err()
		}
	}
}

// applyLines applies the batch, whose first line has the number first. With keepOn it does so
// until that succeeds or ctx ends. It calls report after each attempt.
func (j *List) applyLines(ctx context.Context, l *intake.Listing, first int64, keepOn bool, report func(error)) error {
	for retry := time.Duration(0); ; {
		batch := slices.Clone(l.Batch)
		err := l.Flush(ctx)
		report(err)
		if err == nil {
			if retry > 0 {
				j.in.Events.Emit(intake.Event{Kind: intake.EventScanned, Report: l.Report()})
			}
			return nil
		}
		err = fmt.Errorf("the lines from %d on were not recorded: %w", first, err)
		if !keepOn || ctx.Err() != nil {
			return err
		}
		j.in.Events.Emit(intake.Event{Kind: intake.EventScanned, Err: fmt.Errorf("read %s: %w", j.in.Name, err), Report: l.Report()})
		retry = min(max(2*retry, intake.RetryFirst), intake.RetryMost)
		if err := sleep.For(ctx, retry); err != nil {
			return err
		}
		l.Batch = batch
	}
}

// takeStream makes the set equal to the list in the stream, once that has ended. A list that
// could not be applied is applied by the next call.
func (j *List) takeStream(ctx context.Context, l *intake.Listing) error {
	s := j.stream
	switch {
	case s.list != nil:
		l.Sorter, s.list = *s.list, nil
		l.Incomplete.Store(s.incomplete)
	case s.used:
		return nil
	default:
		if err := j.sortStream(ctx, l); err != nil {
			return err
		}
	}
	err := l.TakeListed(ctx)
	if err == nil {
		err = l.Finish(ctx)
	}
	if err != nil && !errors.Is(err, intake.ErrEmpty) {
		list := l.Sorter
		s.list, s.incomplete = &list, l.Incomplete.Load()
		l.Sorter = listed.Sorter{}
	}
	return err
}

// sortStream reads the list in the stream.
func (j *List) sortStream(ctx context.Context, l *intake.Listing) error {
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
	return ctx.Err()
}

// unapplied waits until the stream has to be applied again, or ctx ends.
func (j *List) unapplied(ctx context.Context) error {
	j.scanning.Lock()
	again := j.stream.list != nil
	j.scanning.Unlock()
	if again {
		return context.Cause(ctx)
	}
	return intake.Forever(ctx)
}
