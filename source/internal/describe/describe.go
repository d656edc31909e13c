// Package describe makes the entries of resources and changes, with the links
// that the rules of their set add.
package describe

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"

	"lockstep/catalog"
	"lockstep/internal/iri"
	"lockstep/internal/linkrel"
	"lockstep/memento"
	"lockstep/resourcesync"
	"lockstep/source/internal/document"
	"lockstep/source/internal/names"
)

// A Describer makes entries of what the catalog knows of a set's resources,
// with the links the set's rules add. One goroutine uses it at a time; an entry
// it made holds until it makes the next.
type Describer struct {
	rules []linkRule
	below names.Place
	links []resourcesync.Link // those of the entry at hand

	versions memento.Base // where those the set keeps are; empty: it keeps none
}

// Resource makes e the entry of a resource in a Resource List (RS-RL-06) or a
// Resource Dump Manifest (RS-RDM-03). Patches belong to changes (RS-REL-30).
func (d *Describer) Resource(e *resourcesync.Entry, r *catalog.Record) { d.state(e, r, false) }

// Event makes e the entry of a change in a Change List (RS-CHL-04) or a Change
// Dump Manifest (RS-CDM-04). Of a deletion nothing more is said (RS-CHL-08).
func (d *Describer) Event(e *resourcesync.Entry, c *catalog.Change) {
	if c.Change == resourcesync.Deleted {
		*e = resourcesync.Entry{Loc: c.URI}
	} else {
		d.state(e, &c.Record, c.Change == resourcesync.Updated)
	}
	e.Change = c.Change
	e.Datetime = resourcesync.NewDatetime(c.EventTime)
}

func (d *Describer) state(e *resourcesync.Entry, r *catalog.Record, patches bool) {
	e.Loc = r.URI
	e.Lastmod = resourcesync.NewDatetime(r.Lastmod)
	e.Hashes = r.Hashes
	e.Length, e.HasLength = max(r.Length, 0), r.Length >= 0
	e.Type, e.Encoding, e.Foreign = r.Type, r.Encoding, r.Foreign
	e.Links = nil
	if len(r.Links) == 0 && len(d.rules) == 0 {
		return
	}
	d.links = d.links[:0]
	for i := range r.Links {
		if (patches || r.Links[i].Rel != resourcesync.RelPatch) && !iri.UserUnclear(r.Links[i].Href) {
			d.links = append(d.links, r.Links[i])
			l := &d.links[len(d.links)-1]
			l.Href, _ = iri.WithoutUser(l.Href) // no document may show it
		}
	}
	if len(d.rules) > 0 {
		d.follow(r)
	}
	if d.versions != "" {
		d.versionLinks(r.URI)
	}
	e.Links = d.links
}

// follow adds the links of the rules that apply to r. What the record says of
// itself goes before what a rule says of many.
func (d *Describer) follow(r *catalog.Record) {
	path, plain, inside := d.below.Find(r.URI)
	for i := range d.rules {
		rule := &d.rules[i]
		if rule.match != "" && (!inside || !doublestar.MatchUnvalidated(rule.match, plain)) || rule.href.path && !inside {
			continue
		}
		link := rule.link
		link.Href = rule.href.expand(path, r.URI)
		if link.Href == r.URI || d.has(&link) {
			continue
		}
		d.links = append(d.links, link)
	}
}

// has reports whether the entry has l, or another link of its relation where
// there can be only one.
func (d *Describer) has(l *resourcesync.Link) bool {
	single := l.Rel == "canonical" || l.Rel == "memento" // RS-REL-22, RS-REL-51
	return slices.ContainsFunc(d.links, func(o resourcesync.Link) bool {
		return o.Rel == l.Rel && (single || o.Href == l.Href)
	})
}

// A Set is what entries of a set depend on.
type Set struct {
	Name      string
	Path      string // its resources are those at and below this path relative to the base URL
	Elsewhere bool   // they are not below the base URL
	URI       string // what their URIs begin with; default: the base URL and Path
	Links     []LinkRule
	Versions  bool // it keeps versions
}

// A LinkRule gives the entries that it matches a link.
type LinkRule struct {
	Match string // glob on the decoded path below the set's own; default: all
	Href  string // with {path} and {uri}
	Link  resourcesync.Link
}

// Rules are the checked rules of a set.
type Rules struct {
	Below names.Place
	Mark  string // changes when the rules do, or whether versions are kept; empty if there is neither

	links    []linkRule
	versions memento.Base // where those it keeps are; empty: it keeps none
}

// Describer returns what describes the resources of the set.
func (r Rules) Describer() *Describer {
	return &Describer{rules: r.links, below: r.Below, versions: r.versions}
}

// A linkRule is a LinkRule that has been checked.
type linkRule struct {
	match string // glob on the decoded path; empty: all
	href  hrefTemplate
	link  resourcesync.Link
}

// Compile checks the link rules of a set: each must make links that
// documents can hold.
func Compile(set *Set, b names.Base) (Rules, error) {
	rules := Rules{Below: names.Place{Prefix: set.URI}}
	if set.URI == "" {
		rules.Below = names.Place{Prefix: b.Prefix, Path: strings.Trim(set.Path, "/"), Nowhere: set.Elsewhere}
	}
	for i, l := range set.Links {
		rule, err := compileRule(&l)
		if err != nil {
			return rules, fmt.Errorf("set %q, link rule %d (%s %s): %w", set.Name, i+1, l.Link.Rel, l.Href, err)
		}
		for _, o := range rules.links {
			if rule.link.Rel == linkrel.Canonical && o.link.Rel == linkrel.Canonical && o.match == rule.match {
				return rules, fmt.Errorf("set %q, link rule %d: %w", set.Name, i+1, linkrel.ErrSecondCanonical)
			}
		}
		rules.links = append(rules.links, rule)
	}
	if len(set.Links) > 0 {
		sum := sha256.Sum256(fmt.Appendf(nil, "%+v %q %q", set.Links, set.URI, set.Path))
		rules.Mark = hex.EncodeToString(sum[:8])
	}
	if set.Versions {
		rules.versions = memento.Base(b.Prefix)
		rules.Mark += "+versions"
	}
	return rules, nil
}

func compileRule(l *LinkRule) (linkRule, error) {
	rule := linkRule{match: l.Match, link: l.Link}
	if l.Match == "**" {
		rule.match = ""
	}
	if !doublestar.ValidatePattern(rule.match) {
		return rule, fmt.Errorf("the pattern %q is no glob", l.Match)
	}
	var err error
	if rule.href, err = parseTemplate(l.Href); err != nil {
		return rule, err
	}
	rule.link.Href = rule.href.expand("a/b%20c", "https://example.org/a/b%20c")
	if rule.link.Rel == resourcesync.RelPatch {
		return rule, errors.New("a patch belongs to one change, so no rule can add one")
	}
	if err := linkrel.Check(rule.link.Rel); err != nil {
		return rule, err
	}
	if err := document.CheckLinks(rule.link); err != nil {
		return rule, err
	}
	return rule, nil
}

// An hrefTemplate is the Href of a LinkRule. Behind a question mark it takes values
// encoded as those of a query.
type hrefTemplate struct {
	parts []templatePart
	path  bool // it has {path}
}

type templatePart struct {
	text  string // as it is, or
	name  string // "path" or "uri"
	query bool
}

func parseTemplate(s string) (hrefTemplate, error) {
	var t hrefTemplate
	query := false
	for s != "" {
		text, rest, found := strings.Cut(s, "{")
		if text != "" {
			t.parts = append(t.parts, templatePart{text: text})
			query = query || strings.Contains(text, "?")
		}
		if !found {
			break
		}
		name, after, closed := strings.Cut(rest, "}")
		if !closed || name != "path" && name != "uri" {
			return t, fmt.Errorf("the address has {%s: want {path} or {uri}", name)
		}
		t.parts = append(t.parts, templatePart{name: name, query: query})
		t.path = t.path || name == "path"
		s = after
	}
	if len(t.parts) == 0 {
		return t, errors.New("the address is missing")
	}
	return t, nil
}

func (t *hrefTemplate) expand(path, uri string) string {
	var b strings.Builder
	for _, p := range t.parts {
		value := p.text
		switch p.name {
		case "path":
			value = path
		case "uri":
			value = uri
		}
		if p.query {
			value = url.QueryEscape(value)
		}
		b.WriteString(value)
	}
	return b.String()
}

// versionLinks adds to an entry that says which version it is about the links to the
// TimeGate and the TimeMap of its resource (RS-REL-52, RS-REL-53, ME-RS-05).
func (d *Describer) versionLinks(uri string) {
	for i := range d.links {
		l := &d.links[i]
		if l.Rel != "memento" || !strings.HasPrefix(l.Href, string(d.versions)+memento.VersionsPrefix) {
			continue
		}
		d.links = append(d.links,
			resourcesync.Link{Rel: "timegate", Href: d.versions.TimeGate(uri)},
			resourcesync.Link{Rel: "timemap", Href: d.versions.TimeMap(uri), Type: memento.LinkFormat})
		return
	}
}
