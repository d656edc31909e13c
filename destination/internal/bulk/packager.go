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

// A packageJob lists what is needed from one package.
type packageJob struct {
	dump.Package
	Copy dump.Copy // of the manifest its entries were read from; zero: none

	// Trusted says that content is accepted that no hash verifies except the
	// checksums in the package: where nothing better is available.
	Trusted bool

	Wanted []*plan.Action // the member of each is its want's Member.Path
}

// A packager gets content out of packages. What a package does not yield, for
// whatever reason, is handed back: no package makes a run fail.
//
// Several goroutines may use one.
type packager struct {
	opener  *dump.Opener
	fetch   *transfer.Fetcher
	done    func(transfer.Outcome)
	single  func(*plan.Action)
	warn    func(uri, text string)
	streams chan struct{} // bounds the requests that hold a connection while others may have to wait
}

// newPackager returns a packager that hands outcomes to done, and actions that
// have to be fetched alone to single. All three may be called concurrently.
func newPackager(o *dump.Opener, f *transfer.Fetcher, done func(transfer.Outcome), single func(*plan.Action), warn func(uri, text string)) *packager {
	return &packager{opener: o, fetch: f, done: done, single: single, warn: warn, streams: make(chan struct{}, maxStreams)}
}

// get carries out job. Each of its actions goes either to done or to single,
// unless ctx ends.
//
// The end of the package is requested first: it says where everything is. Then
// the needed members are read in as few passages as make sense, each from its
// first member to its last; a passage that breaks off is resumed. Without
// ranges, or if only the hash of the package verifies its contents, all of it
// is first written to a temporary file. A package that turns out not to be what
// its dump states is not used.
func (p *packager) get(ctx context.Context, job *packageJob) {
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
	u.tell()
}

// An unpacking is one package being read.
type unpacking struct {
	*packager
	job   *packageJob
	left  []*plan.Action // not had yet
	whole bool           // the package is to be held whole

	paths     map[*plan.Action]string // of those whose path the package has otherwise
	unvouched map[*plan.Action]bool   // have no hash of their own
	had       atomic.Bool             // something was taken

	mu     sync.Mutex // guards what follows
	failed int        // given to single
	first  error      // why the first of them
	wrong  int        // of them, were read
	quiet  bool       // they are fetched alone for a good reason
}

// vouch handles contents that have no hash of their own: the hash of the
// package can verify them, if all of it is held.
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

// giveUnvouched hands back what nothing vouches for.
func (u *unpacking) giveUnvouched(err error) {
	u.left = slices.DeleteFunc(slices.Clone(u.left), func(a *plan.Action) bool {
		if u.unvouched[a] {
			u.refuse(err, a)
		}
		return u.unvouched[a]
	})
}

// round opens the package and gets what is left to get from it. After
// [dump.ErrChanged], the new version of the package may have more of it.
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
		u.tellExtra(dir)
		return u.extract(ctx, file, u.plan(dir))
	})
}

// open opens the package, and holds it whole where that is needed.
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

// worth reports whether a package of so many bytes should be fetched for what
// is left to get from it.
func (u *unpacking) worth(size int64) bool {
	const each = 16 << 10 // bytes that might come instead of one request
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

// tell warns once of what could not be obtained.
func (u *unpacking) tell() {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.failed == 0 || u.quiet || wasCanceled(u.first) {
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
