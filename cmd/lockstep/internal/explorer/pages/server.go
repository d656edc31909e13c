// Package pages shows a place as pages: what it offers, its lists in tables, resources
// with their history, packages, documents with what the validator finds, and comparisons.
//
// What strangers wrote is text on these pages. Nothing that they name is requested unless
// the user asks for it, except for the documents that lead to a list.
package pages

import (
	"context"
	_ "embed"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"lockstep/cmd/lockstep/internal/explorer/place"
	"lockstep/cmd/lockstep/internal/explorer/reading"
	"lockstep/cmd/lockstep/internal/explorer/spool"
	"lockstep/internal/fetch"
	"lockstep/internal/webpage"
)

const (
	// patience is how long a page waits for a list that is being read: it then shows
	// what is known so far.
	patience = 400 * time.Millisecond
	// openPatience is how long the start page waits for what is at an address.
	openPatience = 60 * time.Second
)

// Options are what the pages need.
type Options struct {
	// Open opens the place at an address that the user enters.
	Open func(ctx context.Context, address string) (*place.Place, error)
	// Place is shown first; may be nil.
	Place *place.Place
	// Mirror is a directory with a mirror that can be compared with its Source; may be
	// empty.
	Mirror string
	// Compare compares a Source with a mirror, and Diff a Source at two instants; a
	// zero to is now. Each adds the differences.
	Compare func(ctx context.Context, source, mirror string, add func(*spool.Row) error) (reading.Result, error)
	Diff    func(ctx context.Context, source string, from, to time.Time, add func(*spool.Row) error) (reading.Result, error)
	Now     func() time.Time
}

// A Server serves the pages.
type Server struct {
	o     Options
	site  *webpage.Site
	views views

	mu    sync.Mutex // guards place
	place *place.Place
}

//go:embed parts.html
var partsHTML string

//go:embed start.html
var startHTML string

//go:embed overview.html
var overviewHTML string

//go:embed entries.html
var entriesHTML string

//go:embed parts_page.html
var partsPageHTML string

//go:embed resource.html
var resourceHTML string

//go:embed lines.html
var linesHTML string

//go:embed compare.html
var compareHTML string

//go:embed message.html
var messageHTML string

// views are the kinds of pages.
type views struct {
	start, overview, entries, parts, resource, lines, compare, message *webpage.View
}

// New returns a Server. Close releases what it has opened.
func New(o Options) *Server {
	parse := func(main string) *webpage.View { return webpage.Parse(main, partsHTML) }
	return &Server{o: o, place: o.Place,
		site: &webpage.Site{
			Name: "Lockstep explorer", Home: "/", Assets: "/assets/", Frames: true, Forms: true,
			Nav:    []webpage.Link{{Text: "Overview", Href: "/"}, {Text: "Compare", Href: "/compare"}, {Text: "Another address", Href: "/start"}},
			Footer: "Shown by lockstep explore on this computer. Resources are requested only when you ask for them.",
		},
		views: views{parse(startHTML), parse(overviewHTML), parse(entriesHTML), parse(partsPageHTML), parse(resourceHTML), parse(linesHTML), parse(compareHTML), parse(messageHTML)},
	}
}

// Close closes the place that is shown.
func (s *Server) Close() {
	if p := s.current(); p != nil {
		p.Close()
	}
}

func (s *Server) current() *place.Place {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.place
}

// Handler serves the pages.
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /assets/", webpage.Assets())
	mux.HandleFunc("GET /{$}", s.overview)
	mux.HandleFunc("GET /start", s.start)
	mux.HandleFunc("POST /open", s.open)
	for path, handle := range map[string]func(http.ResponseWriter, *http.Request, *place.Place) error{
		"GET /list": s.entries, "GET /parts": s.parts, "POST /read": s.read, "GET /resource": s.resource, "GET /xml": s.lines, "GET /look": s.look,
		"GET /content": s.content, "GET /download": s.download, "GET /compare": s.compare, "POST /compare": s.startComparison, "GET /events": s.events,
	} {
		mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
			p := s.current()
			if p == nil {
				http.Redirect(w, r, "/start", http.StatusSeeOther)
				return
			}
			if err := handle(w, r, p); err != nil {
				s.fail(w, r, err)
			}
		})
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		s.Refuse(w, r, http.StatusNotFound, "There is no such page.")
	})
	return mux
}

// errNotFound reports a list, part or row that does not exist.
var errNotFound = errors.New("this does not exist, or is no longer shown: another address was opened")

// fail answers with an error.
func (s *Server) fail(w http.ResponseWriter, r *http.Request, err error) {
	status := http.StatusBadGateway
	if errors.Is(err, errNotFound) {
		status = http.StatusNotFound
	}
	s.Refuse(w, r, status, sentence(err))
}

// Refuse answers with a page that consists of a sentence.
func (s *Server) Refuse(w http.ResponseWriter, r *http.Request, status int, why string) {
	s.views.message.Write(w, r, status, s.site, webpage.Page{Title: http.StatusText(status), Data: webpage.Notice{Kind: "bad", Text: why}})
}

// sentence returns an error as a sentence of a page.
func sentence(err error) string {
	text := webpage.Cut(fetch.Printable(err.Error()), maxShown)
	if text == "" {
		return ""
	}
	return strings.ToUpper(text[:1]) + text[1:] + "."
}

// A startPage is what start.html shows.
type startPage struct {
	Address string
	Notice  *webpage.Notice
}

// start serves the page at which another address can be entered.
func (s *Server) start(w http.ResponseWriter, r *http.Request) {
	s.showStart(w, r, http.StatusOK, startPage{})
}

func (s *Server) showStart(w http.ResponseWriter, r *http.Request, status int, data startPage) {
	s.views.start.Write(w, r, status, s.site, webpage.Page{Title: "Explore", Nav: "/start", Data: data,
		Lead: "Look at any ResourceSync Source, Sitemap, feed, repository, package, mirror or document."})
}

// open opens the address that was entered.
func (s *Server) open(w http.ResponseWriter, r *http.Request) {
	address := strings.TrimSpace(r.PostFormValue("address"))
	if address == "" {
		s.showStart(w, r, http.StatusUnprocessableEntity, startPage{Notice: &webpage.Notice{Kind: "bad", Text: "Enter an address."}})
		return
	}
	unhurried(w)
	ctx, cancel := context.WithTimeout(r.Context(), openPatience)
	defer cancel()
	p, err := s.o.Open(ctx, address)
	if err != nil {
		s.showStart(w, r, http.StatusBadGateway, startPage{Address: address, Notice: &webpage.Notice{Kind: "bad", Text: sentence(err)}})
		return
	}
	s.mu.Lock()
	old := s.place
	s.place = p
	s.mu.Unlock()
	if old != nil {
		old.Close()
	}
	http.Redirect(w, r, "/", http.StatusSeeOther)
}

// listOf returns the list that a request names.
func listOf(r *http.Request, p *place.Place) (*reading.List, error) {
	n, err := strconv.Atoi(r.FormValue("list"))
	if err != nil {
		return nil, errNotFound
	}
	l := p.ByID(n)
	if l == nil {
		return nil, errNotFound
	}
	return l, nil
}

// unhurried lets an answer take as long as what it waits for, which has its own limits.
func unhurried(w http.ResponseWriter) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Time{}) // a writer without deadlines has none to lift
}

// number returns a number of a request, or another one if it has none.
func number(r *http.Request, name string, otherwise int) int {
	if n, err := strconv.Atoi(r.FormValue(name)); err == nil {
		return n
	}
	return otherwise
}

// at returns the address of a page with arguments, which are names and values in turn.
// Arguments without a value are omitted.
func at(path string, args ...any) string {
	q := url.Values{}
	for i := 0; i+1 < len(args); i += 2 {
		var value string
		switch v := args[i+1].(type) {
		case int:
			value = strconv.Itoa(v)
		case string:
			value = v
		}
		if value != "" {
			q.Set(args[i].(string), value)
		}
	}
	return path + "?" + q.Encode()
}

const (
	// maxShown is how many characters of a text of a stranger are shown, and maxCell
	// how many in a table: pages stay small whatever they show.
	maxShown = 1500
	maxCell  = 300
)

// read reads a part, or all parts, of a list, and leads back to it.
func (s *Server) read(w http.ResponseWriter, r *http.Request, p *place.Place) error {
	l, err := listOf(r, p)
	if err != nil {
		return err
	}
	if r.PostFormValue("all") != "" {
		l.LoadAll()
	} else {
		ctx, cancel := context.WithTimeout(r.Context(), patience)
		defer cancel()
		_ = l.Load(ctx, number(r, "part", 0)) // the page shows the result
	}
	back := r.PostFormValue("back")
	if !strings.HasPrefix(back, "/") || strings.HasPrefix(back, "//") || strings.ContainsRune(back, '\\') {
		back = at("/list", "list", l.ID)
	}
	http.Redirect(w, r, back, http.StatusSeeOther)
	return nil
}

// readAll returns the button that reads all of a list; nil if there is nothing to read.
func readAll(l *reading.List, st *reading.State, back string) *webpage.Action {
	if st.All || st.Complete() && !st.More {
		return nil
	}
	return &webpage.Action{Text: "Read all", Href: "/read", Fields: []webpage.Field{{Name: "list", Value: strconv.Itoa(l.ID)}, {Name: "all", Value: "1"}, {Name: "back", Value: back}}}
}

// progress returns how far a list was read, as a notice.
func progress(l *reading.List, st *reading.State, back string) webpage.Notice {
	n := webpage.Notice{Kind: "info", Text: strings.ToUpper(st.Progress()[:1]) + st.Progress()[1:] + ": " + entriesText(st.Rows) + ".", Action: readAll(l, st, back)}
	switch {
	case st.Err != nil:
		n.Kind, n.Text = "bad", n.Text+" "+sentence(st.Err)
	case st.All:
		n.Text += " All of it is being read."
	case st.Busy:
		n.Text += " More is being read, " + entriesText(st.Pending) + " so far."
	case st.Complete():
		n.Kind = "good"
	}
	return n
}

func entriesText(n int64) string {
	if n == 1 {
		return "1 entry"
	}
	return webpage.Count(n) + " entries"
}
