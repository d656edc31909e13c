// Package outline describes a place without a browser: as a tree for a terminal, and as
// JSON.
package outline

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"lockstep/cmd/lockstep/internal/explorer/figures"
	"lockstep/cmd/lockstep/internal/explorer/place"
	"lockstep/cmd/lockstep/internal/explorer/reading"
	"lockstep/cmd/lockstep/internal/explorer/spool"
	"lockstep/internal/fetch/shown"
	"lockstep/internal/webpage"
)

// A Place is what is at an address. Its JSON is what explore --json prints.
type Place struct {
	Address string       `json:"address"`
	Kind    string       `json:"kind"` // source, sitemap, feed, repository, package, mirror or document
	Title   string       `json:"title,omitempty"`
	Source  string       `json:"source,omitempty"` // of a mirror
	Facts   []spool.Fact `json:"facts,omitempty"`
	Route   []string     `json:"route,omitempty"` // how it was found
	Sets    []Set        `json:"sets"`
	Error   string       `json:"error,omitempty"` // why it could not be read as far as was asked for
}

// A Set is a set of resources.
type Set struct {
	Name  string       `json:"name"`
	URI   string       `json:"uri,omitempty"`
	Lists []List       `json:"lists"`
	Links []spool.Link `json:"links,omitempty"`
	Topic string       `json:"topic,omitempty"`
	Error string       `json:"error,omitempty"`
}

// A List is a document, with all its parts.
type List struct {
	Name      string          `json:"name"`
	Title     string          `json:"title,omitempty"`
	URI       string          `json:"uri"`
	Of        string          `json:"of,omitempty"` // what its entries are
	Parts     int             `json:"parts"`
	PartsRead int             `json:"parts_read"`
	More      bool            `json:"more"` // further parts exist, and how many is not known
	Entries   int64           `json:"entries"`
	Bytes     int64           `json:"bytes"`
	Unsized   int64           `json:"without_length"`
	Oldest    time.Time       `json:"oldest,omitzero"`
	Newest    time.Time       `json:"newest,omitzero"`
	Types     []figures.Count `json:"types,omitempty"`
	Kinds     []figures.Count `json:"changes,omitempty"`
	Sizes     []figures.Count `json:"sizes,omitempty"`
	Days      []figures.Count `json:"days,omitempty"` // or months or years, as their names say
	Facts     []spool.Fact    `json:"facts,omitempty"`
	Links     []spool.Link    `json:"links,omitempty"`
	Warnings  []string        `json:"warnings,omitempty"`
	Rows      []Row           `json:"rows,omitempty"`
	Error     string          `json:"error,omitempty"`
}

// A Row is an entry of a list.
type Row struct {
	URI    string       `json:"uri"`
	Kind   string       `json:"change,omitempty"`
	Type   string       `json:"type,omitempty"`
	Time   time.Time    `json:"time,omitzero"`
	Length *int64       `json:"length,omitempty"`
	Hash   string       `json:"hash,omitempty"`
	Path   string       `json:"path,omitempty"`
	Facts  []spool.Fact `json:"facts,omitempty"`
	Links  []spool.Link `json:"links,omitempty"`
}

// Options say how much is read.
type Options struct {
	All     bool // all parts of all lists
	Entries int  // how many entries of each list are part of the result
}

// concurrent is how many lists are read at a time.
const concurrent = 8

// maxTypes is how many media types are listed.
const maxTypes = 12

// maxDays is how many days, months or years are listed.
const maxDays = 92

// Of reads the lists of a place and describes it. What cannot be read is part of the
// description; the error is that of ctx.
func Of(ctx context.Context, p *place.Place, o Options) (*Place, error) {
	var wg sync.WaitGroup
	slots := make(chan struct{}, concurrent)
	for _, l := range p.Lists() {
		wg.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			if o.All {
				_ = l.Wait(ctx) // the state has the error
				return
			}
			part := 0
			if l.Name == "changelist" {
				part = -1
			}
			_ = l.Load(ctx, part)
		})
	}
	wg.Wait()
	out := &Place{Address: p.Address, Kind: p.Kind, Title: p.Title, Source: p.Source, Facts: p.Facts, Sets: []Set{}}
	for _, step := range p.Way {
		out.Route = append(out.Route, step.String())
	}
	for _, s := range p.Sets {
		set := Set{Name: s.Name, URI: s.URI, Links: s.Links, Topic: s.Topic, Lists: []List{}}
		if s.Err != nil {
			set.Error = shown.WithoutSecrets(s.Err.Error())
		}
		for _, l := range s.Lists {
			set.Lists = append(set.Lists, listOf(l, o.Entries))
		}
		out.Sets = append(out.Sets, set)
	}
	return out, context.Cause(ctx)
}

func listOf(l *reading.List, entries int) List {
	st := l.State()
	sum := &st.Summary
	out := List{
		Name: l.Name, Title: st.Root.Title, URI: l.URI, Of: string(st.Root.Of), Parts: st.Parts, PartsRead: st.Read, More: st.More, Entries: st.Rows, Bytes: sum.Bytes, Unsized: sum.Unsized,
		Oldest: sum.Oldest, Newest: sum.Newest, Sizes: sum.Classes(), Facts: st.Root.Facts, Links: st.Root.Links, Warnings: st.Root.Warnings,
	}
	out.Types, _ = figures.Ordered(sum.Types, maxTypes)
	out.Kinds, _ = figures.Ordered(sum.Kinds, maxTypes)
	spans, _ := sum.Daily(maxDays)
	for _, s := range spans {
		if s.N > 0 {
			out.Days = append(out.Days, figures.Count{Name: s.Name, N: s.N})
		}
	}
	if st.Err != nil {
		out.Error = shown.WithoutSecrets(st.Err.Error())
	}
	if entries > 0 {
		for _, r := range l.Forward(reading.Cursor{}, spool.Filter{}, entries) {
			row := Row{URI: r.URI, Kind: r.Kind, Type: r.Type, Time: r.Time, Hash: r.Detail.Hash, Path: r.Detail.Path, Facts: r.Detail.Facts, Links: r.Detail.Links}
			if r.Length >= 0 {
				row.Length = &r.Length
			}
			out.Rows = append(out.Rows, row)
		}
	}
	return out
}

// progress says how far a list was read.
func (l *List) progress() string {
	switch {
	case l.Error != "" && l.PartsRead == 0:
		return l.Error
	case l.More && l.PartsRead == 1:
		return "1 part read, and more follow"
	case l.More:
		return fmt.Sprintf("%d parts read, and more follow", l.PartsRead)
	case l.Parts > 1 || l.PartsRead < l.Parts:
		return fmt.Sprintf("%d of %d parts read", l.PartsRead, l.Parts)
	}
	return ""
}

// A node is a line of a tree with those below it.
type node struct {
	text  string
	below []*node
}

func (n *node) add(text string) *node {
	child := &node{text: text}
	n.below = append(n.below, child)
	return child
}

// Print writes the tree of a place.
func Print(w io.Writer, p *Place) error {
	head := p.Address + "  " + map[string]string{
		place.Source: "ResourceSync Source", place.Sitemap: "Sitemap", place.Feed: "Atom-PMH feed", place.Repository: "OAI-PMH repository",
		place.Package: "package", place.Mirror: "mirror", place.Document: "document",
	}[p.Kind]
	if p.Title != "" {
		head += " “" + p.Title + "”"
	}
	root := &node{text: head}
	for _, f := range p.Facts {
		root.add(f.Name + ": " + f.Value)
	}
	for i := range p.Sets {
		if p.Kind == place.Document || p.Kind == place.Package { // of a set whose name is not known
			p.Sets[i].addLists(root)
			continue
		}
		p.Sets[i].addTo(root)
	}
	return root.print(w, "", "")
}

func (s *Set) addTo(root *node) {
	n := root.add(strings.TrimSpace("set " + s.Name + "  " + s.URI))
	if s.Error != "" {
		n.add("cannot be read: " + s.Error)
	}
	s.addLists(n)
	if s.Topic != "" {
		n.add("notifications  " + s.Topic)
	}
	for _, l := range s.Links {
		n.add(l.Rel + "  " + l.Href)
	}
}

func (s *Set) addLists(n *node) {
	for i := range s.Lists {
		s.Lists[i].addTo(n)
	}
}

func (l *List) addTo(set *node) {
	title := l.Title
	if title == "" {
		title = l.Name
	}
	n := set.add(title + "  " + l.URI)
	parts := []string{}
	add := func(text string) {
		if text != "" {
			parts = append(parts, text)
		}
	}
	if l.PartsRead > 0 {
		unit := " entries"
		if l.Entries == 1 {
			unit = " entry"
		}
		add(webpage.Count(l.Entries) + unit)
		if l.Unsized < l.Entries {
			add(webpage.Size(l.Bytes))
		}
	}
	add(l.progress())
	for _, f := range l.Facts {
		if f.Name == "at" || f.Name == "from" || f.Name == "until" || f.Name == "updated" || f.Name == "title" {
			add(f.Name + " " + f.Value)
		}
	}
	n.add(strings.Join(parts, ", "))
	l.addFigures(n)
	for _, link := range l.Links {
		if link.Rel != "up" {
			n.add(link.Rel + "  " + link.Href)
		}
	}
	if len(l.Rows) > 0 {
		rows := n.add("entries")
		for i := range l.Rows {
			rows.add(l.Rows[i].text())
		}
	}
	if l.Error != "" && l.PartsRead > 0 {
		n.add("error: " + l.Error)
	}
}

func (l *List) addFigures(n *node) {
	if l.Entries == 0 {
		return
	}
	if len(l.Types) > 1 || len(l.Types) == 1 && l.Types[0].Name != "" {
		n.add("types: " + counts(l.Types))
	}
	if len(l.Kinds) > 0 {
		n.add("changes: " + counts(l.Kinds))
	}
	if !l.Newest.IsZero() {
		n.add("from " + webpage.Stamp(l.Oldest) + " to " + webpage.Stamp(l.Newest))
	}
}

func (r *Row) text() string {
	text := r.URI
	if r.Kind != "" {
		text = r.Kind + "  " + text
	}
	if r.Length != nil {
		text += "  " + webpage.Size(*r.Length)
	}
	if !r.Time.IsZero() {
		text += "  " + webpage.Stamp(r.Time)
	}
	return text
}

func counts(all []figures.Count) string {
	parts := make([]string, len(all))
	for i, c := range all {
		name := c.Name
		if name == "" {
			name = "not stated"
		}
		parts[i] = name + " " + webpage.Count(c.N)
	}
	return strings.Join(parts, ", ")
}

// print writes the tree below n.
func (n *node) print(w io.Writer, first, rest string) error {
	if _, err := fmt.Fprintf(w, "%s%s\n", first, strings.ReplaceAll(n.text, "\n", " ")); err != nil {
		return err
	}
	for i, child := range n.below {
		branch, below := "├─ ", "│  "
		if i == len(n.below)-1 {
			branch, below = "└─ ", "   "
		}
		if err := child.print(w, rest+branch, rest+below); err != nil {
			return err
		}
	}
	return nil
}
