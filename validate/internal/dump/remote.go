package dump

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"

	"lockstep/resourcesync"
	"lockstep/validate/finding"
	"lockstep/validate/internal/tally"
	"lockstep/validate/internal/visit"
	"lockstep/validate/opener"
)

// wholeBytes is the maximum size of a package that is read completely, to
// compare its hash, when only a sample is requested.
const wholeBytes = 16 << 20

// A Remote is a package that is read by blocks, of which only a few are in memory.
type Remote struct {
	Size int64

	uri      string
	settings *visit.Settings
	ask      func(opener.Request) (*opener.Answer, error) // as [visit.Visitor.Ask], with the context of OpenRemote
	broken   func(err error) error                        // as [visit.Visitor.Broken], with that context
	ended    func() error                                 // the cause, once that context has ended
	blocks   [maxBlocks]block                             // the last used ones
	uses     int
	local    *localFile // the whole package, if ranges are not supported
}

// A block is a piece of a package.
type block struct {
	number int64
	used   int // when, 0 if it holds nothing
	data   []byte
}

const (
	blockBytes = 1 << 20
	maxBlocks  = 6
)

// maxTries is how often a block is requested when the connection breaks off: an
// [opener.Func] can repeat a request only before it answers.
const maxTries = 4

// OpenRemote asks for the first block of the package at uri, and thereby for its
// size and whether parts of it can be requested. Other blocks are requested when they
// are read, until ctx ends. The caller closes the Remote.
func OpenRemote(ctx context.Context, v *visit.Visitor, uri string) (*Remote, error) {
	r := &Remote{
		uri: uri, settings: v.Settings,
		ask:    func(q opener.Request) (*opener.Answer, error) { return v.Ask(ctx, q) },
		broken: func(err error) error { return v.Broken(ctx, uri, err) },
		ended:  func() error { return context.Cause(ctx) },
	}
	var err error
	for range maxTries {
		if err = r.begin(ctx); !visit.IsMissing(err) || errors.Is(err, fs.ErrNotExist) {
			break
		}
	}
	if err != nil {
		r.Close()
		return nil, err
	}
	return r, nil
}

func (r *Remote) begin(ctx context.Context) error {
	a, err := r.ask(opener.Request{URI: r.uri, Last: blockBytes - 1})
	if err != nil {
		return err
	}
	defer a.Body.Close() // read as far as it is of use
	if !a.Partial {
		r.local, err = download(visit.Until(ctx, a.Body), r.settings, r.broken)
		if err == nil {
			r.Size = r.local.size
		}
		return err
	}
	if r.Size = a.Size; r.Size < 0 || r.Size > math.MaxInt64/2 {
		return visit.Missing(r.uri, errors.New("the answer does not say how long it is as a whole"))
	}
	data, err := io.ReadAll(io.LimitReader(a.Body, min(blockBytes, r.Size)))
	if err == nil && int64(len(data)) < min(blockBytes, r.Size) {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return r.broken(err)
	}
	r.uses = 1
	r.blocks[0] = block{0, r.uses, data}
	return nil
}

// ReadAt implements [io.ReaderAt], by one goroutine at a time. It fails once the
// context of [OpenRemote] has ended.
func (r *Remote) ReadAt(p []byte, off int64) (n int, err error) {
	if err := r.ended(); err != nil {
		return 0, err
	}
	if r.local != nil {
		return r.local.ReadAt(p, off)
	}
	for n < len(p) {
		if off >= r.Size {
			return n, io.EOF
		}
		b, err := r.block(off / blockBytes)
		if err != nil {
			return n, err
		}
		m := copy(p[n:], b[off%blockBytes:])
		n, off = n+m, off+int64(m)
	}
	return n, nil
}

// block returns a block, from memory or by asking for it.
func (r *Remote) block(number int64) ([]byte, error) {
	r.uses++
	oldest := 0
	for i := range r.blocks {
		b := &r.blocks[i]
		if b.used > 0 && b.number == number {
			b.used = r.uses
			return b.data, nil
		}
		if b.used < r.blocks[oldest].used {
			oldest = i
		}
	}
	b, err := &r.blocks[oldest], error(nil)
	for range maxTries {
		if err = r.fill(b, number); !visit.IsMissing(err) || errors.Is(err, errWhole) {
			break
		}
	}
	if err != nil {
		return nil, err
	}
	b.used = r.uses
	return b.data, nil
}

var errWhole = errors.New("it was changed, or is no longer given by parts")

// fill reads a block into b.
func (r *Remote) fill(b *block, number int64) error {
	first := number * blockBytes
	want := min(blockBytes, r.Size-first)
	a, err := r.ask(opener.Request{URI: r.uri, First: first, Last: first + want - 1})
	if err != nil {
		return err
	}
	defer a.Body.Close() // read whole, or of no use
	if !a.Partial || a.Size >= 0 && a.Size != r.Size {
		return visit.Missing(r.uri, errWhole)
	}
	if int64(cap(b.data)) < want {
		b.data = make([]byte, want)
	}
	b.number, b.used, b.data = number, 0, b.data[:want]
	if _, err := io.ReadFull(a.Body, b.data); err != nil {
		return r.broken(err)
	}
	return nil
}

// Close removes the copy of the package, if there is one.
func (r *Remote) Close() {
	if r.local != nil {
		r.local.Close()
	}
}

// Compare compares the length and, if the package is small or everything is to
// be checked, the hash of the package with e, whose location in the document of p is at.
func (r *Remote) Compare(p finding.Place, at string, e *resourcesync.Entry) error {
	if e.HasLength && e.Length != r.Size {
		p.Errorf("RS-LEN-01", at, "length %d, but %s has %d bytes", e.Length, e.Loc, r.Size)
	}
	o := r.settings
	if len(e.Hashes) == 0 || o.Sample == 0 || o.Sample > 0 && r.Size > wholeBytes || r.Size > o.ResourceBytes {
		return nil
	}
	h := e.Hashes.NewHasher()
	if _, err := io.Copy(h, io.NewSectionReader(r, 0, r.Size)); err != nil {
		if visit.IsMissing(err) {
			return nil // a finding when the package is opened
		}
		return err
	}
	if _, differs := e.Hashes.Compare(h.Sum()); differs != 0 {
		p.Errorf("RS-HASH-05", at, "the %s digest of %s is another one", differs, e.Loc)
	}
	return nil
}

// A localFile is a package that had to be fetched as a whole.
type localFile struct {
	*os.File
	size int64
}

// download stores body in a temporary file. broken converts an error of reading it.
func download(body io.Reader, o *visit.Settings, broken func(error) error) (*localFile, error) {
	f, err := tally.TempFile(o.TempDir)
	if err != nil {
		return nil, err
	}
	n, err := io.Copy(&keeper{f}, io.LimitReader(body, o.ResourceBytes+1))
	if err == nil && n > o.ResourceBytes {
		err = fmt.Errorf("longer than %d bytes", o.ResourceBytes)
	}
	if err != nil {
		tally.RemoveFile(f)
		return nil, broken(err)
	}
	return &localFile{f, n}, nil
}

func (l *localFile) Close() { tally.RemoveFile(l.File) }

// A keeper is a file whose errors can be distinguished from those of the source
// that is copied to it.
type keeper struct{ f *os.File }

func (k *keeper) Write(p []byte) (int, error) {
	n, err := k.f.Write(p)
	if err != nil {
		err = &tally.KeepError{Err: err}
	}
	return n, err
}
