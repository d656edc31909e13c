package pages

import (
	"cmp"
	"context"
	"net/http"
	"strconv"
	"strings"

	"lockstep/cmd/lockstep/internal/explorer/contents"
	"lockstep/cmd/lockstep/internal/explorer/place"
	"lockstep/cmd/lockstep/internal/explorer/preview"
	"lockstep/cmd/lockstep/internal/explorer/reading"
	"lockstep/cmd/lockstep/internal/explorer/spool"
	"lockstep/internal/webpage"
)

// A resourcePage is what resource.html shows.
type resourcePage struct {
	Facts    []webpage.Fact
	Actions  []webpage.Link
	External string // the address itself, if it is of http or https
	Show     string // "preview", "hash" or "versions": what the user has asked for
	Content  string // the address of the preview
	IsImage  bool
	Check    *webpage.Notice
	Hashes   []webpage.Fact // as computed
	Versions *webpage.Notice
	Links    webpage.Table
	Patches  webpage.Table
	History  webpage.Table
	Past     []webpage.Notice // how far the lists of changes were read
}

// A subject is what a request is about: a row, or a link of a row or document.
type subject struct {
	mirror string // the directory of the mirror that is explored; "": there is none
	list   *reading.List
	state  reading.State
	part   int
	row    int
	link   int // its number, from 1; 0: the row itself
	spool.Row
}

// subjectOf returns the subject of a request.
func subjectOf(r *http.Request, p *place.Place) (*subject, error) {
	l, err := listOf(r, p)
	if err != nil {
		return nil, err
	}
	s := &subject{list: l, state: l.State(), part: number(r, "part", -1), row: number(r, "row", 0), link: number(r, "link", 0)}
	if p.Kind == place.Mirror {
		s.mirror = p.Address
	}
	links := s.state.Root.Links
	if s.part >= 0 {
		row, ok := l.Row(reading.Cursor{Part: s.part, Row: s.row})
		if !ok {
			return nil, errNotFound
		}
		s.Row, links = row, row.Detail.Links
	}
	switch {
	case s.link == 0 && s.part < 0, s.link < 0, s.link > len(links):
		return nil, errNotFound
	case s.link > 0:
		link := links[s.link-1]
		s.Row = spool.Row{URI: link.Href, Type: link.Type, Length: -1, Detail: spool.Detail{Hash: link.Hash, Path: link.Path, Facts: []spool.Fact{{Name: "relation", Value: link.Rel}}}}
		if link.Length > 0 {
			s.Length = link.Length
		}
		if link.Modified != "" {
			s.Detail.Facts = append(s.Detail.Facts, spool.Fact{Name: "modified", Value: link.Modified})
		}
	}
	return s, nil
}

// address returns the address of a page about the subject.
func (s *subject) address(path string, more ...any) string {
	args := []any{"list", s.list.ID}
	if s.part >= 0 {
		args = append(args, "part", s.part, "row", s.row)
	}
	if s.link > 0 {
		args = append(args, "link", s.link)
	}
	return at(path, append(args, more...)...)
}

// ref returns which bytes the subject has: in a package those of the member, in a mirror
// those of its file.
func (s *subject) ref() contents.Ref {
	ref := contents.Ref{URI: s.URI, Type: s.Type, Hash: s.Detail.Hash, Length: s.Length}
	if s.list.Name == "package" && s.link == 0 && s.Detail.Path != "" {
		ref.Package, ref.Member = s.list.URI, s.Detail.Path
	}
	if s.mirror != "" && s.list.Name == "resources" && s.link == 0 {
		ref.Mirror, ref.File = s.mirror, s.Detail.Path
	}
	return ref
}

// readable reports whether there are bytes to be read.
func (s *subject) readable() bool {
	ref := s.ref()
	return ref.Member != "" || ref.Mirror != "" || strings.HasPrefix(s.URI, "http://") || strings.HasPrefix(s.URI, "https://")
}

// resource serves the page of a resource.
func (s *Server) resource(w http.ResponseWriter, r *http.Request, p *place.Place) error {
	about, err := subjectOf(r, p)
	if err != nil {
		return err
	}
	data := resourcePage{Show: r.FormValue("show"), Facts: factsOf(&about.Row)}
	if about.readable() {
		data.Actions = []webpage.Link{{Text: "Preview", Href: about.address("/resource", "show", "preview")}, {Text: "Verify the hash", Href: about.address("/resource", "show", "hash")}, {Text: "Download", Href: about.address("/download")}}
		if about.ref().Member == "" {
			data.Actions = append(data.Actions, webpage.Link{Text: "Find versions", Href: about.address("/resource", "show", "versions")}, webpage.Link{Text: "Look at it as a document", Href: about.address("/look")})
			data.External = about.URI
		}
	}
	for i := range data.Actions {
		data.Actions[i].Current = data.Show != "" && strings.HasSuffix(data.Actions[i].Href, "show="+data.Show)
	}
	unhurried(w)
	ctx, cancel := context.WithTimeout(r.Context(), contents.ReadTimeout)
	defer cancel()
	switch data.Show {
	case "preview":
		data.Content = about.address("/content")
		kind, _ := preview.KindOf(about.Type, nil)
		data.IsImage = kind == preview.Image || strings.HasPrefix(about.Type, "image/")
	case "hash":
		data.verify(ctx, p, about)
	case "versions":
		if data.findVersions(ctx, w, r, p, about) {
			return nil
		}
	}
	if about.link == 0 {
		data.Links = linksTable(about.Detail.Links, "Links", func(i int) string {
			return at("/resource", "list", about.list.ID, "part", about.part, "row", about.row, "link", i+1)
		}, 60)
		data.history(p, about)
	}
	s.views.resource.Write(w, r, http.StatusOK, s.site, webpage.Page{Title: webpage.Cut(about.URI, maxShown), Data: data,
		Crumbs: []webpage.Link{{Text: "Overview", Href: "/"}, {Text: webpage.Cut(cmp.Or(about.state.Root.Title, about.list.Name), maxCell), Href: at("/list", "list", about.list.ID, "part", max(about.part, 0), "row", about.row/rowsPerPage*rowsPerPage)}}})
	return nil
}

// factsOf returns what is known of a row.
func factsOf(row *spool.Row) []webpage.Fact {
	var facts []webpage.Fact
	add := func(name, value string, code bool) {
		if value != "" && len(facts) < 40 {
			facts = append(facts, webpage.Fact{Name: webpage.Cut(name, 100), Value: webpage.Cut(value, maxShown), Code: code})
		}
	}
	add("change", row.Kind, false)
	add("media type", row.Type, false)
	if row.Length >= 0 {
		length := webpage.Size(row.Length)
		if row.Length >= 1000 {
			length += " (" + webpage.Count(row.Length) + " bytes)"
		}
		add("length", length, false)
	}
	for _, hash := range strings.Fields(row.Detail.Hash) {
		name, digest, _ := strings.Cut(hash, ":")
		add("hash "+name, digest, true)
	}
	add("path", row.Detail.Path, true)
	for _, f := range row.Detail.Facts {
		add(f.Name, f.Value, false)
	}
	return facts
}

// verify reads the resource, and compares it with what is stated.
func (d *resourcePage) verify(ctx context.Context, p *place.Place, about *subject) {
	c, err := contents.Verify(ctx, p, about.ref())
	switch {
	case err != nil:
		d.Check = &webpage.Notice{Kind: "bad", Text: "It cannot be read. " + sentence(err)}
		return
	case len(c.Problems) > 0:
		d.Check = &webpage.Notice{Kind: "bad", Text: "Not as stated: " + strings.Join(c.Problems, "; ") + ".", Remedy: "It may have changed since the document was read."}
	case c.Good:
		d.Check = &webpage.Notice{Kind: "good", Text: "The hash is right: all " + webpage.Count(c.Length) + " bytes are as stated."}
	default:
		d.Check = &webpage.Notice{Kind: "warn", Text: webpage.Count(c.Length) + " bytes were read. No hash is stated that they could be compared with."}
	}
	for _, h := range c.Computed {
		name, digest, _ := strings.Cut(h.String(), ":")
		d.Hashes = append(d.Hashes, webpage.Fact{Name: name + ", computed", Value: digest, Code: true})
	}
}

// findVersions leads to the list of the versions of a resource, and reports whether it
// has answered the request.
func (d *resourcePage) findVersions(ctx context.Context, w http.ResponseWriter, r *http.Request, p *place.Place, about *subject) bool {
	l := p.Made("versions", about.URI, false, contents.Versions(p, about.URI, about.Detail.Links))
	if err := l.Open(ctx); err != nil {
		d.Versions = &webpage.Notice{Kind: "warn", Text: sentence(err)}
		return false
	}
	http.Redirect(w, r, at("/list", "list", l.ID), http.StatusSeeOther)
	return true
}

// maxHistory is how many changes the page of a resource shows.
const maxHistory = 50

// history adds the changes of a resource, in all lists of changes as far as they were
// read, and the patches that they name.
func (d *resourcePage) history(p *place.Place, about *subject) {
	d.History = webpage.Table{Caption: "Changes", Columns: []webpage.Column{{Title: "Change"}, {Title: "When", Short: true}, {Title: "In"}, {Title: "Size", Numeric: true}, {Title: "Hash"}}}
	d.Patches = webpage.Table{Caption: "Patches", Columns: []webpage.Column{{Title: "Of the change at"}, {Title: "Address"}, {Title: "Type"}, {Title: "Size", Numeric: true}}}
	seen := map[*reading.List]bool{}
	for _, l := range p.Lists() {
		st := l.State()
		if st.Root.Of != reading.Changes || seen[l] {
			continue
		}
		seen[l] = true
		if notice := progress(l, &st, about.address("/resource")); !st.Complete() {
			notice.Text = webpage.Cut(st.Root.Title, 100) + ": " + strings.ToLower(notice.Text[:1]) + notice.Text[1:]
			d.Past = append(d.Past, notice)
		}
		for _, row := range l.Forward(reading.Cursor{}, spool.Filter{URI: about.URI}, maxHistory) {
			d.event(l, st.Root.Title, &row)
		}
	}
}

// event adds a change.
func (d *resourcePage) event(l *reading.List, in string, row *reading.Found) {
	if len(d.History.Rows) >= maxHistory {
		return
	}
	size := ""
	if row.Length >= 0 {
		size = webpage.Size(row.Length)
	}
	d.History.Rows = append(d.History.Rows, webpage.Row{Mark: marks[row.Kind], Cells: []webpage.Cell{
		{Text: webpage.Cut(cmp.Or(row.Kind, "changed"), 100), Href: at("/resource", "list", l.ID, "part", row.Part, "row", row.Cursor.Row)}, {Text: webpage.Stamp(row.Time)}, {Text: webpage.Cut(in, 100)}, {Text: size}, {Text: webpage.Cut(row.Detail.Hash, 80), Code: row.Detail.Hash != ""}}})
	for i, link := range row.Detail.Links {
		if !strings.HasSuffix(link.Rel, "/terms/patch") || len(d.Patches.Rows) >= maxHistory {
			continue
		}
		size := ""
		if link.Length > 0 {
			size = webpage.Size(link.Length)
		}
		d.Patches.Rows = append(d.Patches.Rows, webpage.Row{Cells: []webpage.Cell{{Text: webpage.Stamp(row.Time)},
			{Text: webpage.Cut(link.Href, maxCell), Href: at("/resource", "list", l.ID, "part", row.Part, "row", row.Cursor.Row, "link", i+1), Code: true}, {Text: webpage.Cut(link.Type, 100)}, {Text: size}}})
	}
}

// look opens what a row or link names as a document or package, and leads to its page.
func (s *Server) look(w http.ResponseWriter, r *http.Request, p *place.Place) error {
	about, err := subjectOf(r, p)
	if err != nil {
		return err
	}
	l := p.Read(about.URI)
	if about.link == 0 && about.state.Root.Of == reading.Packages || strings.Contains(about.Type, "zip") {
		l = p.Members(about.URI)
	}
	http.Redirect(w, r, at("/list", "list", l.ID), http.StatusSeeOther)
	return nil
}

// content serves the preview of a resource, for a frame or image of its page.
func (s *Server) content(w http.ResponseWriter, r *http.Request, p *place.Place) error {
	about, err := subjectOf(r, p)
	if err != nil {
		return err
	}
	unhurried(w)
	ctx, cancel := context.WithTimeout(r.Context(), contents.ReadTimeout)
	defer cancel()
	body, mediaType, err := contents.Open(ctx, p, about.ref())
	if err != nil {
		preview.Secure(w.Header())
		http.Error(w, sentence(err), http.StatusBadGateway)
		return nil
	}
	defer body.Close()
	if about.Type != "" {
		mediaType = about.Type
	}
	preview.Write(w, body, mediaType)
	return nil
}

// download serves the bytes of a resource or member, to be stored in a file.
func (s *Server) download(w http.ResponseWriter, r *http.Request, p *place.Place) error {
	about, err := subjectOf(r, p)
	if err != nil {
		return err
	}
	body, _, err := contents.Open(r.Context(), p, about.ref())
	if err != nil {
		return err
	}
	defer body.Close()
	header := w.Header()
	preview.Secure(header)
	header.Set("Content-Type", "application/octet-stream")
	header.Set("Content-Disposition", `attachment; filename="`+fileName(cmp.Or(about.ref().Member, about.URI))+`"`)
	copyBody(w, body)
	return nil
}

// fileName returns the last element of an address or path, as a harmless file name.
func fileName(address string) string {
	address, _, _ = strings.Cut(address, "?")
	address = strings.TrimRight(address, "/")
	name := address[strings.LastIndexByte(address, '/')+1:]
	name = strings.Map(func(c rune) rune {
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_' || c == '.' {
			return c
		}
		return '_'
	}, name)
	name = strings.TrimLeft(name[:min(len(name), 100)], ".")
	return cmp.Or(name, "resource-"+strconv.Itoa(len(address)))
}
