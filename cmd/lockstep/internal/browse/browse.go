// Package browse serves pages on which anyone looks at the sets of a Source: at their
// resources, folder by folder, and at their changes.
//
//	/          the sets; with one set, its resources
//	/set       ?name=SET&in=PREFIX&from=URI&q=TEXT: resources and folders
//	/changes   ?name=SET&before=SEQ: changes, the latest first
//	/resource  ?name=SET&uri=URI: what is known of a resource
//
// The pages are read from the catalog, each with the few queries for what it shows: they
// request nothing from any server, store nothing, and a page costs the same however large a set is.
// What takes longer, such as a search, ends after a fixed number of rows, and continues with the next
// page. Links are relative, so that the pages may be at any path.
package browse

import (
	"context"
	_ "embed"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"lockstep/catalog"
	"lockstep/internal/reader"
	"lockstep/internal/webpage"
	"lockstep/memento"
)

const (
	// maxReads is how many pages are read at a time: strangers take no more than this
	// part of what the catalog can answer.
	maxReads = 4
	// patience is how long a request waits for its turn, and readTime how long reading
	// a page may take.
	patience = 5 * time.Second
	readTime = 10 * time.Second
)

// Options describe a Source.
type Options struct {
	Title   string // of the collection
	Home    string // address of its home page
	Sets    []Set
	Catalog catalog.Catalog
	Logger  *slog.Logger
}

// A Set is one of the sets of a Source.
type Set struct {
	Name     string
	Title    string       // may be empty
	Summary  string       // may be empty
	List     string       // URI of its Capability List, and its name in the catalog
	Prefix   string       // of the URIs of its resources, usually: there the folders begin
	Private  bool         // only its readers see that it exists
	Versions memento.Base // of its resources; "": it keeps none
}

func (s *Set) title() string {
	if s.Title != "" {
		return s.Title
	}
	return s.Name
}

// Pages serve the pages. The path of a request begins after the address that they are at.
type Pages struct {
	opts  Options
	site  *webpage.Site
	turns chan struct{} // has an element for each page that is being read
}

// New returns the pages of a Source.
func New(o Options) *Pages {
	return &Pages{opts: o, turns: make(chan struct{}, maxReads), site: &webpage.Site{
		Name: o.Title, Home: o.Home, Assets: "assets/", Forms: true, Footer: "Published with Lockstep, by ResourceSync.",
		Nav: []webpage.Link{{Text: "Home", Href: o.Home}, {Text: "Browse", Href: "./"}},
	}}
}

// A refusal answers a request with an error status.
type refusal struct {
	status int
	text   string
}

func (e *refusal) Error() string { return e.text }

var (
	errNotFound = &refusal{http.StatusNotFound, "There is no such page, set or resource."}
	errNoSet    = &refusal{http.StatusNotFound, "There is no such set."}
	errBusy     = &refusal{http.StatusServiceUnavailable, "Too many pages are being read. Try again in a few seconds."}
)

// A view is a page and the kind that it is of.
type view struct {
	page webpage.Page
	kind *webpage.View
}

// ServeHTTP implements [http.Handler].
func (p *Pages) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if strings.HasPrefix(r.URL.Path, "/assets/") {
		webpage.Assets().ServeHTTP(w, r)
		return
	}
	header := w.Header()
	header.Set("X-Robots-Tag", "noindex, nofollow") // crawlers have the lists
	if p.hasPrivate() {
		header.Add("Vary", reader.Vary)
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		header.Set("Allow", "GET, HEAD")
		p.refuse(w, r, &refusal{http.StatusMethodNotAllowed, "Only GET and HEAD are possible here."})
		return
	}
	show := map[string]func(context.Context, *request) (view, error){
		"/": p.sets, "/set": p.set, "/changes": p.changes, "/resource": p.resource,
	}[r.URL.Path]
	if show == nil {
		p.refuse(w, r, errNotFound)
		return
	}
	v, err := p.read(r.Context(), show, p.newRequest(r))
	if err != nil {
		p.refuse(w, r, err)
		return
	}
	v.kind.Write(w, r, http.StatusOK, p.site, v.page)
}

// read reads a page when it is its turn.
func (p *Pages) read(ctx context.Context, show func(context.Context, *request) (view, error), q *request) (view, error) {
	t := time.NewTimer(patience)
	defer t.Stop()
	select {
	case p.turns <- struct{}{}:
		defer func() { <-p.turns }()
	case <-ctx.Done():
		return view{}, errBusy
	case <-t.C:
		return view{}, errBusy
	}
	ctx, cancel := context.WithTimeout(ctx, readTime)
	defer cancel()
	return show(ctx, q)
}

//go:embed message.html
var messageHTML string

var messageView = webpage.Parse(messageHTML)

// refuse answers with an error.
func (p *Pages) refuse(w http.ResponseWriter, r *http.Request, err error) {
	why, ok := errors.AsType[*refusal](err)
	if !ok {
		if r.Context().Err() == nil {
			p.opts.Logger.WarnContext(r.Context(), "cannot read the catalog for a page", slog.Any("err", err))
		}
		why = &refusal{http.StatusServiceUnavailable, "This cannot be shown just now. Try again later."}
	}
	status, text := why.status, why.text
	switch {
	case errors.Is(err, errNoSet) && p.hasPrivate(): // strangers do not learn whether there is a private one
		status, text = reader.Of(r.Context()).Refuse(w.Header()), "What is at this address, if anything, is for clients that show a credential of its readers."
	case status == http.StatusServiceUnavailable:
		w.Header().Set("Retry-After", strconv.Itoa(int(patience/time.Second)))
	}
	messageView.Write(w, r, status, p.site, webpage.Page{Title: http.StatusText(status), Data: webpage.Notice{Kind: "bad", Text: text}})
}

func (p *Pages) hasPrivate() bool {
	return slices.ContainsFunc(p.opts.Sets, func(s Set) bool { return s.Private })
}

// A request is what a client asks for.
type request struct {
	url.Values
	sets []Set // that it may see
}

func (p *Pages) newRequest(r *http.Request) *request {
	q := &request{Values: r.URL.Query()}
	for _, s := range p.opts.Sets {
		if !s.Private || reader.Of(r.Context()).Opens(s.Name) {
			q.sets = append(q.sets, s)
		}
	}
	return q
}

// set returns the set that the client asks for.
func (q *request) set() (*Set, error) {
	for i := range q.sets {
		if q.sets[i].Name == q.Get("name") {
			return &q.sets[i], nil
		}
	}
	return nil, errNoSet
}

// at returns the address of a page of the set, with further arguments: names and values in turn.
// Those without a value are omitted.
func (s *Set) at(path string, args ...string) string {
	q := url.Values{"name": {s.Name}}
	for i := 0; i+1 < len(args); i += 2 {
		if args[i+1] != "" {
			q.Set(args[i], args[i+1])
		}
	}
	return path + "?" + q.Encode()
}

const (
	// maxShown is how many characters of a text are shown, and maxCell how many in a table.
	maxShown = 1500
	maxCell  = 200
)
