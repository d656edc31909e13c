package transfer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync/atomic"
	"time"

	"lockstep/blob"
	"lockstep/destination/filename"
	"lockstep/destination/internal/content"
	"lockstep/destination/internal/filetime"
	"lockstep/destination/internal/plan"
	"lockstep/destination/internal/reserve"
	"lockstep/destination/journal"
	"lockstep/internal/fetch"
	"lockstep/resourcesync"
)

// An Outcome is the result of an action.
type Outcome struct {
	Action     *plan.Action
	Writer     blob.Writer   // content to be committed; nil: none
	Sealed     bool          // Writer holds no file open
	Held       journal.Held  // the row to record after the commit
	Past       *journal.Past // the former content, if it is to be recorded; otherwise nil
	Unchanged  bool          // the content turned out to be what the mirror holds
	Adopted    bool          // an existing file was taken over because it matches
	By         Means         // method that obtained the content
	Postponed  bool          // a file that may be removed later blocks its path
	Replaced   bool          // the transfer failed, and another representation of the record is kept
	Err        error         // the transfer failed; nothing is to be recorded
	Crowded    bool          // it found no room while others were being transferred
	Stale      bool          // the description may be out of date and should be read again
	Warning    string
	AddressErr error // why the address of the resource did not return the content, if a memento did; otherwise nil
}

// MemberReader reads single members of packages.
type MemberReader interface {
	// Read passes the content of the member at path in package n to use, unless the
	// member's length shows that it is not content of the stated length (-1: not
	// stated). With insist, the whole package is read if there is no other method.
	Read(ctx context.Context, n int, path string, length int64, insist bool, use func(content io.Reader) error) error
}

// A Fetcher gets content into the store, up to but not including Commit. It is safe
// for concurrent use.
type Fetcher struct {
	Client *fetch.Client
	Store  blob.Store
	Shared *Shared
	Log    *slog.Logger
	Clock  func() time.Time
	Lookup func(ctx context.Context, uris []string) ([]journal.Held, error)   // returns the Journal's rows for resources
	OnDisk func(ctx context.Context, h *journal.Held) (there bool, err error) // whether the file of h exists as it was recorded

	Set             int
	Names           *reserve.Names
	Resume          bool                    // an earlier run may have left unfinished downloads
	BeforeDeletions bool                    // deletions follow: a file that blocks a path may be removed
	Adopt           bool                    // files with matching content are taken over, whatever process created them
	OwnFiles        bool                    // files with matching content can only be the mirror's
	FilesReadable   bool                    // files in the store can be read again
	Refuse          func(uri string) string // returns why content must not be fetched from uri, or ""
	Still           func() bool             // whether resources that wait for a request are still to be fetched; nil: they are
	faults          patchFaults
	OfPast          bool      // content of a former state is fetched
	AsOf            time.Time // the instant of that state
	OtherMethods    bool      // content of a former state that is unavailable by single requests may be available by another method

	// OpenKept opens a version that the mirror stores. It is called for content of
	// a former state.
	OpenKept func(ctx context.Context, uri string, hashes resourcesync.Hashes, length int64) (io.ReadCloser, error)

	// Stored offers content that is available without a request, by calling put
	// with it, and returns the result of put. It reports whether there is any. It
	// may be nil.
	Stored func(ctx context.Context, a *plan.Action, put func(io.Reader) Outcome) (Outcome, bool)

	Lasting bool        // addresses have failed for so long that mementos are used
	Failing atomic.Bool // the address of a resource with a memento failed

	Members MemberReader // reads packages that are known; nil: none are used
	Hashers content.Hashers
}

// Do carries out a Fetch on its own, by the cheapest method that succeeds: see
// [Fetcher.methods]. The path it chooses stays reserved in f.Names.
func (f *Fetcher) Do(ctx context.Context, a *plan.Action) Outcome {
	return f.with(ctx, a, func(t *transfer) Outcome {
		var past *pastSearch
		if f.OfPast {
			past = &pastSearch{t: t}
			if o, ok := past.fromKept(ctx); ok {
				return o
			}
		}
		if t.a.Rehash {
			if o, ok := rehashed(ctx, t); ok {
				return o
			}
		}
		if f.Stored != nil && a.From == "" {
			if o, ok := f.Stored(ctx, a, func(r io.Reader) Outcome { return t.copy(ctx, r) }); ok {
				return o
			}
		}
		if !f.OfPast {
			return t.byMethods(ctx)
		}
		if steps, _ := a.WorthwhilePatches(); len(steps) > 0 {
			if o, ok := t.patched(ctx, f.usable(steps), false); ok {
				return o
			}
		}
		return past.ofThePast(ctx)
	})
}

// Take carries out a Fetch with content that was obtained by another method: from a
// package, or as the result of a patch. The content is verified like any other. If
// it does not match, the outcome's error is a [content.Error], and the content can
// be obtained by another method.
func (f *Fetcher) Take(ctx context.Context, a *plan.Action, content io.Reader) Outcome {
	return f.with(ctx, a, func(t *transfer) Outcome { return t.copy(ctx, content) })
}

// with reserves the path of a's file and calls get to fill it.
func (f *Fetcher) with(ctx context.Context, a *plan.Action, get func(*transfer) Outcome) Outcome {
	path, given := a.Held.Path, false
	if a.Place != "" {
		path = a.Place
		f.Names.Take(a.URI, path)
	} else if a.IsHeld() && !a.Moves {
		f.Names.Take(a.URI, path)
	} else {
		var err error
		path, err = f.Names.Give(ctx, a.URI)
		if f.BeforeDeletions && (err != nil && IsTaken(err) || err == nil && !f.Names.IsFirst(a.URI, path)) {
			if err == nil {
				f.Names.Release(path)
			}
			return Outcome{Action: a, Postponed: true}
		}
		if err != nil {
			return f.taken(ctx, a, err, get)
		}
		given = true
	}
	o := get(&transfer{Fetcher: f, a: a, path: path, given: given})
	o.Action, o.Held.Path = a, path
	if o.Err != nil {
		f.Names.Release(path)
		o.Held = journal.Held{}
	}
	return o
}

// Reserve reserves the path of a's file for content that another process fetches. It reports
// false, and reserves nothing, if there is anything in the way.
func (f *Fetcher) Reserve(ctx context.Context, a *plan.Action) (path string, ok bool) {
	if a.IsHeld() && !a.Moves {
		f.Names.Take(a.URI, a.Held.Path)
		return a.Held.Path, true
	}
	path, err := f.Names.Give(ctx, a.URI)
	if err != nil {
		return "", false
	}
	if f.BeforeDeletions && !f.Names.IsFirst(a.URI, path) {
		f.Names.Release(path)
		return "", false
	}
	return path, true
}

// ErrGone reports content that another process had fetched, and that ended before it was
// committed, or could not commit it.
var ErrGone = errors.New("the process that fetched it has not committed it")

func IsTaken(err error) bool {
	var taken *filename.TakenError
	return errors.As(err, &taken)
}

// taken handles a new resource whose path is occupied; get fetches its content.
func (f *Fetcher) taken(ctx context.Context, a *plan.Action, err error, get func(*transfer) Outcome) Outcome {
	var taken *filename.TakenError
	if !errors.As(err, &taken) {
		return Outcome{Action: a, Err: err}
	}
	if other := f.Names.Owner(taken.Path); other != "" {
		return Outcome{Action: a, Err: fmt.Errorf("%w: the resource %s has this file", err, fetch.Printable(other))}
	}
	if uri, perr := f.Names.Paths.URI(taken.Path); perr == nil && uri != a.URI {
		if hs, lerr := f.Lookup(ctx, []string{uri}); lerr == nil && hs[0].Path == taken.Path {
			return Outcome{Action: a, Err: fmt.Errorf("%w: the resource %s has this file", err, fetch.Printable(uri))}
		}
	}
	if !f.Adopt && !f.OwnFiles {
		return Outcome{Action: a, Err: fmt.Errorf("%w, which sync did not create and was left alone; sync --adopt takes over what is right", err)}
	}
	if len(a.Hashes) == 0 && f.OwnFiles {
		return f.compareTaken(ctx, a, taken, get)
	}
	if len(a.Hashes) == 0 {
		return Outcome{Action: a, Err: fmt.Errorf("%w, and without a hash from the Source it cannot be known whether it is right; move it away, or run sync --adopt, which compares length and time", err)}
	}
	length, got, herr := f.Hashers.Blob(ctx, f.Store, taken.Path, f.Hashers.Algorithms(a.Hashes))
	if herr != nil {
		return Outcome{Action: a, Err: fmt.Errorf("%w: %w", err, herr)}
	}
	if _, verr := content.Verify(a.Description(), length, got); verr != nil {
		return Outcome{Action: a, Err: fmt.Errorf("%w, which sync did not create and was left alone: %w; sync --adopt --replace replaces it", err, verr)}
	}
	f.Names.Take(a.URI, taken.Path)
	h := plan.NewHeld(a, f.Set, taken.Path)
	h.Length, h.Hashes = length, got
	if info, serr := f.Store.Stat(ctx, taken.Path); serr == nil {
		h.SetFile(&info)
		filetime.Set(context.Background(), f.Store, &h)
	}
	return Outcome{Action: a, Held: h, Adopted: true}
}

// compareTaken fetches a resource for which the Source states no hash, and whose
// path is occupied by a file that may be the mirror's own. The file is taken over
// if its bytes are the same, and is left unchanged in any case.
func (f *Fetcher) compareTaken(ctx context.Context, a *plan.Action, taken *filename.TakenError, get func(*transfer) Outcome) Outcome {
	differs := func(why error, remedy string) Outcome {
		return Outcome{Action: a, Err: fmt.Errorf("%w, which is not what the Source has and was left alone: %w; %s", taken, why, remedy)}
	}
	info, err := f.Store.Stat(ctx, taken.Path)
	if err != nil {
		return Outcome{Action: a, Err: fmt.Errorf("%w: %w", taken, err)}
	}
	if a.Length >= 0 && a.Length != info.Size {
		return differs(&content.Error{URI: a.URI, What: "length", Want: fmt.Sprint(a.Length), Got: fmt.Sprint(info.Size)}, "sync --adopt --replace replaces it")
	}
	f.Names.Take(a.URI, taken.Path)
	o := get(&transfer{Fetcher: f, a: a, path: taken.Path})
	o.Action, o.Held.Path = a, taken.Path
	if o.Err != nil || o.Writer == nil {
		f.Names.Release(taken.Path)
		o.Held = journal.Held{}
		return o
	}
	_ = o.Writer.Close() // the existing file is kept
	o.Writer = nil
	length, sums, err := f.Hashers.Blob(ctx, f.Store, taken.Path, content.Strongest(o.Held.Hashes))
	if err == nil && !plan.SameContent(&o.Held, &journal.Held{Length: length, Hashes: sums}) {
		f.Names.Release(taken.Path)
		return differs(errors.New("its bytes are others"), "remove it to have the Source's") // --adopt compares length and time, which may be right
	}
	if err != nil {
		f.Names.Release(taken.Path)
		return Outcome{Action: a, Err: fmt.Errorf("%w: %w", taken, err)}
	}
	o.Held.SetFile(&info)
	filetime.Set(ctx, f.Store, &o.Held)
	return Outcome{Action: a, Held: o.Held, Adopted: true}
}

// rehashed computes the stated hashes from the file that is held. If they match,
// they are recorded, so that this happens only once. Otherwise, or if there is no
// file to read, rehashed reports false, and the content has to be fetched, whatever
// the validators say (RS-DST-05).
func rehashed(ctx context.Context, t *transfer) (Outcome, bool) {
	a := t.a
	a.Rehash, a.Conditional = false, false
	if t.OfPast || t.path != a.Held.Path || !t.FilesReadable {
		return Outcome{}, false
	}
	n, got, err := t.Hashers.Blob(ctx, t.Store, a.Held.Path, content.Strongest(a.Held.Hashes)|t.Hashers.Algorithms(a.Hashes))
	if ctx.Err() != nil {
		return Outcome{Err: context.Cause(ctx)}, true
	}
	if err != nil || n != a.Held.Length || content.Compare(got, a.Held.Hashes) == content.Different || content.Compare(got, a.Hashes) != content.Same {
		return Outcome{}, false
	}
	h := plan.NewHeld(a, t.Set, t.path)
	if a.Lastmod.IsZero() {
		h.Lastmod = a.Held.Lastmod
	}
	h.Length, h.Hashes, h.ETag, h.Modified = n, got, a.Held.ETag, a.Held.Modified
	h.Written, h.Tag = a.Held.Written, a.Held.Tag
	retime(t, &h)
	return Outcome{Held: h, Unchanged: true}, true
}
