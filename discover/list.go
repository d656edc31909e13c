package discover

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"strings"
	"sync"
	"time"

	"lockstep/internal/fetch"
	"lockstep/resourcesync"
)

const (
	// DefaultAhead is how many parts are opened while one is read, so that the
	// time to the first byte is not waited for again and again.
	DefaultAhead = 2
	// maxDepth caps indexes within indexes (RS-IDX-04).
	maxDepth = 3
	// maxParts and maxPartsText cap an index, which is held in memory as a
	// whole: its connection would not last while the parts are read.
	maxParts     = 100_000
	maxPartsText = 32 << 20
)

// ReadOptions configures [Read]. The zero value is ready to use.
type ReadOptions struct {
	Validators                         // of the list, as it was read last
	Ahead      int                     // default DefaultAhead; negative: none
	Select     func(Named) bool        // whether a part is wanted; default: all are
	OnWarning  func(string, Warning)   // called with the URI of the document; may be nil
	Capability resourcesync.Capability // that is wanted; default: any
}

// Warning is a liberty taken with a document.
type Warning = resourcesync.Warning

// Named is what an index says of a part.
type Named struct {
	URI                        string
	Lastmod                    resourcesync.Datetime
	At, Completed, From, Until resourcesync.Datetime
}

// A List is a document with entries, or an index of such documents. It has to
// be closed.
type List struct {
	URI, Final string
	Validators
	Modified time.Time
	Header   resourcesync.Header // of the document at URI, list or index
	Named    []Named             // of an index: its parts, in order
	Skipped  int                 // parts left out for their capability; what was read is then not the whole

	client *fetch.Client
	opts   ReadOptions
	root   *Document
	above  map[string]bool // URIs of the indexes met
	parts  int             // opened
}

// A Part is one document of a [List].
type Part struct {
	*Document
	Named Named // what the index says of it; zero if the list is one document
}

// A CapabilityError reports a document of another capability than was wanted.
type CapabilityError struct {
	URI       string
	Want, Got resourcesync.Capability
}

func (e *CapabilityError) Error() string {
	return fmt.Sprintf("read %s: this is a %s, not a %s", fetch.Printable(e.URI),
		kind(&resourcesync.Header{Capability: e.Got}), kind(&resourcesync.Header{Capability: e.Want}))
}

// A PartError reports a part of an index that could not be used.
type PartError struct {
	Index, URI string
	Missing    bool // it is not there
	Stale      bool // it is older than the index says
	Err        error
}

func (e *PartError) Error() string {
	return fmt.Sprintf("%v (a part of %s)", e.Err, fetch.Printable(e.Index))
}

func (e *PartError) Unwrap() error { return e.Err }

// Outdated reports whether the index may have been replaced while it was read:
// then reading it again may help (RS-IDX-07).
func (e *PartError) Outdated() bool { return e.Missing || e.Stale }

// Read opens the list at uri. A plain Sitemap passes for a Resource List
// (RS-RL-12, RS-CL-11). It may fail with [ErrNotModified] or a
// [*CapabilityError], or as [Open] does.
func Read(ctx context.Context, c *fetch.Client, uri string, o ReadOptions) (*List, error) {
	d, err := Open(ctx, c, uri, o.Validators)
	if err != nil {
		return nil, err
	}
	if o.Ahead == 0 {
		o.Ahead = DefaultAhead
	}
	l := &List{
		URI: d.URI, Final: d.Final, Validators: d.Validators, Modified: d.Modified, Header: d.Header,
		client: c, opts: o, root: d, above: map[string]bool{d.URI: true, d.Final: true},
	}
	if !suits(d.Header.Capability, o.Capability) {
		_ = d.Close() // not what was wanted
		return nil, &CapabilityError{d.URI, o.Capability, d.Header.Capability}
	}
	if !d.Header.Index {
		return l, nil
	}
	l.Named, err = l.readIndex(d)
	l.Header = d.Header
	_ = d.Close() // read to its end, or err says why not
	if err != nil {
		return nil, err
	}
	return l, nil
}

// suits reports whether a document of capability got serves where want is wanted.
func suits(got, want resourcesync.Capability) bool {
	return got == want || want == "" || got == "" && want == resourcesync.ResourceList
}

// Close ends the reading.
func (l *List) Close() error {
	if l.Header.Index {
		return nil // it was closed when it was read
	}
	return l.root.Close()
}

// readIndex reads the parts an index names, and what it says of them.
func (l *List) readIndex(d *Document) ([]Named, error) {
	var (
		named []Named
		text  int
	)
	for e, err := range d.Entries() {
		if err != nil {
			return nil, err
		}
		if text += len(e.Loc); len(named) == maxParts || text > maxPartsText {
			return nil, fmt.Errorf("read %s: more than %d parts", fetch.Printable(d.URI), len(named))
		}
		named = append(named, Named{strings.Clone(e.Loc), e.Lastmod, e.At, e.Completed, e.From, e.Until})
	}
	l.warnings(d)
	return named, nil
}

func (l *List) warnings(d *Document) {
	for _, w := range d.Warnings() {
		l.warn(d.URI, w)
	}
}

func (l *List) warn(uri string, w Warning) {
	if l.opts.OnWarning != nil {
		l.opts.OnWarning(uri, w)
	}
}

// Parts yields the list's documents in order: itself, if it is no index. Each
// is good until the next one. What is wrong with a part is a [*PartError];
// whoever goes on gets the parts behind it. Parts may be called once.
func (l *List) Parts(ctx context.Context) iter.Seq2[*Part, error] {
	return func(yield func(*Part, error) bool) {
		if l.Header.Index {
			l.walk(ctx, l.URI, l.Named, 1, yield)
			return
		}
		if yield(&Part{Document: l.root}, nil) {
			l.warnings(l.root)
		}
	}
}

// walk yields the parts of one index. It reports whether to go on.
func (l *List) walk(ctx context.Context, index string, named []Named, depth int, yield func(*Part, error) bool) bool {
	ctx, cancel := context.WithCancel(ctx)
	a := &ahead{list: l, ctx: ctx, named: l.wanted(index, named), index: index}
	defer a.stop()
	defer cancel()
	for {
		n, d, err, ok := a.next()
		if !ok {
			return true
		}
		if ctx.Err() != nil { // said once, not for every part left
			if d != nil {
				_ = d.Close() // nobody wants it
			}
			yield(nil, context.Cause(ctx))
			return false
		}
		if err == nil {
			err = l.check(n, d)
		}
		goOn := true
		switch {
		case err != nil:
			goOn = yield(nil, partError(index, n.URI, err))
		case !suits(d.Header.Capability, l.want()): // RS-AMB-28
			l.Skipped++
			l.warn(n.URI, Warning{Rule: "RS-AMB-28", Message: "left out: it is a " + kind(&d.Header) + ", in an index of another capability"})
		case d.Header.Index:
			goOn = l.nested(ctx, d, depth, yield)
		default:
			goOn = yield(&Part{d, n}, nil)
			l.warnings(d)
		}
		if d != nil {
			_ = d.Close() // read as far as the caller wanted
		}
		if !goOn {
			return false
		}
	}
}

// want is the capability the parts should have.
func (l *List) want() resourcesync.Capability {
	if l.Header.Capability != "" {
		return l.Header.Capability
	}
	return resourcesync.ResourceList
}

// nested walks an index within an index.
func (l *List) nested(ctx context.Context, d *Document, depth int, yield func(*Part, error) bool) bool {
	if depth >= maxDepth {
		return yield(nil, partError(l.URI, d.URI, fmt.Errorf("read %s: more than %d indexes within each other", fetch.Printable(d.URI), maxDepth)))
	}
	l.warn(d.URI, Warning{Rule: "RS-IDX-04", Message: "an index within an index"})
	if l.above[d.Final] {
		return yield(nil, partError(l.URI, d.URI, &circleError{d.URI}))
	}
	l.above[d.URI], l.above[d.Final] = true, true
	named, err := l.readIndex(d)
	if err != nil {
		return yield(nil, partError(l.URI, d.URI, err))
	}
	return l.walk(ctx, d.URI, named, depth+1, yield)
}

// wanted leaves out the parts the caller does not want.
func (l *List) wanted(index string, named []Named) []Named {
	var keep []Named
	own := map[string]bool{}
	for _, n := range named {
		if own[n.URI] {
			l.warn(index, Warning{Rule: "RS-RLI-02", Message: "names the part " + fetch.Printable(n.URI) + " twice"})
			continue
		}
		own[n.URI] = true
		if l.opts.Select == nil || l.opts.Select(n) {
			keep = append(keep, n)
		}
	}
	return keep
}

// check compares a part with what the index says of it.
func (l *List) check(n Named, d *Document) error {
	if at := d.Header.At; !n.At.IsZero() && !at.IsZero() && at.Compare(n.At) < 0 {
		return &staleError{n.URI, at.Time(), n.At.Time()}
	}
	return nil
}

type staleError struct {
	uri      string
	at, want time.Time
}

func (e *staleError) Error() string {
	return fmt.Sprintf("read %s: it is of %s, while the index says %s", fetch.Printable(e.uri),
		e.at.Format(time.RFC3339Nano), e.want.Format(time.RFC3339Nano))
}

func partError(index, uri string, err error) *PartError {
	e := &PartError{Index: index, URI: uri, Err: err}
	var (
		status *fetch.StatusError
		stale  *staleError
	)
	if errors.As(err, &status) {
		e.Missing = status.Status == http.StatusNotFound || status.Status == http.StatusGone
	}
	e.Stale = errors.As(err, &stale)
	return e
}

// ahead opens parts in order, some in advance.
type ahead struct {
	list    *List
	ctx     context.Context // of the walk that owns it
	index   string
	named   []Named // still to be opened
	opening []opening
	wg      sync.WaitGroup
}

type opening struct {
	named Named
	done  chan opened
}

type opened struct {
	d   *Document
	err error
}

// next returns the next part, or false at the end.
func (a *ahead) next() (Named, *Document, error, bool) {
	for len(a.named) > 0 && len(a.opening) <= max(a.list.opts.Ahead, 0) {
		a.start()
	}
	if len(a.opening) == 0 {
		return Named{}, nil, nil, false
	}
	o := a.opening[0]
	a.opening = a.opening[1:]
	got := <-o.done
	return o.named, got.d, got.err, true
}

func (a *ahead) start() {
	n := a.named[0]
	a.named = a.named[1:]
	o := opening{n, make(chan opened, 1)}
	a.opening = append(a.opening, o)
	if a.list.above[n.URI] {
		o.done <- opened{err: &circleError{n.URI}}
		return
	}
	if a.list.parts++; a.list.parts > maxParts {
		a.named = nil
		o.done <- opened{err: fmt.Errorf("read %s: more than %d parts", fetch.Printable(a.list.URI), maxParts)}
		return
	}
	a.wg.Go(func() {
		d, err := Open(a.ctx, a.list.client, n.URI, Validators{})
		o.done <- opened{d, err}
	})
}

// stop closes what was opened in vain.
func (a *ahead) stop() {
	a.wg.Wait()
	for _, o := range a.opening {
		if got := <-o.done; got.d != nil {
			_ = got.d.Close() // nobody wants it
		}
	}
}
