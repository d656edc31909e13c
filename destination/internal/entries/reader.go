// Package entries reads the documents of a set - Resource Lists, Change Lists, dumps
// and their indexes, current and archived - and stages their entries.
package entries

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"

	"lockstep/destination/internal/desired"
	"lockstep/destination/internal/dump"
	"lockstep/destination/internal/known"
	"lockstep/destination/internal/prefetch"
	"lockstep/destination/internal/push"
	"lockstep/destination/internal/saved"
	"lockstep/destination/internal/selection"
	"lockstep/destination/internal/stage"
	"lockstep/destination/journal"
	"lockstep/discover"
	"lockstep/internal/fetch"
	"lockstep/internal/nesting"
	"lockstep/resourcesync"
)

const (
	// maxPolledParts is the largest number of parts of an index that are polled for
	// changes. Of an index with more parts, all are read.
	maxPolledParts = 500
	// MaxParts limits the parts of all indexes in one reading, because each costs a
	// request.
	MaxParts = 200_000
)

// Limits of the links of one entry that are stored. A row of the Journal has those
// that relate the resource to others.
const (
	MaxLinks     = 32      // links that lead to the content
	maxRelations = 64      // other links
	maxLinkBytes = 8 << 10 // of those
)

// A Reader reads a set's documents and stages their entries.
type Reader struct {
	Client   *fetch.Client
	Opener   *dump.Opener
	Jobs     int // concurrent requests
	Selects  *selection.Selection
	History  bool               // links to former versions are stored
	OnOpen   func(uri string)   // called before a document is requested
	Pushed   func() *push.State // what notifications said about the set
	Baseline bool               // a complete comparison was requested

	Set   *saved.Set
	Home  *url.URL // the Source address given by the user
	File  string   // URI of the file that the user named as the Source, or ""
	Stage *stage.Stage
	Warn  func(uri, text string)
	Fail  func(uri string, err error) // receives documents that could not be read

	Known    *known.Parts      // parts of the list that need not be read again where rows of the Journal state the same; nil: all are read
	Prefetch *prefetch.Fetcher // fetches resources that parts of a list name while others are read; nil: nothing does

	Beside *Beside // reads manifests while the list is read; nil: nothing does

	Packages  dump.Table             // packages named in the documents
	Future    FutureTimes            // times in the future that were read
	Overtakes bool                   // see ChangeReader
	passed    atomic.Pointer[string] // scheme and authority of URIs that may be read
	leaveOff  sync.Once              // reports an entry with more links than are kept

	mu      sync.Mutex      // guards the fields below, and calls of Warn and Fail, while several parts are read
	Only    map[string]bool // URIs to stage, true once found; nil: all
	visited map[string]bool
	nested  nesting.Walk // indexes and lists of this reading
	parts   int
	named   int // number of packages named

	unreadable map[string]error // dumps that could not be read, by capability and URI
}

// errAgain requests that an index be read again: a part does not match what the
// index states (RS-IDX-07).
var errAgain = errors.New("a part does not fit its index")

// Release releases the stage and the packages of the reader. It is deferred: if err
// points to nil, it sets the error.
func (r *Reader) Release(ctx context.Context, err *error) {
	r.Packages.Shelf.Clear()
	if cerr := r.Stage.Close(context.WithoutCancel(ctx)); *err == nil {
		*err = cerr
	}
}

// ListUnchanged reports whether the Resource List is unchanged since st was saved.
// Some Sources rewrite the parts of an index in place, without changing the index,
// so the parts are polled, too.
func (r *Reader) ListUnchanged(ctx context.Context, st *saved.Set) (bool, error) {
	asIs := func(uri string, v saved.Validators) (bool, error) {
		if v == (saved.Validators{}) {
			return false, nil
		}
		doc, err := r.Open(ctx, uri, v)
		switch {
		case err == nil:
			return false, doc.Close()
		case ctx.Err() != nil:
			return false, context.Cause(ctx)
		}
		return errors.Is(err, discover.ErrNotModified), nil
	}
	same, err := asIs(st.Lists, st.ListTag)
	for uri, v := range st.ListParts {
		if err != nil || !same {
			break
		}
		same, err = asIs(uri, v)
	}
	return same && err == nil && len(st.ListParts) <= maxPolledParts, err
}

// PartsOf reads an index to its end and closes it, because reading its parts may
// take long.
func (r *Reader) PartsOf(doc *discover.Document) ([]resourcesync.Entry, error) {
	defer doc.Close()
	var parts []resourcesync.Entry
	for e, err := range doc.Entries() {
		if err != nil {
			return parts, err
		}
		if err := r.CountPart(doc.URI); err != nil {
			return parts, err
		}
		parts = append(parts, e)
	}
	r.ReportWarnings(doc)
	return parts, nil
}

// CountPart enforces MaxParts.
func (r *Reader) CountPart(index string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.parts++; r.parts > MaxParts {
		return fmt.Errorf("read %s: more than %d parts", fetch.Printable(index), MaxParts)
	}
	return nil
}

// Enter rejects documents that lead back to themselves.
func (r *Reader) Enter(uri string, depth int) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return notTwice(r.visited, uri, depth)
}

// notTwice marks a document as visited. It returns an error if it was visited
// before or is nested too deep.
func notTwice(visited map[string]bool, uri string, depth int) error {
	if visited[uri] {
		return fmt.Errorf("read %s: the document is listed below itself, or twice", fetch.Printable(uri))
	}
	visited[uri] = true
	if depth > nesting.MaxDepth {
		return fmt.Errorf("read %s: %w", fetch.Printable(uri), nesting.ErrDeep)
	}
	return nil
}

// Bound rejects indexes that are nested too deep or lead to no list; depth is the
// number of indexes above doc.
func (r *Reader) Bound(doc *discover.Document, depth int) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !doc.Header.Index {
		r.nested.Yield()
		return nil
	}
	if err := r.nested.Index(depth); err != nil {
		return fmt.Errorf("read %s: %w", fetch.Printable(doc.URI), err)
	}
	return nil
}

// Ended reports whether reading stops because too many indexes led to no list; the
// reading is then incomplete.
func (r *Reader) Ended() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.nested.Ended()
}

// broken handles a document that could not be read. The others are still read; only
// the reading as a whole is incomplete. If the document is part of an index, the
// index is read once more.
func (r *Reader) broken(ctx context.Context, uri string, err error, complete *bool, depth int, again bool) error {
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(err, discover.ErrNotModified):
		return err
	case depth > 0 && !again && (IsGone(err) || dump.IsUnverified(err)):
		return errAgain
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.Fail(uri, err)
	*complete = false
	return nil
}

// IsGone reports whether err means that the document does not exist.
func IsGone(err error) bool {
	var status *fetch.StatusError
	var wrong *CapabilityError
	return errors.As(err, &wrong) || errors.As(err, &status) && (status.Status == http.StatusNotFound || status.Status == http.StatusGone)
}

// Open opens a document of the set. Documents that the Capability List or an index
// names are read only from hosts that may have resources of the Source (RS-SEC-01):
// otherwise a Source could direct requests to any host and speak for it.
func (r *Reader) Open(ctx context.Context, uri string, v saved.Validators) (*discover.Document, error) {
	if reason := refuseDocument(r, uri); reason != "" {
		return nil, fmt.Errorf("read %s: %s", fetch.Printable(uri), reason)
	}
	r.OnOpen(uri)
	return discover.Open(ctx, r.Client, uri, discover.Validators{ETag: v.ETag, LastModified: v.Modified})
}

// A CapabilityError reports a document of another kind than expected.
type CapabilityError struct {
	uri       string
	got, want resourcesync.Capability
}

func (e *CapabilityError) Error() string {
	got := "a " + fetch.Printable(string(e.got))
	if e.got == "" {
		got = "a plain Sitemap"
	}
	return fmt.Sprintf("read %s: it is %s, not a %s", fetch.Printable(e.uri), got, e.want)
}

// Expect checks that doc is of the wanted kind. A document that does not state its
// kind, or a plain Sitemap, is accepted as a Resource List (RS-CL-11).
func Expect(doc *discover.Document, want resourcesync.Capability) error {
	got := doc.Header.Capability
	if got == want || got == "" && want == resourcesync.ResourceList {
		return nil
	}
	return &CapabilityError{doc.URI, got, want}
}

// Resource converts an entry to the description of its resource.
func (r *Reader) Resource(e *resourcesync.Entry) desired.Resource {
	if r.Set.Foreign == nil { // otherwise the harvest has reported them
		r.Future.Note(e.Loc, e.Datetime, e.Lastmod)
	}
	return describe(r, e)
}

// describe is [Reader.Resource] without a report of times in the future.
func describe(r *Reader, e *resourcesync.Entry) desired.Resource {
	w := desired.Resource{
		URI: e.Loc, Gone: e.Change == resourcesync.Deleted, Change: e.Change, Lastmod: e.Lastmod,
		Length: -1, Hashes: e.Hashes, Type: e.Type, Coding: e.Encoding,
	}
	if e.HasLength {
		w.Length = e.Length
	}
	r.takeLinks(&w, e)
	if !w.Gone {
		w.Foreign = e.Foreign
	}
	if r.Set.Foreign != nil {
		w.MainURI = CanonicalOf(e)
	}
	if !w.Gone {
		w.Refused = r.Refuse(e.Loc)
	}
	return w
}

// takeLinks adds the links of e to w that a Destination uses or keeps.
func (r *Reader) takeLinks(w *desired.Resource, e *resourcesync.Entry) {
	content, relations, size := 0, 0, 0
	for i := range e.Links {
		l := &e.Links[i]
		switch {
		case r.Set.Foreign != nil && selection.IsAlternate(l): // the harvest has followed them
		case journal.KeepsLink(l.Rel):
			size += len(l.Href) + len(l.Type) + len(l.Encoding) + len(l.Path) + len(l.Foreign.String())
			if relations++; relations > maxRelations || size > maxLinkBytes {
				r.leaveOff.Do(func() {
					r.ReportWarning(e.Loc, fmt.Sprintf("%s has more than %d links or %d bytes of them, of which the first are kept; other resources may, too", fetch.Printable(e.Loc), maxRelations, maxLinkBytes))
				})
				continue
			}
			w.Links = append(w.Links, *l)
		case r.stores(l):
			if content++; content <= MaxLinks {
				w.Links = append(w.Links, *l)
			}
		}
	}
}

// Refuse returns why a resource with this URI must not be named (RS-SEC-01), or "":
// URIs must belong to the Source as the user named it, or to the set's own
// document. The result for one URI applies to all with the same scheme and
// authority.
func (r *Reader) Refuse(uri string) string {
	if ok := r.passed.Load(); ok != nil && strings.HasPrefix(uri, *ok) && isPlain(uri[len(*ok):]) {
		return ""
	}
	reason := examine(r, uri)
	if reason == "" {
		if _, rest, ok := strings.Cut(uri, "://"); ok {
			if i := strings.IndexByte(rest, '/'); i >= 0 {
				prefix := strings.Clone(uri[:len(uri)-len(rest)+i+1])
				if !strings.ContainsAny(prefix, "?#\\") {
					r.passed.Store(&prefix)
				}
			}
		}
	}
	return reason
}

// refuseDocument is like [Reader.Refuse], for a document. A file that the user
// named replaces the document of its kind; a Capability List in a local file is the
// user's own and may name any document.
func refuseDocument(r *Reader, uri string) string {
	if uri == r.Set.URI || uri == r.File && uri != "" {
		return ""
	}
	if doc, err := url.Parse(r.Set.URI); err != nil || doc.Scheme != "http" && doc.Scheme != "https" {
		return ""
	}
	return r.Refuse(uri)
}

// isPlain reports whether s, as the rest of a URI, contains nothing that needs
// parsing.
func isPlain(s string) bool {
	for i := range len(s) {
		if c := s[i]; c <= ' ' || c == '%' || c == 0x7f {
			return false
		}
	}
	return true
}

func examine(r *Reader, uri string) string {
	reason := ""
	doc, err := url.Parse(r.Set.URI)
	if err == nil {
		if reason = r.Selects.Refuse(uri, doc); reason == "" {
			return ""
		}
	}
	if r.Home != nil && r.Home.Host != "" && (doc == nil || !strings.EqualFold(doc.Host, r.Home.Host)) {
		if other := r.Selects.Refuse(uri, r.Home); other == "" {
			return ""
		}
	}
	return reason
}

// ReportWarnings reports what was tolerated in a document. It is safe for concurrent
// use.
func (r *Reader) ReportWarnings(doc *discover.Document) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, w := range doc.Warnings() {
		r.Warn(doc.URI, fmt.Sprintf("read %s: %v", fetch.Printable(doc.URI), w))
	}
}

// ReportWarning calls Warn. It is safe for concurrent use.
func (r *Reader) ReportWarning(uri, text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.Warn(uri, text)
}

// Restart begins a new reading: documents may be read again, and limits count from zero.
func (r *Reader) Restart() {
	r.visited, r.parts, r.nested = map[string]bool{}, 0, nesting.Walk{}
}

// CanonicalOf returns the URI of the original representation if e describes an
// alternate one, otherwise "".
func CanonicalOf(e *resourcesync.Entry) string {
	for i := range e.Links {
		if l := &e.Links[i]; l.Rel == "canonical" && l.Href != e.Loc {
			return l.Href
		}
	}
	return ""
}
