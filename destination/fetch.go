package destination

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
	"lockstep/destination/internal/plan"
	"lockstep/destination/internal/reserve"
	"lockstep/destination/journal"
	"lockstep/internal/fetch"
	"lockstep/resourcesync"
)

// An outcome is the result of an action.
type outcome struct {
	action  *plan.Action
	writer  blob.Writer   // content to be committed; nil if there is none
	sealed  bool          // and it holds no file open
	held    journal.Held  // the row to record once it is
	past    *journal.Past // what was there before, if that is to be noted
	same    bool          // the content turned out to be what is held
	adopted bool          // the file was there, and is right
	by      means         // how the content came
	later   bool          // something that may be removed blocks its path
	instead bool          // it failed, and another representation of the record is kept
	err     error         // it failed; nothing is to be recorded
	stale   bool          // the description may be out of date: read it again
	warning string
	moved   error // not nil: the content is of a memento, for its address has another, or none
}

// members reads single members of packages.
type members interface {
	// Read passes the content of the member at path in package n to use, unless its
	// length makes clear that it is not content of the stated length (-1: not
	// stated). With insist, the package is read whole if there is no other way.
	Read(ctx context.Context, n int, path string, length int64, insist bool, use func(content io.Reader) error) error
}

// A fetcher gets content into the store, up to but not including Commit. It is
// safe for concurrent use.
type fetcher struct {
	client *fetch.Client
	store  blob.Store
	shared *shared
	log    *slog.Logger
	clock  func() time.Time
	lookup func(ctx context.Context, uris []string) ([]journal.Held, error)   // what the Journal has of resources
	onDisk func(ctx context.Context, h *journal.Held) (there bool, err error) // the file of h, as it was recorded

	set      int
	names    *reserve.Names
	resume   bool                    // an earlier run may have left unfinished downloads
	first    bool                    // deletions are still to come: what blocks a path may be removed
	adopt    bool                    // files that are right are taken over, whoever made them
	ours     bool                    // files that are right can only be the mirror's
	readable bool                    // files can be read again
	refuse   func(uri string) string // says why content must not be fetched from there
	faults   patchFaults
	past     bool      // content is of the past
	asOf     time.Time // the instant that is
	lookOn   bool      // content of the past that is unavailable here may be available by another method

	// openKept opens a version that the mirror keeps. It is called for content of
	// the past.
	openKept func(ctx context.Context, uri string, hashes resourcesync.Hashes, length int64) (io.ReadCloser, error)

	// stored offers content that is available without a request, by calling put
	// with it, and returns what put did. It reports whether there is any; nil:
	// there is none.
	stored func(ctx context.Context, a *plan.Action, put func(io.Reader) outcome) (outcome, bool)

	lasting bool        // addresses have failed for so long that mementos are used
	failing atomic.Bool // an address failed whose resource has a memento

	members members // of the packages that are known; nil: none are used
	hashers content.Hashers
}

// do carries out a Fetch alone, by the cheapest method that succeeds: see
// [fetcher.methods]. The path it settles on stays kept in f.names.
func (f *fetcher) do(ctx context.Context, a *plan.Action) outcome {
	return f.with(ctx, a, func(t *transfer) outcome {
		past := pastSearch{t: t}
		if f.past {
			if o, ok := past.fromKept(ctx); ok {
				return o
			}
		}
		if t.a.Rehash {
			if o, ok := rehashed(ctx, t); ok {
				return o
			}
		}
		if f.stored != nil && a.From == "" {
			if o, ok := f.stored(ctx, a, func(r io.Reader) outcome { return t.copy(ctx, r) }); ok {
				return o
			}
		}
		if !f.past {
			return t.byMethods(ctx)
		}
		if steps, _ := a.PatchesThatPay(); len(steps) > 0 {
			if o, ok := t.patched(ctx, f.usable(steps), false); ok {
				return o
			}
		}
		return past.ofThePast(ctx)
	})
}

// take carries out a Fetch with content that was obtained by another
// method: from a package, or as the result of a patch. It is verified like any
// other; content that does not match yields an outcome whose error is a
// [ContentError], and can be obtained by another method.
func (f *fetcher) take(ctx context.Context, a *plan.Action, content io.Reader) outcome {
	return f.with(ctx, a, func(t *transfer) outcome { return t.copy(ctx, content) })
}

// with reserves the path of a's file and calls get to fill it.
func (f *fetcher) with(ctx context.Context, a *plan.Action, get func(*transfer) outcome) outcome {
	path := a.Held.Path
	if a.Place != "" {
		path = a.Place
		f.names.Take(a.URI, path)
	} else if a.IsHeld() && !a.Moves {
		f.names.Take(a.URI, path)
	} else {
		var err error
		path, err = f.names.Give(ctx, a.URI)
		if f.first && (err != nil && isTaken(err) || err == nil && !f.names.IsFirst(a.URI, path)) {
			if err == nil {
				f.names.Release(path)
			}
			return outcome{action: a, later: true}
		}
		if err != nil {
			return f.taken(ctx, a, err, get)
		}
	}
	o := get(&transfer{fetcher: f, a: a, path: path})
	o.action, o.held.Path = a, path
	if o.err != nil {
		f.names.Release(path)
		o.held = journal.Held{}
	}
	return o
}

func isTaken(err error) bool {
	var taken *filename.TakenError
	return errors.As(err, &taken)
}

// taken deals with something in the place of a resource that is new here; get
// fetches its content.
func (f *fetcher) taken(ctx context.Context, a *plan.Action, err error, get func(*transfer) outcome) outcome {
	var taken *filename.TakenError
	if !errors.As(err, &taken) {
		return outcome{action: a, err: err}
	}
	if other := f.names.Owner(taken.Path); other != "" {
		return outcome{action: a, err: fmt.Errorf("%w: the resource %s has this file", err, fetch.Printable(other))}
	}
	if uri, perr := f.names.Paths.URI(taken.Path); perr == nil && uri != a.URI {
		if hs, lerr := f.lookup(ctx, []string{uri}); lerr == nil && hs[0].Path == taken.Path {
			return outcome{action: a, err: fmt.Errorf("%w: the resource %s has this file", err, fetch.Printable(uri))}
		}
	}
	if !f.adopt && !f.ours {
		return outcome{action: a, err: fmt.Errorf("%w, which is not from here and was left alone; --adopt takes over what is right", err)}
	}
	if len(a.Hashes) == 0 && f.ours {
		return f.compareTaken(ctx, a, taken, get)
	}
	if len(a.Hashes) == 0 {
		return outcome{action: a, err: fmt.Errorf("%w, and without a hash from the Source it cannot be known whether it is right; move it away, or give --adopt, which compares length and time", err)}
	}
	length, got, herr := f.hashers.Blob(ctx, f.store, taken.Path, content.Algorithms(a.Hashes))
	if herr != nil {
		return outcome{action: a, err: fmt.Errorf("%w: %w", err, herr)}
	}
	if _, verr := content.Verify(a.Description(), length, got); verr != nil {
		return outcome{action: a, err: fmt.Errorf("%w, which is not from here and was left alone: %w; --adopt --replace replaces it", err, verr)}
	}
	f.names.Take(a.URI, taken.Path)
	h := plan.NewHeld(a, f.set, taken.Path)
	h.Length, h.Hashes = length, got
	if info, serr := f.store.Stat(ctx, taken.Path); serr == nil {
		h.SetFile(&info)
	}
	return outcome{action: a, held: h, adopted: true}
}

// compareTaken fetches a resource of which the Source states no hash, and whose place
// is taken by a file that may be the mirror's own: it is taken over if its bytes are
// the same, and left as it is in any case.
func (f *fetcher) compareTaken(ctx context.Context, a *plan.Action, taken *filename.TakenError, get func(*transfer) outcome) outcome {
	differs := func(why error, remedy string) outcome {
		return outcome{action: a, err: fmt.Errorf("%w, which is not what the Source has and was left alone: %w; %s", taken, why, remedy)}
	}
	info, err := f.store.Stat(ctx, taken.Path)
	if err != nil {
		return outcome{action: a, err: fmt.Errorf("%w: %w", taken, err)}
	}
	if a.Length >= 0 && a.Length != info.Size {
		return differs(&content.Error{URI: a.URI, What: "length", Want: fmt.Sprint(a.Length), Got: fmt.Sprint(info.Size)}, "--adopt --replace replaces it")
	}
	f.names.Take(a.URI, taken.Path)
	o := get(&transfer{fetcher: f, a: a, path: taken.Path})
	o.action, o.held.Path = a, taken.Path
	if o.err != nil || o.writer == nil {
		f.names.Release(taken.Path)
		o.held = journal.Held{}
		return o
	}
	_ = o.writer.Close() // the file stays as it is
	o.writer = nil
	length, sums, err := f.hashers.Blob(ctx, f.store, taken.Path, content.Algorithms(o.held.Hashes))
	if err == nil && !plan.SameContent(&o.held, &journal.Held{Length: length, Hashes: sums}) {
		f.names.Release(taken.Path)
		return differs(errors.New("its bytes are others"), "remove it to have the Source's") // --adopt compares length and time, which may be right
	}
	if err != nil {
		f.names.Release(taken.Path)
		return outcome{action: a, err: fmt.Errorf("%w: %w", taken, err)}
	}
	o.held.SetFile(&info)
	return outcome{action: a, held: o.held, adopted: true}
}
