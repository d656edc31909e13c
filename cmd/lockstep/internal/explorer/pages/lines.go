package pages

import (
	"context"
	"html/template"
	"io"
	"net/http"
	"strings"

	"lockstep/cmd/lockstep/internal/explorer/annotated"
	"lockstep/cmd/lockstep/internal/explorer/place"
	"lockstep/cmd/lockstep/internal/explorer/reading"
	"lockstep/cmd/lockstep/internal/explorer/spool"
	"lockstep/internal/webpage"
)

const (
	// linesPerPage is how many lines of XML a page shows, and maxLine how many
	// characters of each.
	linesPerPage = 120
	maxLine      = 600
	// linesPatience is how long the page waits for a document to be read and checked.
	linesPatience = 2 * patience
)

// A linesPage is what lines.html shows.
type linesPage struct {
	Summary webpage.Notice
	Whole   []string // findings about the document as a whole
	Filter  filterForm
	List    int
	Only    bool // only lines with findings are shown
	Other   webpage.Link
	Lines   []shownLine
	Pager   *webpage.Pager
}

// A shownLine is a line of XML.
type shownLine struct {
	At       string // line and column in the document
	Indent   string
	Text     string
	Findings []shownFinding
}

// A shownFinding is a finding beside a line.
type shownFinding struct{ Level, Rule, Message string }

// lines serves the XML of a document, with findings.
func (s *Server) lines(w http.ResponseWriter, r *http.Request, p *place.Place) error {
	l, err := listOf(r, p)
	if err != nil {
		return err
	}
	uri := l.URI
	if part := number(r, "of", -1); part >= 0 {
		if parts := l.Parts(part, 1); len(parts) == 1 {
			uri = parts[0].URI
		}
	}
	if l.Name != "xml" {
		l = p.Lines(uri)
	}
	ctx, cancel := context.WithTimeout(r.Context(), linesPatience)
	defer cancel()
	opened := l.Open(ctx)
	st := l.State()
	data := linesPage{List: l.ID, Only: r.FormValue("only") != "", Filter: filterForm{Text: strings.TrimSpace(r.FormValue("q"))}}
	filter := spool.Filter{Text: data.Filter.Text}
	args := []any{"list", l.ID, "q", data.Filter.Text}
	data.Other = webpage.Link{Text: "Only lines with findings", Href: at("/xml", append(args, "only", 1)...)}
	if data.Only {
		filter.Type = annotated.Finding
		data.Other = webpage.Link{Text: "All lines", Href: at("/xml", args...)}
		args = append(args, "only", 1)
	}
	from := reading.Cursor{Row: number(r, "row", 0)}
	win := windowOf(l, filter, from, r.FormValue("back") != "", linesPerPage, lineSize)
	for i := range win.rows {
		data.Lines = append(data.Lines, lineOf(&win.rows[i].Row))
	}
	data.Pager = linesPager(&win, args)
	data.summarize(&st, opened)
	s.views.lines.Write(w, r, http.StatusOK, s.site, webpage.Page{Title: "XML", Lead: webpage.Cut(uri, maxShown), Events: at("/events", "list", l.ID),
		Crumbs: []webpage.Link{{Text: "Overview", Href: "/"}}, Data: data})
	return nil
}

// summarize adds what the validator has found.
func (d *linesPage) summarize(st *reading.State, err error) {
	if !st.Opened {
		d.Summary = webpage.Notice{Kind: "info", Text: "The document is being read and checked. Reload the page in a moment."}
		if st.Err != nil {
			d.Summary = webpage.Notice{Kind: "bad", Text: sentence(err)}
		}
		return
	}
	counts := map[string]string{}
	for _, f := range st.Root.Facts {
		if f.Name == annotated.Whole {
			if len(d.Whole) < 20 {
				d.Whole = append(d.Whole, webpage.Cut(f.Value, maxCell))
			}
			continue
		}
		counts[f.Name] = f.Value
	}
	d.Summary = webpage.Notice{Kind: "good", Text: "The validator has found nothing wrong."}
	switch {
	case counts["errors"] == "" && counts["warnings"] == "":
		d.Summary = webpage.Notice{Kind: "info", Text: "Documents of this kind are not checked one by one: lockstep validate checks the repository."}
	case counts["errors"] != "0":
		d.Summary = webpage.Notice{Kind: "bad", Text: "Errors: " + counts["errors"] + ", warnings: " + counts["warnings"] + "."}
	case counts["warnings"] != "0":
		d.Summary = webpage.Notice{Kind: "warn", Text: "No errors. Warnings: " + counts["warnings"] + "."}
	}
}

func lineOf(row *spool.Row) shownLine {
	line := shownLine{At: row.Kind, Indent: strings.Repeat("  ", int(min(max(row.Length, 0), 40))), Text: webpage.Cut(row.URI, maxLine)}
	for _, f := range row.Detail.Facts {
		level, rule, _ := strings.Cut(f.Name, " ")
		line.Findings = append(line.Findings, shownFinding{level, rule, webpage.Cut(f.Value, maxCell)})
	}
	return line
}

// lineSize returns how many bytes a line adds to a page, at most.
func lineSize(row *spool.Row) int {
	n := 180 + len(template.HTMLEscapeString(webpage.Cut(row.URI, maxLine)))
	for _, f := range row.Detail.Facts {
		n += 120 + len(template.HTMLEscapeString(webpage.Cut(f.Value, maxCell)))
	}
	return n
}

func linesPager(win *window, args []any) *webpage.Pager {
	page := func(c reading.Cursor, more ...any) string {
		return at("/xml", append(append([]any{"row", c.Row}, args...), more...)...)
	}
	pager := &webpage.Pager{}
	if len(win.rows) > 0 {
		pager.Label = "Lines " + webpage.Count(win.rows[0].Cursor.Row+1) + " to " + webpage.Count(win.rows[len(win.rows)-1].Cursor.Row+1)
	}
	if win.previous != nil {
		pager.First, pager.Previous = page(reading.Cursor{}), page(*win.previous, "back", 1)
	}
	if win.next != nil {
		pager.Next = page(*win.next)
	}
	return pager
}

// copyBody passes a body on as it arrives.
func copyBody(w http.ResponseWriter, body io.Reader) {
	if _, err := io.Copy(w, body); err != nil {
		panic(http.ErrAbortHandler) // the browser must not take the beginning for the whole
	}
}
