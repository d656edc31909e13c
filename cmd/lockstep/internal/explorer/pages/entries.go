package pages

import (
	"cmp"
	"context"
	"html/template"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"lockstep/cmd/lockstep/internal/explorer/figures"
	"lockstep/cmd/lockstep/internal/explorer/place"
	"lockstep/cmd/lockstep/internal/explorer/reading"
	"lockstep/cmd/lockstep/internal/explorer/spool"
	"lockstep/internal/webpage"
	"lockstep/resourcesync"
)

const (
	// rowsPerPage is how many entries a page shows.
	rowsPerPage = 50
	// rowBytes limits what the rows of a page have together: the page stays below
	// 100 kB whatever they contain.
	rowBytes = 48 << 10
)

// An entriesPage is what entries.html shows.
type entriesPage struct {
	List     int
	Reading  bool // nothing was read yet: events renew all of the page
	Facts    []webpage.Fact
	Progress webpage.Notice
	Warnings []string
	Filter   filterForm
	Found    string // how many entries the filter selects
	Table    webpage.Table
	Pager    *webpage.Pager
	Links    webpage.Table
	XML      string // the address of the page with the document's XML; may be empty
	Parts    string // the address of the page with the parts; may be empty
}

// A filterForm is what the user has entered to select entries.
type filterForm struct {
	Text, Type, Kind, From, To string
	Types, Kinds               []choice
}

// A choice is one of a select element.
type choice struct {
	Value, Text string
	Selected    bool
}

// filterOf reads the filter of a request. An unreadable date selects nothing more.
func filterOf(r *http.Request) (f spool.Filter, form filterForm) {
	form = filterForm{Text: strings.TrimSpace(r.FormValue("q")), Type: r.FormValue("type"), Kind: r.FormValue("kind"), From: r.FormValue("from"), To: r.FormValue("to")}
	f = spool.Filter{Text: form.Text, Type: form.Type, Kind: form.Kind}
	if t, err := time.Parse(time.DateOnly, form.From); err == nil {
		f.From = t
	}
	if t, err := time.Parse(time.DateOnly, form.To); err == nil {
		f.To = t.AddDate(0, 0, 1)
	}
	return f, form
}

// choices adds what can be selected.
func (form *filterForm) choices(st *reading.State) {
	types, _ := figures.Ordered(st.Summary.Types, 40)
	classes := map[string]bool{}
	for _, t := range types {
		if class, _, ok := strings.Cut(t.Name, "/"); ok && !classes[class] && len(classes) < 10 && len(class) < 40 {
			classes[class] = true
			form.Types = append(form.Types, choice{class + "/", class + "/*", form.Type == class+"/"})
		}
	}
	for _, t := range types {
		c := choice{t.Name, webpage.Cut(t.Name, 100), form.Type == t.Name}
		if t.Name == "" {
			c = choice{spool.NoType, "not stated", form.Type == spool.NoType}
		}
		if t.Name != figures.Other {
			form.Types = append(form.Types, c)
		}
	}
	kinds, _ := figures.Ordered(st.Summary.Kinds, 20)
	for _, k := range kinds {
		form.Kinds = append(form.Kinds, choice{k.Name, webpage.Cut(k.Name, 100), form.Kind == k.Name})
	}
}

// args returns the arguments of the address of a page with the filter.
func (form *filterForm) args(more ...any) []any {
	return append([]any{"q", form.Text, "type", form.Type, "kind", form.Kind, "from", form.From, "to", form.To}, more...)
}

// A window is what a page shows of a list.
type window struct {
	rows     []reading.Found
	next     *reading.Cursor // where the next page begins; nil: there is none
	previous *reading.Cursor // where the previous one ends
	total    int             // how many rows the filter selects; with one only
}

// lastRow is a position behind all rows of a part.
const lastRow = 1 << 40

// windowOf returns the rows of a page, from a position on or, backwards, before it. bytes
// says how much a row adds to the page.
func windowOf(l *reading.List, f spool.Filter, from reading.Cursor, back bool, limit int, bytes func(*spool.Row) int) window {
	if f.IsZero() {
		return plainWindow(l, from, back, limit, bytes)
	}
	var w window
	var before int
	if back {
		_, w.total, before = l.Search(from, f, 0)
		w.rows = fitLast(l.Backward(from, f, limit), bytes)
		before -= len(w.rows)
		w.next = &from
	} else {
		var rows []reading.Found
		rows, w.total, before = l.Search(from, f, limit+1)
		w.rows = fitFirst(rows, limit, bytes)
		if len(w.rows) < len(rows) {
			w.next = &rows[len(w.rows)].Cursor
		}
	}
	if len(w.rows) > 0 && before > 0 {
		w.previous = &w.rows[0].Cursor
	}
	return w
}

// plainWindow is windowOf without a filter. Its rows are of one part: the next one may not
// have been read.
func plainWindow(l *reading.List, from reading.Cursor, back bool, limit int, bytes func(*spool.Row) int) window {
	var w window
	at := from
	if back {
		w.rows = fitLast(inPart(l.Backward(from, spool.Filter{}, limit), from.Part), bytes)
		if from.Row < lastRow {
			w.next = &from
		}
	} else {
		rows := inPart(l.Forward(from, spool.Filter{}, limit+1), from.Part)
		w.rows = fitFirst(rows, limit, bytes)
		if len(w.rows) < len(rows) {
			w.next = &rows[len(w.rows)].Cursor
		}
	}
	if len(w.rows) > 0 {
		at = w.rows[0].Cursor
	}
	switch {
	case at.Row == 0 && at.Part > 0:
		w.previous = &reading.Cursor{Part: at.Part - 1, Row: lastRow}
	case at.Row > 0 && at.Row < lastRow:
		w.previous = &at
	}
	return w
}

// inPart returns the rows that are in a part.
func inPart(rows []reading.Found, part int) []reading.Found {
	return slices.DeleteFunc(rows, func(r reading.Found) bool { return r.Part != part })
}

// fitFirst returns the first rows, as many as a page takes and at least one.
func fitFirst(rows []reading.Found, limit int, bytes func(*spool.Row) int) []reading.Found {
	n := 0
	for i := range rows {
		if n += bytes(&rows[i].Row); i == limit || i > 0 && n > rowBytes {
			return rows[:i]
		}
	}
	return rows
}

// fitLast returns the last rows, as many as a page takes and at least one.
func fitLast(rows []reading.Found, bytes func(*spool.Row) int) []reading.Found {
	n := 0
	for i := len(rows) - 1; i >= 0; i-- {
		if n += bytes(&rows[i].Row); i < len(rows)-1 && n > rowBytes {
			return rows[i+1:]
		}
	}
	return rows
}

// entries serves a list as a table.
func (s *Server) entries(w http.ResponseWriter, r *http.Request, p *place.Place) error {
	l, err := listOf(r, p)
	if err != nil {
		return err
	}
	filter, form := filterOf(r)
	from := reading.Cursor{Part: number(r, "part", 0), Row: number(r, "row", 0)}
	back := r.FormValue("back") != ""
	if filter.IsZero() || !l.State().Opened {
		ctx, cancel := context.WithTimeout(r.Context(), patience)
		_ = l.Load(ctx, from.Part) // the state shows it
		cancel()
	}
	st := l.State()
	form.choices(&st)
	win := windowOf(l, filter, from, back, rowsPerPage, rowSize)
	data := entriesPage{List: l.ID, Reading: !st.Opened || st.Busy && st.Rows == 0, Filter: form, Table: tableOf(l, &st, win.rows), Pager: s.pager(l, &st, &form, from, &win, filter.IsZero())}
	data.Progress = progress(l, &st, at("/list", form.args("list", l.ID)...))
	for i, f := range st.Root.Facts {
		if i < 30 {
			data.Facts = append(data.Facts, webpage.Fact{Name: webpage.Cut(f.Name, maxCell), Value: webpage.Cut(f.Value, maxCell)})
		}
	}
	for i, text := range st.Root.Warnings {
		if i == 10 {
			data.Warnings = append(data.Warnings, "and "+strconv.Itoa(len(st.Root.Warnings)-i)+" more")
			break
		}
		data.Warnings = append(data.Warnings, webpage.Cut(text, maxCell))
	}
	if !filter.IsZero() {
		data.Found = entriesText(int64(win.total)) + " of the " + webpage.Count(st.Rows) + " that were read"
	}
	data.Links = linksTable(st.Root.Links, "Links of the document", func(i int) string { return at("/resource", "list", l.ID, "link", i+1) }, 20)
	if hasXML(&st) {
		data.XML = at("/xml", "list", l.ID)
	}
	if st.Parts > 1 {
		data.Parts = at("/parts", "list", l.ID)
	}
	title := cmp.Or(st.Root.Title, reading.Title(resourcesync.Capability(l.Name), false))
	s.views.entries.Write(w, r, http.StatusOK, s.site, webpage.Page{Title: webpage.Cut(title, maxCell), Lead: webpage.Cut(l.URI, maxShown), Crumbs: []webpage.Link{{Text: "Overview", Href: "/"}},
		Events: at("/events", "list", l.ID), Data: data})
	return nil
}

// hasXML reports whether the lines of the document at the address of a list can be shown.
func hasXML(st *reading.State) bool {
	switch st.Root.Of {
	case reading.Members, reading.Versions, reading.Differences, reading.Lines:
		return false
	}
	return st.Root.Title != "Mirror"
}

// rowSize returns how many bytes a row adds to a page, at most.
func rowSize(row *spool.Row) int {
	return 350 + len(template.HTMLEscapeString(webpage.Cut(row.URI, maxCell))) + len(template.HTMLEscapeString(webpage.Cut(row.Type, 100))) + len(template.HTMLEscapeString(webpage.Cut(row.Kind, 100)))
}

// tableOf returns rows as a table.
func tableOf(l *reading.List, st *reading.State, rows []reading.Found) webpage.Table {
	t := webpage.Table{Caption: "Entries", Empty: "No entries."}
	changes := st.Root.Of == reading.Changes
	if len(st.Summary.Kinds) > 0 {
		t.Columns = append(t.Columns, webpage.Column{Title: map[bool]string{true: "Change", false: "Kind"}[changes]})
	}
	name, when := "URI", "Last modified"
	switch st.Root.Of {
	case reading.Changes:
		when = "Changed"
	case reading.Documents, reading.Packages:
		name, when = "Address", "As of"
	case reading.Versions:
		name, when = "Address", "Version of"
	}
	t.Columns = append(t.Columns, webpage.Column{Title: name}, webpage.Column{Title: "Type"}, webpage.Column{Title: "Size", Numeric: true}, webpage.Column{Title: when, Short: true})
	for i := range rows {
		row := &rows[i]
		var cells []webpage.Cell
		if len(st.Summary.Kinds) > 0 {
			cells = append(cells, webpage.Cell{Text: webpage.Cut(row.Kind, 100)})
		}
		size := ""
		if row.Length >= 0 {
			size = webpage.Size(row.Length)
		}
		cells = append(cells, webpage.Cell{Text: webpage.Cut(row.URI, maxCell), Href: rowAddress(l, st, row), Code: true}, webpage.Cell{Text: webpage.Cut(row.Type, 100)}, webpage.Cell{Text: size}, webpage.Cell{Text: webpage.Stamp(row.Time)})
		t.Rows = append(t.Rows, webpage.Row{Cells: cells, Mark: marks[row.Kind]})
	}
	return t
}

// marks are the colors of kinds of changes and differences.
var marks = map[string]string{"created": "good", "deleted": "bad", "missing": "bad", "corrupt": "bad", "stale": "warn", "updated": "warn", "extra": "warn"}

// rowAddress returns the page of a row.
func rowAddress(l *reading.List, st *reading.State, row *reading.Found) string {
	if st.Root.Of == reading.Documents || st.Root.Of == reading.Packages {
		return at("/look", "list", l.ID, "part", row.Part, "row", row.Cursor.Row)
	}
	return at("/resource", "list", l.ID, "part", row.Part, "row", row.Cursor.Row)
}

// pager returns the links to the pages before and after one.
func (s *Server) pager(l *reading.List, st *reading.State, form *filterForm, from reading.Cursor, win *window, plain bool) *webpage.Pager {
	page := func(c reading.Cursor, more ...any) string {
		return at("/list", form.args(append([]any{"list", l.ID, "part", c.Part, "row", c.Row}, more...)...)...)
	}
	pager := &webpage.Pager{}
	part := from.Part
	if len(win.rows) > 0 {
		first, last := win.rows[0].Cursor, win.rows[len(win.rows)-1].Cursor
		part = last.Part
		pager.Label = "Entries " + webpage.Count(first.Row+1) + " to " + webpage.Count(last.Row+1)
		if first.Part != last.Part {
			pager.Label = "From entry " + webpage.Count(first.Row+1) + " of part " + webpage.Count(first.Part+1) + " to entry " + webpage.Count(last.Row+1)
		}
		if st.Parts > 1 {
			pager.Label += " of part " + webpage.Count(last.Part+1) + ", of " + webpage.Count(st.Parts)
		}
	}
	if win.previous != nil {
		pager.First, pager.Previous = page(reading.Cursor{}), page(*win.previous, "back", 1)
	}
	switch next := part + 1; {
	case win.next != nil:
		pager.Next = page(*win.next)
	case plain && next < st.Parts: // it is read when the user goes there
		pager.Next = page(reading.Cursor{Part: next})
	}
	if plain && part < st.Parts-1 {
		pager.Last = page(reading.Cursor{Part: st.Parts - 1})
	}
	return pager
}

// linksTable returns links as a table. address returns the page of the n-th.
func linksTable(links []spool.Link, caption string, address func(i int) string, limit int) webpage.Table {
	t := webpage.Table{Caption: caption, Columns: []webpage.Column{{Title: "Relation"}, {Title: "Address"}, {Title: "Type"}, {Title: "Size", Numeric: true}}}
	for i, l := range links[:min(limit, len(links))] {
		size := ""
		if l.Length > 0 {
			size = webpage.Size(l.Length)
		}
		t.Rows = append(t.Rows, webpage.Row{Cells: []webpage.Cell{{Text: webpage.Cut(l.Rel, maxCell)}, {Text: webpage.Cut(l.Href, maxCell), Href: address(i), Code: true}, {Text: webpage.Cut(l.Type, 100)}, {Text: size}}})
	}
	return t
}

// partsPerPage is how many parts a page shows.
const partsPerPage = 100

// A partsPage is what parts_page.html shows.
type partsPage struct {
	Progress webpage.Notice
	Table    webpage.Table
}

// parts serves the parts of a list.
func (s *Server) parts(w http.ResponseWriter, r *http.Request, p *place.Place) error {
	l, err := listOf(r, p)
	if err != nil {
		return err
	}
	st := l.State()
	first := min(max(number(r, "first", 0), 0), st.Parts-1)
	here := at("/parts", "list", l.ID, "first", first)
	t := webpage.Table{Caption: "Parts", Columns: []webpage.Column{{Title: "Part", Numeric: true}, {Title: "Read"}, {Title: "Entries", Numeric: true}, {Title: "From", Short: true}, {Title: "Until", Short: true}, {Title: "Address"}}}
	if hasXML(&st) {
		t.Columns = append(t.Columns, webpage.Column{Title: "XML", Short: true})
	}
	for i, part := range l.Parts(first, partsPerPage) {
		row := webpage.Row{Cells: []webpage.Cell{{Text: webpage.Count(first + i + 1), Href: at("/list", "list", l.ID, "part", first+i)}, {Text: "no"}, {},
			{Text: webpage.Stamp(part.From)}, {Text: webpage.Stamp(part.Until)}, {Text: webpage.Cut(part.URI, 200), Code: true}}}
		switch {
		case part.Read:
			row.Cells[1].Text, row.Cells[2].Text, row.Mark = "yes", webpage.Count(part.Rows), "good"
		case part.Busy:
			row.Cells[1].Text, row.Cells[2].Text = "being read", webpage.Count(part.Rows)
		case part.Err != nil:
			row.Cells[1].Text, row.Mark = webpage.Cut(sentence(part.Err), maxCell), "bad"
		}
		if hasXML(&st) {
			row.Cells = append(row.Cells, webpage.Cell{Text: "with findings", Href: at("/xml", "list", l.ID, "of", first+i)})
		}
		t.Rows = append(t.Rows, row)
	}
	t.Pager = &webpage.Pager{Label: "Parts " + webpage.Count(first+1) + " to " + webpage.Count(min(first+partsPerPage, st.Parts)) + " of " + webpage.Count(st.Parts)}
	if first > 0 {
		t.Pager.Previous = at("/parts", "list", l.ID, "first", max(first-partsPerPage, 0))
	}
	if first+partsPerPage < st.Parts {
		t.Pager.Next = at("/parts", "list", l.ID, "first", first+partsPerPage)
	}
	s.views.parts.Write(w, r, http.StatusOK, s.site, webpage.Page{Title: "Parts", Lead: webpage.Cut(l.URI, maxShown), Events: at("/events", "list", l.ID),
		Crumbs: []webpage.Link{{Text: "Overview", Href: "/"}, {Text: webpage.Cut(st.Root.Title, maxCell), Href: at("/list", "list", l.ID)}}, Data: partsPage{progress(l, &st, here), t}})
	return nil
}
