package pages

import (
	"cmp"
	"context"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"lockstep/cmd/lockstep/internal/explorer/figures"
	"lockstep/cmd/lockstep/internal/explorer/place"
	"lockstep/cmd/lockstep/internal/explorer/reading"
	"lockstep/internal/webpage"
	"lockstep/resourcesync"
)

const (
	// setsPerPage is how many sets the overview lists at a time.
	setsPerPage = 50
	// chartDays is how many columns a chart has at most.
	chartDays = 92
	// topNames is how many media types are shown by name.
	topNames = 12
)

// An overviewPage is what overview.html shows.
type overviewPage struct {
	Facts   []webpage.Fact
	Sets    webpage.Table // of all sets, if there are several
	Set     string        // the one that is shown
	SetNote *webpage.Notice
	Lists   webpage.Table
	Notices []webpage.Notice // how far the lists were read
	Figures []webpage.Fact
	Types   *webpage.Bars
	Sizes   *webpage.Bars
	Changes *webpage.Chart
	Ages    *webpage.Chart
	Links   webpage.Table
	Topic   string
	Way     []string
	Mirror  []string // commands
}

var kindNames = map[string]string{
	place.Source: "A ResourceSync Source", place.Sitemap: "A Sitemap", place.Feed: "An Atom-PMH feed", place.Repository: "An OAI-PMH repository",
	place.Package: "A package", place.Mirror: "A mirror", place.Document: "A document",
}

func (s *Server) overview(w http.ResponseWriter, r *http.Request) {
	p := s.current()
	if p == nil {
		http.Redirect(w, r, "/start", http.StatusSeeOther)
		return
	}
	if len(p.Sets) == 0 {
		s.fail(w, r, errNotFound)
		return
	}
	n := min(max(number(r, "set", 0), 0), len(p.Sets)-1)
	set := p.Sets[n]
	readAhead(r.Context(), set)
	title := p.Address
	if p.Title != "" {
		title = p.Title
	}
	data := overviewPage{Sets: setsTable(p, n, number(r, "sets", 0)), Set: webpage.Cut(set.Name, maxCell)}
	data.Facts = []webpage.Fact{{Name: "Address", Value: webpage.Cut(p.Address, maxShown), Code: true}}
	for i, f := range p.Facts {
		if i == 40 {
			break
		}
		data.Facts = append(data.Facts, webpage.Fact{Name: webpage.Cut(f.Name, maxCell), Value: webpage.Cut(f.Value, maxCell)})
	}
	if set.Err != nil {
		data.SetNote = &webpage.Notice{Kind: "bad", Text: "The Capability List of this set cannot be read. " + sentence(set.Err)}
	}
	back := at("/", "set", n)
	data.describe(set, back, s.o.Now())
	for i, step := range p.Way {
		if i == 30 {
			break
		}
		data.Way = append(data.Way, webpage.Cut(step.String(), maxCell))
	}
	if p.Kind != place.Package && p.Kind != place.Document && p.Kind != place.Mirror {
		data.Mirror = []string{"lockstep sync " + quoted(p.Address) + " DIRECTORY", "lockstep follow " + quoted(p.Address) + " DIRECTORY"}
	}
	lead := kindNames[p.Kind]
	if len(p.Sets) > 1 {
		lead += " with " + webpage.Count(len(p.Sets)) + " sets"
	}
	s.views.overview.Write(w, r, http.StatusOK, s.site, webpage.Page{Title: webpage.Cut(title, maxCell), Lead: lead, Nav: "/", Events: at("/events", "set", n), Data: data})
}

// quoted returns an argument as a shell takes it.
func quoted(text string) string {
	if strings.Trim(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~/:@%+=,") == "" {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}

// readAhead reads the first part of the lists of a set, and the latest of its changes, as
// far as that is possible within the patience of a page.
func readAhead(ctx context.Context, set *place.Set) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var wg sync.WaitGroup
	for _, l := range set.Lists {
		wg.Go(func() {
			part := 0
			if l.Name == "changelist" {
				part = -1
			}
			if st := l.State(); st.Err == nil {
				_ = l.Load(ctx, part) // the page shows the result
			}
		})
	}
	wg.Wait()
}

// setsTable returns the sets of a place, if there are several.
func setsTable(p *place.Place, shown, first int) webpage.Table {
	t := webpage.Table{Caption: "Sets", Columns: []webpage.Column{{Title: "Set"}, {Title: "Offers"}, {Title: "Address"}}}
	if len(p.Sets) < 2 {
		return t
	}
	first = min(max(first, 0), len(p.Sets)-1)
	last := min(first+setsPerPage, len(p.Sets))
	for i, set := range p.Sets[first:last] {
		row := webpage.Row{Cells: []webpage.Cell{{Text: webpage.Cut(set.Name, maxCell), Href: at("/", "set", first+i, "sets", first)}, {Text: offers(set)}, {Text: webpage.Cut(set.URI, maxCell), Code: true}}}
		if first+i == shown {
			row.Mark = "good"
		}
		if set.Err != nil {
			row.Mark, row.Cells[1].Text = "bad", "cannot be read"
		}
		t.Rows = append(t.Rows, row)
	}
	if len(p.Sets) > setsPerPage {
		t.Pager = &webpage.Pager{Label: "Sets " + strconv.Itoa(first+1) + " to " + strconv.Itoa(last) + " of " + webpage.Count(len(p.Sets))}
		if first > 0 {
			t.Pager.Previous = at("/", "set", shown, "sets", max(first-setsPerPage, 0))
		}
		if last < len(p.Sets) {
			t.Pager.Next = at("/", "set", shown, "sets", last)
		}
	}
	return t
}

func offers(set *place.Set) string {
	text := ""
	for i, l := range set.Lists {
		if i > 0 {
			text += ", "
		}
		text += l.Name
	}
	return webpage.Cut(text, maxCell)
}

// describe adds the lists of a set, and figures about what was read of them.
func (d *overviewPage) describe(set *place.Set, back string, now time.Time) {
	d.Lists = webpage.Table{Caption: "Documents", Empty: "This set offers no documents.",
		Columns: []webpage.Column{{Title: "Document"}, {Title: "Read"}, {Title: "Entries", Numeric: true}, {Title: "As of", Short: true}, {Title: "Address"}}}
	var resources, changes *reading.State
	for i, l := range set.Lists {
		st := l.State()
		if i < 20 {
			d.Lists.Rows = append(d.Lists.Rows, listRow(l, &st))
		}
		of := st.Root.Of
		switch {
		case resources == nil && (of == reading.Resources || of == reading.Members):
			resources = &st
			d.Notices = append(d.Notices, progress(l, &st, back))
		case changes == nil && of == reading.Changes:
			changes = &st
			if len(set.Lists) == 1 {
				d.Notices = append(d.Notices, progress(l, &st, back))
			}
		}
	}
	if resources == nil {
		resources = changes // of a feed
	}
	if resources != nil {
		d.figures(&resources.Summary, now)
	}
	if changes != nil {
		d.Changes = chart("Changes", "Changes", &changes.Summary)
	}
	for _, l := range set.Above {
		st := l.State()
		d.Lists.Rows = append(d.Lists.Rows, listRow(l, &st))
	}
	d.Links = webpage.Table{Caption: "Links", Columns: []webpage.Column{{Title: "Relation"}, {Title: "Address"}}}
	for i, l := range set.Links {
		if i < 20 {
			d.Links.Rows = append(d.Links.Rows, webpage.Row{Cells: []webpage.Cell{{Text: webpage.Cut(l.Rel, maxCell)}, {Text: webpage.Cut(l.Href, maxCell), Code: true}}})
		}
	}
	d.Topic = webpage.Cut(set.Topic, maxShown)
}

// listRow returns the row of a list in the overview.
func listRow(l *reading.List, st *reading.State) webpage.Row {
	title := cmp.Or(st.Root.Title, reading.Title(resourcesync.Capability(l.Name), false))
	row := webpage.Row{Cells: []webpage.Cell{{Text: webpage.Cut(title, maxCell), Href: at("/list", "list", l.ID)}, {Text: readText(st)}, {Text: webpage.Count(st.Rows)}, {}, {Text: webpage.Cut(l.URI, maxCell), Code: true}}}
	if !st.Opened {
		row.Cells[1].Text, row.Cells[2].Text = "not yet", ""
		if st.Busy {
			row.Cells[1].Text = "being read"
		}
	}
	for _, f := range st.Root.Facts {
		switch f.Name {
		case "at", "until", "from", "updated":
			if row.Cells[3].Text == "" || f.Name == "until" {
				row.Cells[3].Text = f.Name + " " + asOf(f.Value)
			}
		}
	}
	if st.Err != nil {
		row.Mark, row.Cells[1].Text = "bad", webpage.Cut(sentence(st.Err), maxCell)
	}
	return row
}

// readText says in a few words how far a list was read.
func readText(st *reading.State) string {
	switch {
	case st.More && st.Read == 1:
		return "1 part, more follow"
	case st.More:
		return webpage.Count(st.Read) + " parts, more follow"
	case st.Complete():
		return "all"
	}
	return webpage.Count(st.Read) + " of " + webpage.Count(st.Parts) + " parts"
}

// asOf returns an instant of a document to the second.
func asOf(text string) string {
	if d, err := resourcesync.ParseDatetime(text); err == nil && d.Granularity() <= resourcesync.Second {
		return webpage.Stamp(d.Time())
	}
	return webpage.Cut(text, 40)
}

// figures adds what a summary says of resources.
func (d *overviewPage) figures(sum *figures.Summary, now time.Time) {
	if sum.Rows == 0 {
		return
	}
	add := func(name, value string) {
		d.Figures = append(d.Figures, webpage.Fact{Name: name, Value: value, Live: true})
	}
	add("Entries read", webpage.Count(sum.Rows))
	if sum.Unsized < sum.Rows {
		total := webpage.Size(sum.Bytes)
		if sum.Unsized > 0 {
			total += ", and " + webpage.Count(sum.Unsized) + " without a stated length"
		}
		add("Size together", total)
	}
	if !sum.Newest.IsZero() {
		add("Last modified", webpage.Stamp(sum.Newest)+" ("+webpage.Ago(sum.Newest, now)+")")
		add("First modified", webpage.Stamp(sum.Oldest)+" ("+webpage.Ago(sum.Oldest, now)+")")
	}
	types, rest := figures.Ordered(sum.Types, topNames)
	bars := &webpage.Bars{Caption: "Media types", Name: "Type", Unit: "Entries"}
	for _, t := range types {
		name := t.Name
		if name == "" {
			name = "not stated"
		}
		bars.Points = append(bars.Points, webpage.Point{Label: webpage.Cut(name, 100), Value: float64(t.N)})
	}
	if rest > 0 {
		bars.Points = append(bars.Points, webpage.Point{Label: "all others", Value: float64(rest)})
	}
	d.Types = bars
	if sum.Unsized < sum.Rows {
		d.Sizes = &webpage.Bars{Caption: "Sizes", Name: "Size", Unit: "Entries"}
		for _, c := range sum.Classes() {
			d.Sizes.Points = append(d.Sizes.Points, webpage.Point{Label: c.Name, Value: float64(c.N)})
		}
	}
	d.Ages = chart("Last modified", "Resources", sum)
}

// chart returns the numbers of a summary by day, or by month or year; nil if it has no
// times.
func chart(title, unit string, sum *figures.Summary) *webpage.Chart {
	spans, by := sum.Daily(chartDays)
	if len(spans) == 0 {
		return nil
	}
	c := &webpage.Chart{Title: title + " per " + by, Unit: unit, Live: true}
	for _, s := range spans {
		c.Points = append(c.Points, webpage.Point{Label: s.Name, Value: float64(s.N)})
	}
	return c
}
