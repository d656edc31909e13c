package browse

import (
	"context"
	_ "embed"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"lockstep/catalog"
	"lockstep/internal/webpage"
)

const (
	// pageRows is how many rows a page has at most.
	pageRows = 100
	// pageBytes is how long the addresses on a page are together, about: pages stay small
	// with long URIs, too.
	pageBytes = 40_000
	// maxSearched is how many resources one request searches.
	maxSearched = 20_000
)

//go:embed sets.html
var setsHTML string

//go:embed set.html
var setHTML string

//go:embed views.html
var viewsHTML string

var setsView, setView = webpage.Parse(setsHTML), webpage.Parse(setHTML, viewsHTML)

// sets shows the sets that the client may see.
func (p *Pages) sets(ctx context.Context, q *request) (view, error) {
	if len(q.sets) == 1 {
		q.Values = url.Values{"name": {q.sets[0].Name}}
		return p.set(ctx, q)
	}
	t := webpage.Table{Caption: "Sets", Columns: []webpage.Column{{Title: "Set"}, {Title: "Resources", Numeric: true}, {Title: "About", Wide: true}}}
	n, _ := strconv.Atoi(q.Get("first")) // otherwise the first
	first := min(max(n, 0), max(len(q.sets)-1, 0))
	last := min(first+pageRows, len(q.sets))
	for i := range q.sets[first:last] {
		s := &q.sets[first+i]
		status, err := p.opts.Catalog.Status(ctx, s.List)
		if err != nil {
			return view{}, err
		}
		t.Rows = append(t.Rows, webpage.Row{Cells: []webpage.Cell{{Text: webpage.Cut(s.title(), maxCell), Href: s.at("set")}, {Text: webpage.Count(status.Resources)}, {Text: webpage.Cut(s.Summary, maxCell)}}})
	}
	if len(q.sets) > pageRows {
		t.Pager = &webpage.Pager{Label: "Sets " + webpage.Count(first+1) + " to " + webpage.Count(last)}
		if first > 0 {
			t.Pager.Previous = "./?first=" + strconv.Itoa(max(first-pageRows, 0))
		}
		if last < len(q.sets) {
			t.Pager.Next = "./?first=" + strconv.Itoa(last)
		}
	}
	return view{webpage.Page{Title: p.opts.Title, Lead: webpage.Count(len(q.sets)) + " sets", Nav: "./", Data: t}, setsView}, nil
}

// A listPage is what set.html shows.
type listPage struct {
	Views  []webpage.Link
	Name   string
	In     string // the folder, as part of an address; "": where the set's folders begin
	Folder string // the same for people
	Text   string // that is searched
	Found  string
	Table  webpage.Table
}

// views are those of a set.
func (s *Set) views(current string) []webpage.Link {
	all := []webpage.Link{{Text: "Resources", Href: s.at("set")}, {Text: "Changes", Href: s.at("changes")}, {Text: "Capability List", Href: s.List}}
	for i := range all {
		all[i].Current = all[i].Text == current
	}
	return all
}

// maxCrumbs is how many folders above one are named: addresses of strangers may have any
// number of them.
const maxCrumbs = 6

// crumbs lead to the pages above a folder of a set.
func (s *Set) crumbs(in string) []webpage.Link {
	crumbs := []webpage.Link{{Text: "Browse", Href: "./"}}
	if in == s.Prefix {
		return crumbs
	}
	crumbs = append(crumbs, webpage.Link{Text: webpage.Cut(s.title(), maxCell), Href: s.at("set")})
	if !strings.HasPrefix(in, s.Prefix) {
		return crumbs
	}
	for range maxCrumbs {
		in = in[:strings.LastIndexByte(strings.TrimSuffix(in, "/"), '/')+1]
		if len(in) <= len(s.Prefix) {
			break
		}
		crumbs = slices.Insert(crumbs, 2, s.crumb(in))
	}
	return crumbs
}

// crumb leads to a folder.
func (s *Set) crumb(in string) webpage.Link {
	return webpage.Link{Text: webpage.Cut(in[strings.LastIndexByte(strings.TrimSuffix(in, "/"), '/')+1:], 60), Href: s.at("set", "in", in)}
}

// set shows what is in a folder of a set, or what a search finds there.
func (p *Pages) set(ctx context.Context, q *request) (view, error) {
	s, err := q.set()
	if err != nil {
		return view{}, err
	}
	in, from := q.Get("in"), q.Get("from")
	if in != "" && !strings.HasSuffix(in, "/") || strings.ContainsRune(in+from, 0) || len(in) > maxAddress {
		return view{}, errNotFound
	}
	data := listPage{Views: s.views("Resources"), Name: s.Name, In: in, Text: webpage.Cut(strings.TrimSpace(q.Get("q")), maxCell)}
	if in == "" {
		if in, err = p.begin(ctx, s); err != nil {
			return view{}, err
		}
	}
	data.Folder = webpage.Cut(in, maxShown)
	status, err := p.opts.Catalog.Status(ctx, s.List)
	if err != nil {
		return view{}, err
	}
	data.Table = webpage.Table{Caption: "Resources", Empty: "There are no resources here.",
		Columns: []webpage.Column{{Title: "Name"}, {Title: "Type", Short: true}, {Title: "Size", Numeric: true}, {Title: "Last modified", Short: true}}}
	var next string
	if data.Text != "" {
		next, err = p.search(ctx, s, in, from, &data)
	} else {
		next, err = p.list(ctx, s, in, from, &data.Table)
	}
	if err != nil {
		return view{}, err
	}
	if from != "" || next != "" {
		data.Table.Pager = &webpage.Pager{Label: "In the order of their URIs"}
		if from != "" {
			data.Table.Pager.First = s.at("set", "in", data.In, "q", data.Text)
		}
		if next != "" {
			data.Table.Pager.Next = s.at("set", "in", data.In, "q", data.Text, "from", next)
		}
	}
	return view{webpage.Page{Title: webpage.Cut(s.title(), maxCell), Lead: s.lead(status.Resources), Nav: "./", Crumbs: s.crumbs(in), Data: data}, setView}, nil
}

// lead says what a set is.
func (s *Set) lead(n int64) string {
	if s.Summary == "" {
		return resources(n)
	}
	return webpage.Cut(s.Summary, maxShown) + " " + resources(n) + "."
}

func resources(n int64) string {
	if n == 1 {
		return "1 resource"
	}
	return webpage.Count(n) + " resources"
}

// maxAddress is how long the URI of a folder or resource may be that has a page: a page has some
// links with it.
const maxAddress = 4 << 10

// begin returns where the folders of a set begin: at its prefix if all resources are below
// it, otherwise at the deepest folder that has them all.
func (p *Pages) begin(ctx context.Context, s *Set) (in string, err error) {
	for range maxDepth {
		var all []child
		if _, err := p.children(ctx, s, in, "", 2, func(c *child) bool { all = append(all, *c); return true }); err != nil {
			return "", err
		}
		if len(all) != 1 || all[0].folder == "" || in == s.Prefix {
			break
		}
		in = all[0].folder
	}
	return in, nil
}

// maxDepth is how many folders without a choice are passed over.
const maxDepth = 20

// A child is a folder, or a resource, in a folder.
type child struct {
	folder string // its URI; "": it is a resource
	catalog.Record
}

// children passes what is in a folder to add, in order, from a URI on: up to limit children,
// and until add returns false. next is where to continue; "" at the end.
func (p *Pages) children(ctx context.Context, s *Set, in, from string, limit int, add func(*child) bool) (next string, err error) {
	at, end := max(in, from), after(in)
	for n := 0; ; {
		jump := ""
		for r, err := range p.opts.Catalog.Resources(ctx, s.List, catalog.Range{From: at, To: end}) {
			if err != nil {
				return "", err
			}
			c := child{Record: r, folder: folderOf(in, r.URI)}
			if n == limit || !add(&c) {
				return max(in, from, firstOf(&c)), nil
			}
			n++
			if c.folder != "" {
				jump = after(c.folder)
				break
			}
		}
		if jump == "" {
			return "", nil
		}
		at = jump
	}
}

func firstOf(c *child) string {
	if c.folder != "" {
		return c.folder
	}
	return c.URI
}

// folderOf returns the folder directly in a folder that has a resource; "" if the resource
// itself is there.
func folderOf(in, uri string) string {
	rest := uri[len(in):]
	skip := 0
	if in == "" {
		if i := strings.Index(rest, "://"); i >= 0 {
			skip = i + len("://")
		}
	}
	i := strings.IndexByte(rest[skip:], '/')
	if i < 0 {
		return ""
	}
	return in + rest[:skip+i+1]
}

// after returns the first URI that is not in a folder; "" if that is everything.
func after(folder string) string {
	if folder == "" {
		return ""
	}
	return folder[:len(folder)-1] + string(rune('/'+1))
}

// list adds what is in a folder to a table, and returns where the next page begins.
func (p *Pages) list(ctx context.Context, s *Set, in, from string, t *webpage.Table) (next string, err error) {
	size := 0
	return p.children(ctx, s, in, from, pageRows, func(c *child) bool {
		if size += 2 * len(url.QueryEscape(firstOf(c))); size > pageBytes && len(t.Rows) > 0 {
			return false
		}
		if len(c.folder) > maxAddress {
			t.Rows = append(t.Rows, webpage.Row{Cells: webpage.Cells(webpage.Cut(c.folder[len(in):], maxCell), "folder", "", "")})
			return true
		}
		if c.folder != "" {
			t.Rows = append(t.Rows, webpage.Row{Cells: []webpage.Cell{{Text: webpage.Cut(c.folder[len(in):], maxCell), Href: s.at("set", "in", c.folder), Code: true}, {Text: "folder"}, {}, {}}})
			return true
		}
		name := c.URI[len(in):]
		if name == "" {
			name = c.URI
		}
		t.Rows = append(t.Rows, s.row(&c.Record, name))
		return true
	})
}

func (s *Set) row(r *catalog.Record, name string) webpage.Row {
	return webpage.Row{Cells: []webpage.Cell{{Text: webpage.Cut(name, maxCell), Href: s.about(r.URI), Code: true}, {Text: webpage.Cut(r.Type, 100)}, {Text: size(r.Length)}, {Text: webpage.Stamp(r.Lastmod)}}}
}

// about returns the address of the page of a resource; "" if it has none.
func (s *Set) about(uri string) string {
	if len(uri) > maxAddress {
		return ""
	}
	return s.at("resource", "uri", uri)
}

func size(n int64) string {
	if n < 0 {
		return ""
	}
	return webpage.Size(n)
}

// search adds the resources below a folder whose URIs contain a text, and returns where the
// search is to be continued.
func (p *Pages) search(ctx context.Context, s *Set, in, from string, data *listPage) (next string, err error) {
	text := strings.ToLower(data.Text)
	searched, size := 0, 0
	for r, err := range p.opts.Catalog.Resources(ctx, s.List, catalog.Range{From: max(in, from), To: after(in)}) {
		if err != nil {
			return "", err
		}
		if searched == maxSearched || len(data.Table.Rows) == pageRows {
			next = r.URI
			break
		}
		if searched++; !strings.Contains(strings.ToLower(r.URI), text) {
			continue
		}
		if size += 2 * len(url.QueryEscape(r.URI)); size > pageBytes && len(data.Table.Rows) > 0 {
			next = r.URI
			break
		}
		data.Table.Rows = append(data.Table.Rows, s.row(&r, r.URI[len(in):]))
	}
	data.Table.Empty = "No URI contains this."
	data.Found = fmt.Sprintf("%s found among %s.", webpage.Count(len(data.Table.Rows)), resources(int64(searched)))
	if next != "" {
		data.Table.Empty, data.Found = "Nothing found so far.", data.Found+" The next page continues the search."
	}
	return next, nil
}
