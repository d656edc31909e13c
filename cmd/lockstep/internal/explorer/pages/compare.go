package pages

import (
	"context"
	"net/http"
	"time"

	"lockstep/cmd/lockstep/internal/explorer/place"
	"lockstep/cmd/lockstep/internal/explorer/reading"
	"lockstep/cmd/lockstep/internal/explorer/spool"
	"lockstep/internal/fetch"
	"lockstep/internal/webpage"
)

// maxAhead is how many sets have their changes read to say since when a resource differs.
const maxAhead = 3

// A comparePage is what compare.html shows.
type comparePage struct {
	Mirror   string // the directory; empty: there is none to compare
	Source   string
	Instants bool // two instants can be compared
	From, To string
	Notice   *webpage.Notice
	Result   *comparison
}

// A comparison is the result of one.
type comparison struct {
	Title    string
	Progress webpage.Notice
	Facts    []webpage.Fact
	Kinds    []webpage.Link
	Table    webpage.Table
	Pager    *webpage.Pager
}

// sides returns what can be compared: the Source, and the mirror beside it.
func (s *Server) sides(p *place.Place) (source, mirror string) {
	source, mirror = p.Given, s.o.Mirror
	if p.Kind == place.Mirror {
		source, mirror = p.Source, p.Address
	}
	return source, mirror
}

// compare serves the page of comparisons, with the result of the one that the request
// names.
func (s *Server) compare(w http.ResponseWriter, r *http.Request, p *place.Place) error {
	return s.showCompare(w, r, p, http.StatusOK, nil)
}

func (s *Server) showCompare(w http.ResponseWriter, r *http.Request, p *place.Place, status int, notice *webpage.Notice) error {
	source, mirror := s.sides(p)
	data := comparePage{Mirror: webpage.Cut(mirror, maxShown), Source: webpage.Cut(fetch.WithoutUser(source), maxShown), From: r.FormValue("from"), To: r.FormValue("to"), Notice: notice}
	data.Instants = s.o.Diff != nil && p.Kind == place.Source
	if s.o.Compare == nil || source == "" {
		data.Mirror = ""
	}
	events := ""
	if r.FormValue("list") != "" {
		l, err := listOf(r, p)
		if err != nil {
			return err
		}
		data.Result = s.result(r, p, l)
		events = at("/events", "list", l.ID)
	}
	s.views.compare.Write(w, r, status, s.site, webpage.Page{Title: "Compare", Nav: "/compare", Events: events, Data: data,
		Lead: "A Source beside a mirror, or the same Source at two instants."})
	return nil
}

// startComparison starts a comparison in the background, and leads to its result.
func (s *Server) startComparison(w http.ResponseWriter, r *http.Request, p *place.Place) error {
	source, mirror := s.sides(p)
	var l *reading.List
	switch {
	case r.PostFormValue("what") == "mirror" && mirror != "" && s.o.Compare != nil:
		l = p.Made("differences", "mirror", true, func(ctx context.Context, add func(*spool.Row) error) (reading.Result, error) {
			return s.o.Compare(ctx, source, mirror, add)
		})
	case r.PostFormValue("what") == "instants" && s.o.Diff != nil:
		from, to, notice := instants(r)
		if notice != nil {
			return s.showCompare(w, r, p, http.StatusUnprocessableEntity, notice)
		}
		l = p.Made("differences", from.String()+" "+to.String(), true, func(ctx context.Context, add func(*spool.Row) error) (reading.Result, error) {
			return s.o.Diff(ctx, p.Given, from, to, add)
		})
	default:
		return errNotFound
	}
	ctx, cancel := context.WithTimeout(r.Context(), patience)
	defer cancel()
	_ = l.Open(ctx) // the page shows the result
	http.Redirect(w, r, at("/compare", "list", l.ID, "from", r.PostFormValue("from"), "to", r.PostFormValue("to")), http.StatusSeeOther)
	return nil
}

// instants reads the two instants of a form; notice says what is wrong with them.
func instants(r *http.Request) (from, to time.Time, notice *webpage.Notice) {
	from, ferr := instant(r.PostFormValue("from"))
	to, terr := instant(r.PostFormValue("to"))
	switch {
	case ferr != nil || terr != nil:
		notice = &webpage.Notice{Kind: "bad", Text: "Enter instants as dates or times in UTC, as 2026-05-01 or 2026-05-01T12:00:00Z."}
	case from.IsZero():
		notice = &webpage.Notice{Kind: "bad", Text: "Enter the first instant."}
	case !to.IsZero() && from.After(to):
		notice = &webpage.Notice{Kind: "bad", Text: "The first instant is later than the second one."}
	}
	return from, to, notice
}

func instant(text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	for _, form := range []string{time.DateOnly, "2006-01-02T15:04", "2006-01-02T15:04:05"} {
		if t, err := time.Parse(form, text); err == nil {
			return t, nil
		}
	}
	return time.Parse(time.RFC3339Nano, text)
}

// result returns the differences that a comparison has found.
func (s *Server) result(r *http.Request, p *place.Place, l *reading.List) *comparison {
	for _, set := range p.Sets[:min(len(p.Sets), maxAhead)] {
		readAhead(r.Context(), set) // for since when
	}
	st := l.State()
	c := &comparison{Title: "Differences", Progress: webpage.Notice{Kind: "info", Text: "Comparing: " + differencesText(st.Pending) + " so far."}}
	if st.Root.Title != "" {
		c.Title = webpage.Cut(st.Root.Title, maxCell)
	}
	switch {
	case st.Err != nil:
		c.Progress = webpage.Notice{Kind: "bad", Text: "The comparison could not be finished. " + sentence(st.Err)}
	case st.Complete() && st.Rows == 0:
		c.Progress = webpage.Notice{Kind: "good", Text: "There are no differences."}
	case st.Complete():
		c.Progress = webpage.Notice{Kind: "warn", Text: differencesText(st.Rows) + "."}
	}
	for i, f := range st.Root.Facts {
		if i < 20 {
			c.Facts = append(c.Facts, webpage.Fact{Name: webpage.Cut(f.Name, 100), Value: webpage.Cut(f.Value, maxCell)})
		}
	}
	filter := spool.Filter{Kind: r.FormValue("kind")}
	base := []any{"list", l.ID, "from", r.FormValue("from"), "to", r.FormValue("to")}
	c.Kinds = append(c.Kinds, webpage.Link{Text: "all", Href: at("/compare", base...), Current: filter.Kind == ""})
	for _, k := range []string{"missing", "stale", "corrupt", "extra", "foreign", "unverifiable", "created", "updated", "deleted", "unknown"} {
		if n := st.Summary.Kinds[k]; n > 0 {
			c.Kinds = append(c.Kinds, webpage.Link{Text: k + " (" + webpage.Count(n) + ")", Href: at("/compare", append(base, "kind", k)...), Current: filter.Kind == k})
		}
	}
	from := reading.Cursor{Row: number(r, "row", 0)}
	win := windowOf(l, filter, from, r.FormValue("back") != "", rowsPerPage, differenceSize)
	c.Table = differences(p, l, win.rows)
	page := func(at0 reading.Cursor, more ...any) string {
		return at("/compare", append(append(base, "kind", filter.Kind, "row", at0.Row), more...)...)
	}
	c.Pager = &webpage.Pager{}
	if len(win.rows) > 0 {
		c.Pager.Label = "Differences " + webpage.Count(win.rows[0].Cursor.Row+1) + " to " + webpage.Count(win.rows[len(win.rows)-1].Cursor.Row+1)
	}
	if win.previous != nil {
		c.Pager.First, c.Pager.Previous = page(reading.Cursor{}), page(*win.previous, "back", 1)
	}
	if win.next != nil {
		c.Pager.Next = page(*win.next)
	}
	return c
}

func differencesText(n int64) string {
	if n == 1 {
		return "1 difference"
	}
	return webpage.Count(n) + " differences"
}

func differenceSize(row *spool.Row) int { return rowSize(row) + 2*maxCell }

// differences returns rows of a comparison as a table. Since when a resource differs is
// known from the changes of the Source as far as they were read, otherwise from the time
// of its last modification.
func differences(p *place.Place, l *reading.List, rows []reading.Found) webpage.Table {
	uris := map[string]bool{}
	for i := range rows {
		uris[rows[i].URI] = true
	}
	changed := map[string]spool.Row{}
	if len(uris) > 0 {
		for _, of := range p.Lists() {
			if st := of.State(); st.Root.Of == reading.Changes {
				for uri, row := range of.Last(uris) {
					// A feed says less of a change than a Change List.
					if _, known := changed[uri]; !known || of.Name == "changelist" {
						changed[uri] = row
					}
				}
			}
		}
	}
	t := webpage.Table{Caption: "Differences", Columns: []webpage.Column{{Title: "Difference", Short: true}, {Title: "URI"}, {Title: "Why"}, {Title: "Since", Short: true}, {Title: "Change at the Source", Short: true}}}
	for i := range rows {
		row := &rows[i]
		why, since := "", webpage.Stamp(row.Time)
		for _, f := range row.Detail.Facts {
			if f.Name == "cause" {
				why = f.Value
			}
		}
		change := ""
		if last, ok := changed[row.URI]; ok && !last.Time.IsZero() {
			since, change = webpage.Stamp(last.Time), webpage.Cut(last.Kind, 40)
		}
		t.Rows = append(t.Rows, webpage.Row{Mark: marks[row.Kind], Cells: []webpage.Cell{{Text: webpage.Cut(row.Kind, 100)},
			{Text: webpage.Cut(row.URI, maxCell), Href: at("/resource", "list", l.ID, "part", 0, "row", row.Cursor.Row), Code: true}, {Text: webpage.Cut(why, maxCell)}, {Text: since}, {Text: change}}})
	}
	return t
}
