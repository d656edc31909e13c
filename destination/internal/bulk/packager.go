package bulk

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"lockstep/destination/internal/content"
	"lockstep/destination/internal/dump"
	"lockstep/destination/internal/plan"
	"lockstep/destination/internal/transfer"
	"lockstep/destination/internal/wording"
	"lockstep/internal/fetch"
	"lockstep/internal/unpack"
)

// A packageJob lists the actions that need content from one package.
type packageJob struct {
	dump.Package
	Copy dump.Copy // the manifest that its entries were read from; zero: none

	// Trusted accepts content that only the checksums in the package verify. It is
	// set if no hash is available.
	Trusted bool

	Wanted []*plan.Action // the member of each is its Member.Path
}

// A packager gets content out of packages. It hands back the actions for which a
// package does not yield the content, whatever the reason: no package makes a run
// fail.
//
// It is safe for concurrent use.
type packager struct {
	opener  *dump.Opener
	fetch   *transfer.Fetcher
	done    func(transfer.Outcome)
	single  func(*plan.Action)
	warn    func(uri, text string)
	streams chan struct{} // limits the requests that occupy a connection while others may have to wait
}

// newPackager returns a packager that passes outcomes to done, actions that have to
// be requested on their own to single, and warnings to warn. All three may be
// called concurrently.
func newPackager(o *dump.Opener, f *transfer.Fetcher, done func(transfer.Outcome), single func(*plan.Action), warn func(uri, text string)) *packager {
	return &packager{opener: o, fetch: f, done: done, single: single, warn: warn, streams: make(chan struct{}, maxStreams)}
}

// get carries out job. Each of its actions goes either to done or to single, unless
// ctx ends.
//
// The end of the package is requested first, because it contains the directory.
// Then the needed members are read in as few passages as make sense, each from its
// first member to its last; an interrupted passage is resumed. If ranges are not
// available, or only the hash of the package verifies its contents, the whole
// package is first written to a temporary file. A package that turns out not to
// match its dump is not used.
//
// It returns why the content of the first of those that are passed to single was not obtained.
func (p *packager) get(ctx context.Context, job *packageJob) error {
	u := &unpacking{packager: p, job: job, left: job.Wanted}
	u.vouch()
	for try := 0; len(u.left) > 0 && ctx.Err() == nil; try++ {
		err := u.round(ctx)
		if err == nil || ctx.Err() != nil {
			break
		}
		if errors.Is(err, dump.ErrNoRanges) {
			u.whole = true
		}
		if !dump.MayReopen(err) || try == dump.MaxReopen {
			u.refuse(err, u.left...)
			u.left = nil
			break
		}
	}
	u.warnFailed(ctx)
	return u.first
}

// An unpacking is the state of reading one package.
type unpacking struct {
	*packager
	job   *packageJob
	left  []*plan.Action // not obtained yet
	whole bool           // the whole package has to be stored

	paths     map[*plan.Action]string // paths that differ from those in the actions
	unvouched map[*plan.Action]bool   // actions without a hash
	had       atomic.Bool             // the content of an action was obtained

	mu     sync.Mutex // guards the fields below
	failed int        // actions passed to single
	first  error      // reason for the first of them
	wrong  int        // of these, actions whose content was read
	quiet  bool       // they are requested on their own for a good reason
}

// vouch handles content without a hash of its own: the hash of the package can
// verify it if the whole package is stored.
func (u *unpacking) vouch() {
	u.unvouched = map[*plan.Action]bool{}
	for _, a := range u.left {
		if !content.HasKnown(a.Hashes) {
			u.unvouched[a] = true
		}
	}
	if len(u.unvouched) == 0 {
		return
	}
	if content.HasKnown(u.job.Hashes) {
		u.whole = true
		return
	}
	if !u.job.Trusted {
		u.giveUnvouched(errors.New("no hash vouches for its content"))
	}
}

// giveUnvouched hands back the actions whose content cannot be verified.
func (u *unpacking) giveUnvouched(err error) {
	u.left = slices.DeleteFunc(slices.Clone(u.left), func(a *plan.Action) bool {
		if u.unvouched[a] {
			u.refuse(err, a)
		}
		return u.unvouched[a]
	})
}

// round opens the package and gets the remaining content from it. After
// [dump.ErrChanged], the new version of the package may yield more.
func (u *unpacking) round(ctx context.Context) error {
	file, err := u.open(ctx)
	if err != nil {
		return err
	}
	defer file.Close()
	if len(u.left) == 0 {
		return nil
	}
	return u.opener.WithDirectory(ctx, file, func(dir *unpack.Directory, _ bool) error {
		u.compareManifest(ctx, file, dir)
		u.warnExtra(dir)
		return u.extract(ctx, file, u.plan(dir))
	})
}

// open opens the package, and stores all of it if that is needed.
func (u *unpacking) open(ctx context.Context) (dump.File, error) {
	src, worth := u.job.Package, u.worth
	src.Members = max(src.Members, len(u.job.Wanted))
	if len(u.unvouched) > 0 {
		worth = nil
	}
	file, warning, err := u.opener.Open(ctx, &src, u.whole, worth)
	if err != nil {
		if errors.Is(err, dump.ErrNotWorth) {
			u.quiet = true
		}
		return nil, err
	}
	if warning != "" {
		u.warn(u.job.URI, warning)
	}
	return file, nil
}

// worth reports whether a package of so many bytes should be fetched for the
// remaining content.
func (u *unpacking) worth(size int64) bool {
	const each = 16 << 10 // bytes that could be transferred instead of one request
	var want int64
	for _, a := range u.left {
		want += max(a.Length, 0) + each
	}
	return size < 0 || size <= 4*want
}

// refuse hands actions back.
func (u *unpacking) refuse(err error, as ...*plan.Action) {
	u.mu.Lock()
	u.failed += len(as)
	if u.first == nil {
		u.first = err
	}
	u.mu.Unlock()
	for _, a := range as {
		a.PackageRead = true
		u.single(a)
	}
}

// warnFailed warns once about the content that could not be obtained.
func (u *unpacking) warnFailed(ctx context.Context) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.failed == 0 || u.quiet || content.IsCanceled(ctx, u.first) {
		return
	}
	if dump.IsUnverified(u.first) && u.failed == len(u.job.Wanted) {
		u.warn(u.job.URI, fmt.Sprintf("%s; it is not used, and %s fetched in other ways",
			fetch.Printable(u.first.Error()), areFetched(u.failed)))
		return
	}
	u.warn(u.job.URI, fmt.Sprintf("package %s: %d of %d wanted from it are fetched in other ways; the first because %s",
		fetch.Printable(u.job.URI), u.failed, len(u.job.Wanted), fetch.Printable(u.first.Error())))
}

func areFetched(n int) string {
	if n == 1 {
		return "resource is"
	}
	return wording.Plural(int64(n), "resource") + " are"
}
