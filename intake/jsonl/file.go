package jsonl

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"lockstep/intake"
	"lockstep/intake/internal/chunks"
	"lockstep/intake/internal/entry"
	"lockstep/intake/internal/filestat"
	"lockstep/intake/internal/listed"
	"lockstep/internal/sleep"
)

// settled is how long a file that lists the whole set must have been unmodified
// before resources that it does not name are deleted: it might be half written.
const settled = 2 * time.Second

// memory is the state of a file at the time when all of it had been applied.
type memory struct {
	Rules int          `json:"rules"` // how it was read
	File  string       `json:"file"`
	Mark  string       `json:"mark"` // size and times; empty: a change might leave them as they are
	Point intake.Point `json:"point"`

	// For a list of changes, which grows at its end:
	Changes bool   `json:"changes"`
	Read    int64  `json:"read"`  // bytes read, up to the end of a line
	Lines   int64  `json:"lines"` // lines in these bytes
	Sum     string `json:"sum"`   // SHA-256 of these bytes
	Flawed  bool   `json:"-"`     // some of these lines were not usable

	// For a list of the whole set: its chunks, which name exactly the resources of the
	// set; nil: they are not known.
	Chunks *chunks.Ref `json:"chunks,omitempty"`
}

// rules is incremented when the same lines would result in other records.
const rules = 1

// A reading is one reading of a file.
type reading struct {
	list    *intake.Listing
	j       *List
	f       *os.File
	before  filestat.Stat
	began   time.Time
	lines   *lines
	changes bool // a line has the field change
	flawed  bool // a line that was skipped because it had been read before was not usable
	unknown unknownReports
	last    error // error of a last line without line end
	known   bool  // the memory is of this file, and the set is as it was then
	log     chunkLog
	diff    *difference // nil: all lines were read
}

// scanFile brings the catalog in step with the file.
func (j *List) scanFile(ctx context.Context, l *intake.Listing) (err error) {
	j.seen = filestat.MarkAt(j.path)
	defer func() {
		if err != nil && !errors.Is(err, intake.ErrEmpty) {
			j.seen = "" // so that the file is read again
		}
	}()
	r := &reading{j: j, list: l, unknown: unknownReports{list: l}, began: time.Now()}
	if err := r.open(ctx); err != nil {
		return err
	}
	defer func() { _ = r.f.Close() }() // only read from
	at, err := j.in.Point(ctx)
	if err != nil {
		return err
	}
	same, err := r.resume(ctx, at)
	if err != nil {
		return err
	}
	if same {
		l.Files.Store(at.Resources)
		l.Unchanged.Store(at.Resources)
		return nil
	}
	defer func() { r.log.close() }()
	if r.diff, err = r.compare(ctx, at); err != nil {
		return err
	}
	if r.diff != nil {
		defer r.diff.close()
	} else if err := r.read(ctx); err != nil {
		return err
	}
	return r.take(ctx)
}

// open opens the file. If the file was modified just now, open waits for a moment, so
// that any later modification changes its times.
func (r *reading) open(ctx context.Context) error {
	f, err := os.OpenFile(r.j.path, os.O_RDONLY|filestat.OpenFlags, 0)
	if err != nil {
		return err
	}
	fi, err := f.Stat()
	if err == nil && !fi.Mode().IsRegular() {
		err = errors.New("is not a regular file; to read from a pipe, use standard input")
	}
	if err == nil {
		if st := filestat.Of(fi); st.Racy(r.began) {
			err = sleep.For(ctx, filestat.FineTick)
			r.began = time.Now()
		}
	}
	if err == nil {
		fi, err = f.Stat()
	}
	if err != nil {
		_ = f.Close() // nothing was read
		return err
	}
	r.f, r.before = f, filestat.Of(fi)
	return nil
}

// resume reports whether the file is the same as when it was read last. If it is a
// list of changes that has grown since, resume seeks to the former end. The position
// of the set is at.
func (r *reading) resume(ctx context.Context, at intake.Point) (same bool, err error) {
	r.j.recall()
	m := &r.j.memory
	r.known = m.Rules == rules && m.File == r.j.path && m.Point == at
	if r.known && m.Mark != "" && m.Mark == r.before.Mark() {
		return true, nil
	}
	if err := r.rewind(ctx); err != nil {
		return false, err
	}
	if !r.known || !m.Changes || m.Read > r.before.Size {
		return false, nil
	}
	n, err := io.CopyN(r.lines.sum, readUntil(ctx, r.f), m.Read)
	if err != nil && !errors.Is(err, io.EOF) {
		return false, err
	}
	if n == m.Read && hex.EncodeToString(r.lines.sum.Sum(nil)) == m.Sum {
		r.changes, r.flawed, r.lines.at, r.lines.end, r.lines.line = true, m.Flawed, m.Read, m.Read, m.Lines
		return false, nil
	}
	return false, r.rewind(ctx)
}

// rewind prepares for reading the file from its beginning.
func (r *reading) rewind(ctx context.Context) error {
	r.lines = newLines(readUntil(ctx, r.f))
	r.lines.sum, r.lines.cut.Mean = sha256.New(), r.j.chunkMean
	_, err := r.f.Seek(0, io.SeekStart)
	return err
}

// recall reads the memory from the file State, once.
func (j *List) recall() {
	if !j.recalled {
		j.recalled = true
		if !intake.Recall(j.o.State, &j.memory) {
			j.memory = memory{}
		}
	}
}

// readUntil returns a Reader that reads from r and fails once ctx has ended.
func readUntil(ctx context.Context, r io.Reader) io.Reader {
	return readFunc(func(p []byte) (int, error) {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		return r.Read(p)
	})
}

type readFunc func(p []byte) (int, error)

func (f readFunc) Read(p []byte) (int, error) { return f(p) }

// read reads all lines and sorts them.
func (r *reading) read(ctx context.Context) error {
	if r.j.o.State != "" && !r.changes {
		r.log.begin(chunks.Create(r.j.chunkFile()))
	}
	return eachBlock(ctx, r.lines.block, func(p *lineParser, b *lineBlock) {
		b.parse(p, r.log.open.Load())
	}, func(b *lineBlock) error {
		r.unknown.add(b.found)
		if err := b.each(r.readLine); err != nil {
			return err
		}
		r.log.add(b)
		r.list.Bytes.Store(b.at)
		return nil
	})
}

// readLine adds a line to the sorted list.
func (r *reading) readLine(l *blockLine, said []byte) error {
	if l.err != nil || l.change != 0 {
		r.log.close()
	}
	switch _, ofLine := errors.AsType[*intake.LineError](l.err); {
	case l.err != nil && !ofLine:
		return l.err
	case l.err != nil && !l.ended:
		r.last = &intake.LineError{Line: l.number, Err: errCutOff}
	case l.err != nil:
		r.list.Illegible(r.list.Name, l.err)
	case l.uri != "":
		r.changes = r.changes || l.change != 0
		r.list.Files.Add(1)
		return r.list.Sorter.Add([]byte(l.uri), 0, l.gone, said)
	}
	return nil
}

// take is like parse, for a line that may have been too long to read: err says so.
func (p *lineParser) take(line int64, text []byte, err error) (entry.Entry, bool, error) {
	if err != nil {
		return entry.Entry{}, false, &intake.LineError{Line: line, Err: err}
	}
	return p.parse(line, text)
}

// take brings the set in step with the lines read.
func (r *reading) take(ctx context.Context) error {
	still, err := r.still()
	if err != nil {
		return err
	}
	if r.last != nil && (still || !r.changes) {
		r.list.Illegible(r.list.Name, r.last)
	}
	r.list.Files.Store(0)
	if err := r.j.forgetChunks(); err != nil {
		return err
	}
	if r.changes {
		err = r.takeChanges(ctx)
	} else {
		err = r.takeWhole(ctx, still)
	}
	if err != nil {
		return err
	}
	return r.remember(ctx, still)
}

// still reports whether the file is unchanged since it was opened, and still the one
// at its path.
func (r *reading) still() (bool, error) {
	fi, err := r.f.Stat()
	if err != nil {
		return false, err
	}
	st := filestat.Of(fi)
	return r.before.Unchanged(&st) && filestat.MarkAt(r.j.path) == r.before.Mark(), nil
}

// takeChanges applies the changes in the lines, the last one of each resource.
func (r *reading) takeChanges(ctx context.Context) error {
	err := r.list.Sorter.All(ctx, func(it *listed.Entry) error {
		r.list.Files.Add(1)
		u, err := it.Update()
		if err != nil {
			return err
		}
		return r.list.Put(ctx, u)
	})
	if err != nil {
		return err
	}
	return r.list.Flush(ctx)
}

// takeWhole makes the set equal to the list in the file.
func (r *reading) takeWhole(ctx context.Context, still bool) error {
	apply := r.list.TakeListed
	if r.diff != nil {
		apply = r.diff.apply
	}
	if err := apply(ctx); err != nil || r.list.Gone.Count == 0 {
		return err
	}
	if still && !r.list.Incomplete.Load() {
		if err := r.settle(ctx); err != nil {
			return err
		}
		var err error
		if still, err = r.still(); err != nil {
			return err
		}
	}
	if !still {
		r.list.Illegible(r.list.Name, intake.ErrChanging)
		return nil
	}
	return r.list.Finish(ctx)
}

// settle waits until the file has not been written to for long enough. (Renaming a
// file to its path does not count as writing.)
func (r *reading) settle(ctx context.Context) error {
	now := time.Now()
	wait := min(time.Unix(0, r.before.Mtime).Add(settled).Sub(now), r.began.Add(settled).Sub(now))
	return sleep.For(ctx, wait)
}

// remember stores the state of the file, if all of it was applied.
func (r *reading) remember(ctx context.Context, still bool) error {
	if r.flawed = r.flawed || r.list.Incomplete.Load(); r.flawed || r.last != nil && !still {
		still = false
	}
	at, err := r.list.Point(ctx)
	if err != nil {
		return err
	}
	m := memory{Rules: rules, File: r.j.path, Point: at, Changes: r.changes, Chunks: r.saveChunks(at)}
	racy := r.before.Racy(r.began)
	if still && !racy {
		m.Mark = r.before.Mark()
	}
	if racy {
		r.j.seen += string(filestat.RacyMark) // look again
	}
	if r.changes && r.lines.whole {
		m.Read, m.Lines, m.Flawed = r.lines.at, r.lines.line, r.flawed
		m.Sum = hex.EncodeToString(r.lines.sum.Sum(nil))
	}
	r.j.memory = m
	if m.Flawed { // the next process reports the unusable lines again
		m.Read, m.Lines, m.Sum = 0, 0, ""
	}
	return r.j.save(m)
}

// save stores m in the file State.
func (j *List) save(m memory) error {
	if err := intake.Remember(j.o.State, m); err != nil {
		return fmt.Errorf("save the position in the list: %w", err)
	}
	return nil
}
