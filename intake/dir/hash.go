package dir

import (
	"context"
	"errors"
	"io"
	"path"
	"runtime"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"lockstep/catalog"
	"lockstep/intake"
	"lockstep/intake/internal/filestat"
	"lockstep/internal/mediatype"
	"lockstep/internal/sleep"
	"lockstep/resourcesync"
)

// A job is a file to be read, and the result.
type job struct {
	uri, rel string
	link     bool          // it is a symbolic link to the file
	known    bool          // the catalog has the resource
	same     bool          // and only its links can have changed
	st       filestat.Stat // as the walk found it
	car      sidecar

	outcome outcome // 0: not read yet
	err     error   // if the outcome is readFailed
	record  catalog.Record
}

type outcome uint8

const (
	readWhole outcome = iota + 1
	readVanished
	readFailed
)

// A block is a batch of jobs for one hasher: handing over small files one by one
// would cost as much as reading them.
type block struct {
	jobs  []job
	bytes int64
}

var blockPool = sync.Pool{New: func() any { return &block{jobs: make([]job, 0, blockFiles)} }}

func (b *block) free() {
	clear(b.jobs)
	b.jobs, b.bytes = b.jobs[:0], 0
	blockPool.Put(b)
}

// enqueue hands a file to the hashers.
func (s *scan) enqueue(ctx context.Context, j job) error {
	if s.open == nil {
		s.open = blockPool.Get().(*block)
	}
	b := s.open
	b.jobs = append(b.jobs, j)
	b.bytes += j.st.Size
	if len(b.jobs) < blockFiles && b.bytes < blockBytes {
		return nil
	}
	return s.flush(ctx)
}

// flush hands over the block being filled.
func (s *scan) flush(ctx context.Context) error {
	b := s.open
	s.open = nil
	if b == nil {
		return nil
	}
	select {
	case s.jobs <- b:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// hashAll reads the files of all blocks, with one hasher for each processor.
func (s *scan) hashAll(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	for range runtime.GOMAXPROCS(0) {
		g.Go(func() error {
			var h *hasher
			for b := range s.jobs {
				if h == nil { // most scans of single paths need one hasher
					h = newHasher(s)
				}
				if err := h.readAll(ctx, b.jobs); err != nil {
					return err
				}
				select {
				case s.hashed <- b:
				case <-ctx.Done():
					return ctx.Err()
				}
			}
			return nil
		})
	}
	return g.Wait()
}

// readBuffer has space for the small files of a block, each with one byte more. It is
// larger than most files, so that one read call suffices for them.
const readBuffer = blockBytes + blockFiles

// readTries are the pauses before a file that changed while it was being read is
// read again. If a writer takes longer, a later scan reads the file.
var readTries = [...]time.Duration{0, filestat.Tick, 4 * filestat.Tick}

// hasher reads files: small ones several at a time, others one by one.
type hasher struct {
	s     *scan
	sum   *resourcesync.Hasher
	small smallFiles
	buf   []byte
	head  []byte // scratch for the first bytes of a file
	pace  *pacer // nil: no limit
}

func newHasher(s *scan) *hasher {
	return &hasher{
		s:     s,
		sum:   resourcesync.NewHasher(s.d.o.Algorithms...),
		small: newSmallFiles(s.d.o.Algorithms),
		buf:   make([]byte, readBuffer),
		head:  make([]byte, 0, mediatype.HeadSize),
	}
}

// readAll reads the files of jobs.
func (h *hasher) readAll(ctx context.Context, jobs []job) error {
	if err := h.readSmall(ctx, jobs); err != nil {
		return err
	}
	for i := range jobs {
		if jobs[i].outcome != 0 {
			continue
		}
		if err := h.read(ctx, &jobs[i]); err != nil {
			return err
		}
	}
	return nil
}

// read reads the file of j until it does not change meanwhile. The error is that of
// ctx; a failure to read the file becomes the outcome of the job.
func (h *hasher) read(ctx context.Context, j *job) error {
	if j.same {
		if done, err := h.readLinks(ctx, j); done || err != nil {
			return err
		}
	}
	for i, pause := range readTries {
		if err := sleep.For(ctx, pause); err != nil {
			return err
		}
		done, err := h.readOnce(ctx, j, i == len(readTries)-1)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		switch {
		case err == nil && done && j.outcome == readWhole:
			return h.addLinks(ctx, j)
		case err == nil && done:
			return nil
		case err == nil:
			j.outcome, j.err = readFailed, intake.ErrChanging
			continue
		case vanished(err), j.link && escaped(err):
			j.outcome = readVanished
		default:
			j.outcome, j.err = readFailed, err
		}
		return nil
	}
	return nil
}

// readOnce reads the file and reports whether it remained unchanged meanwhile; then
// the outcome is set. For a file written just before, that is not certain: it is
// accepted on the last try.
func (h *hasher) readOnce(ctx context.Context, j *job, last bool) (done bool, err error) {
	f, err := h.s.t.openFile(j.rel, j.link)
	if err != nil {
		return false, err
	}
	defer func() { _ = f.Close() }() // only read from
	before, err := f.stat()
	if err != nil {
		return false, err
	}
	if before.Kind != filestat.File {
		j.outcome = readVanished
		return true, nil
	}
	now := time.Now()
	head, err := h.content(ctx, f, before.Size)
	if err != nil {
		return false, err
	}
	after, err := f.stat()
	if err != nil {
		return false, err
	}
	if h.sum.Size() != before.Size || !before.Unchanged(&after) || after.Fresh(now) && !last {
		return false, nil
	}
	h.record(j, &after, now, head, h.sum.Sum())
	return true, nil
}

// record makes the record of a file in state st, the reading of which began at now.
func (h *hasher) record(j *job, st *filestat.Stat, now time.Time, head []byte, hashes resourcesync.Hashes) {
	token := make([]byte, 0, 48)
	token = st.AppendToken(token, h.s.d.prefix)
	if st.Racy(now) {
		token = append(token, filestat.RacyMark)
	}
	j.outcome = readWhole
	j.record = catalog.Record{
		URI:     j.uri,
		Lastmod: st.Lastmod(),
		Length:  st.Size,
		Type:    mediatype.Of(path.Base(j.rel), head),
		Hashes:  hashes,
		Token:   string(token),
	}
	h.s.Tally.Hashed.Add(1)
}

// content hashes the content of f, up to a little more than size bytes, and returns
// its first bytes, valid until the next call.
func (h *hasher) content(ctx context.Context, f treeFile, size int64) (head []byte, err error) {
	h.sum.Reset()
	head = h.head[:0]
	for h.sum.Size() <= size {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		// One byte more than expected: a shorter read has reached the end.
		want := h.buf[:min(size+1-h.sum.Size(), int64(len(h.buf)))]
		n, err := f.Read(want)
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, err
		}
		if n == 0 {
			break
		}
		if room := cap(head) - len(head); room > 0 {
			head = append(head, want[:min(n, room)]...)
		}
		_, _ = h.sum.Write(want[:n])
		h.s.Bytes.Add(int64(n))
		if err := h.pace.wait(ctx, n); err != nil {
			return nil, err
		}
		if n < len(want) && h.sum.Size() == size {
			break
		}
	}
	return head, nil
}

// tokenRules changes when a Record derived from the same bytes would differ:
// the next scan then reads every file again.
const tokenRules = "1"

// tokenPrefix begins the Tokens of records made with these algorithms.
func tokenPrefix(algs []resourcesync.Algorithm) string {
	p := []byte(tokenRules)
	for _, a := range algs {
		p = strconv.AppendUint(p, uint64(a), 36)
	}
	return string(append(p, '.'))
}
