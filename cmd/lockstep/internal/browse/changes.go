package browse

import (
	"cmp"
	"context"
	_ "embed"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"lockstep/catalog"
	"lockstep/internal/webpage"
	"lockstep/resourcesync"
)

//go:embed changes.html
var changesHTML string

//go:embed resource.html
var resourceHTML string

var changesView, resourceView = webpage.Parse(changesHTML, viewsHTML), webpage.Parse(resourceHTML)

// marks are the colors of changes.
var marks = map[resourcesync.Change]string{resourcesync.Created: "good", resourcesync.Updated: "warn", resourcesync.Deleted: "bad"}

// changes shows the changes of a set, the latest first.
func (p *Pages) changes(ctx context.Context, q *request) (view, error) {
	s, err := q.set()
	if err != nil {
		return view{}, err
	}
	status, err := p.opts.Catalog.Status(ctx, s.List)
	if err != nil {
		return view{}, err
	}
	before := status.Last + 1
	if n, err := strconv.ParseInt(q.Get("before"), 10, 64); err == nil {
		before = min(max(catalog.Seq(n), 1), before)
	}
	data := struct {
		Views []webpage.Link
		Table webpage.Table
		Since string
	}{Views: s.views("Changes")}
	data.Table = webpage.Table{Caption: "Changes", Empty: "There are no changes.",
		Columns: []webpage.Column{{Title: "Change", Short: true}, {Title: "When", Short: true}, {Title: "Resource"}, {Title: "Type", Short: true}, {Title: "Size", Numeric: true}}}
	some, err := p.before(ctx, s, before, max(before-1-pageRows, status.Kept.Seq))
	if err != nil {
		return view{}, err
	}
	older, length := before, 0
	for _, c := range slices.Backward(some) {
		if length += 2 * len(url.QueryEscape(c.URI)); length > pageBytes && len(data.Table.Rows) > 0 {
			break
		}
		older = c.Seq
		name := webpage.Cut(cmp.Or(strings.TrimPrefix(c.URI, s.Prefix), c.URI), maxCell)
		data.Table.Rows = append(data.Table.Rows, webpage.Row{Mark: marks[c.Change], Cells: []webpage.Cell{{Text: c.Change.String()}, {Text: webpage.Stamp(c.EventTime)},
			{Text: name, Href: s.about(c.URI), Code: true}, {Text: webpage.Cut(c.Type, 100)}, {Text: sizeOf(&c)}}})
	}
	data.Table.Pager = &webpage.Pager{Label: "The latest first"}
	if before <= status.Last {
		data.Table.Pager.First = s.at("changes")
	}
	if older > status.Kept.Seq+1 && len(some) > 0 {
		data.Table.Pager.Next = s.at("changes", "before", strconv.FormatInt(int64(older), 10))
	}
	if !status.Kept.At.IsZero() {
		data.Since = "Changes are kept since " + webpage.Stamp(status.Kept.At) + "."
	}
	return view{webpage.Page{Title: webpage.Cut(s.title(), maxCell), Lead: s.lead(status.Resources), Nav: "./", Crumbs: s.crumbs(s.Prefix), Data: data}, changesView}, nil
}

// before returns the changes numbered above after and below before.
func (p *Pages) before(ctx context.Context, s *Set, before, after catalog.Seq) (some []catalog.Change, err error) {
	for c, err := range p.opts.Catalog.Changes(ctx, s.List, after) {
		if err != nil {
			return nil, err
		}
		if c.Seq >= before {
			break
		}
		some = append(some, c)
	}
	return some, nil
}

func sizeOf(c *catalog.Change) string {
	if c.Change == resourcesync.Deleted {
		return ""
	}
	return size(c.Length)
}

const (
	// maxHistory is how many of the latest changes of a set are searched for those of a
	// resource, and maxEvents how many are shown.
	maxHistory = 5000
	maxEvents  = 50
	maxLinks   = 60
)

// A resourcePage is what resource.html shows.
type resourcePage struct {
	Notice   *webpage.Notice
	Open     string // its address, if it is of http or https
	Versions string
	Facts    []webpage.Fact
	Links    webpage.Table
	History  webpage.Table
	Among    string
}

// resource shows what is known of a resource.
func (p *Pages) resource(ctx context.Context, q *request) (view, error) {
	s, err := q.set()
	if err != nil {
		return view{}, err
	}
	uri := q.Get("uri")
	if uri == "" || len(uri) > maxAddress || strings.ContainsRune(uri, 0) {
		return view{}, errNotFound
	}
	r, ok, err := catalog.Find(ctx, p.opts.Catalog, s.List, uri)
	if err != nil {
		return view{}, err
	}
	var data resourcePage
	deleted, err := p.history(ctx, s, uri, &data)
	switch {
	case err != nil:
		return view{}, err
	case !ok && !deleted:
		return view{}, errNotFound
	case !ok:
		data.Notice = &webpage.Notice{Kind: "warn", Text: "This resource was deleted."}
	default:
		data.describe(&r)
		if strings.HasPrefix(uri, "http://") || strings.HasPrefix(uri, "https://") {
			data.Open = uri
		}
	}
	if s.Versions != "" {
		data.Versions = s.Versions.TimeMap(uri)
	}
	in := uri[:strings.LastIndexByte(uri, '/')+1]
	crumbs := s.crumbs(in)
	if in != s.Prefix {
		crumbs = append(crumbs, s.crumb(in))
	} else {
		crumbs = append(crumbs, webpage.Link{Text: webpage.Cut(s.title(), maxCell), Href: s.at("set")})
	}
	return view{webpage.Page{Title: webpage.Cut(uri, maxShown), Nav: "./", Crumbs: crumbs, Data: data}, resourceView}, nil
}

// describe adds what the catalog has of a resource.
func (d *resourcePage) describe(r *catalog.Record) {
	add := func(name, value string, code bool) {
		if value != "" {
			d.Facts = append(d.Facts, webpage.Fact{Name: name, Value: webpage.Cut(value, maxShown), Code: code})
		}
	}
	add("Media type", r.Type, false)
	length := size(r.Length)
	if r.Length >= 1000 {
		length += " (" + webpage.Count(r.Length) + " bytes)"
	}
	add("Size", length, false)
	add("Last modified", webpage.Stamp(r.Lastmod), false)
	add("Last change", webpage.Stamp(r.EventTime), false)
	add("Encoding", r.Encoding, false)
	for _, h := range r.Hashes {
		name, digest, _ := strings.Cut(h.String(), ":")
		add("Hash "+name, digest, true)
	}
	d.Links = webpage.Table{Caption: "Links", Columns: []webpage.Column{{Title: "Relation"}, {Title: "Address"}, {Title: "Type"}}}
	for i := range r.Links[:min(len(r.Links), maxLinks)] {
		l := &r.Links[i]
		d.Links.Rows = append(d.Links.Rows, webpage.Row{Cells: []webpage.Cell{{Text: webpage.Cut(l.Rel, maxCell)}, {Text: webpage.Cut(l.Href, maxCell), Code: true}, {Text: webpage.Cut(l.Type, 100)}}})
	}
}

// history adds the changes of a resource that are among the latest of its set, and reports
// whether the last one was its deletion.
func (p *Pages) history(ctx context.Context, s *Set, uri string, d *resourcePage) (deleted bool, err error) {
	status, err := p.opts.Catalog.Status(ctx, s.List)
	if err != nil {
		return false, err
	}
	d.History = webpage.Table{Caption: "History", Columns: []webpage.Column{{Title: "Change", Short: true}, {Title: "When", Short: true}, {Title: "Size", Numeric: true}, {Title: "Hash"}}}
	first := max(status.Last-maxHistory, status.Kept.Seq)
	for c, err := range p.opts.Catalog.Changes(ctx, s.List, first) {
		if err != nil {
			return false, err
		}
		if c.URI != uri {
			continue
		}
		deleted = c.Change == resourcesync.Deleted
		row := webpage.Row{Mark: marks[c.Change], Cells: []webpage.Cell{{Text: c.Change.String()}, {Text: webpage.Stamp(c.EventTime)}, {Text: sizeOf(&c)}, {}}}
		if n := len(c.Hashes); n > 0 {
			row.Cells[3] = webpage.Cell{Text: c.Hashes[n-1].String(), Code: true} // the strongest
		}
		d.History.Rows = append([]webpage.Row{row}, d.History.Rows[:min(len(d.History.Rows), maxEvents-1)]...)
	}
	if !status.Kept.At.IsZero() {
		d.History.Empty = "It has not changed since " + webpage.Stamp(status.Kept.At) + "."
	}
	if first > status.Kept.Seq {
		d.Among = "Of the latest " + webpage.Count(maxHistory) + " changes of the set."
		d.History.Empty = "It is not among them."
	}
	return deleted, nil
}
