// Package page renders the pages of a Source: the home page, those that answer
// with an error, and the one beside the documents.
package page

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"html/template"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"lockstep/atompmh"
	"lockstep/internal/webpage"
)

//go:embed page.html
var pageHTML string

//go:embed page.css
var pageCSS string

//go:embed set.html
var setHTML string

var pageTemplate = sync.OnceValue(func() *template.Template {
	return template.Must(template.Must(template.New("page").Parse(pageHTML)).Parse(setHTML))
})

// pagePolicy allows our pages their own style and nothing else: no script, no
// frame, no request to anywhere.
var pagePolicy = func() string {
	sum := sha256.Sum256([]byte(pageCSS))
	return "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) +
		"'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
}()

// Mark is near the beginning of each page. A page without it is its owner's.
const Mark = "<!-- Written by lockstep. -->"

// Ours reports whether data is a page that was rendered here.
func Ours(data []byte) bool { return bytes.Contains(data[:min(len(data), 100)], []byte(Mark)) }

// A view is what page.html shows.
type view struct {
	Mark        template.HTML // that we wrote it
	Title       string
	Summary     string
	Message     string // what went wrong; empty on the page beside the documents
	Home        string
	Description string // URI of the Source Description
	Style       template.CSS
	Sets        []setView
	More        int // sets that are not shown
}

// maxSets is how many sets a page shows, and how many its header names: readers
// do not need many more.
const maxSets = 50

// A Set is what pages say of a set.
type Set struct {
	Name           string
	Title          string // for people; empty: Name says it
	Summary        string // likewise, what it contains; may be empty
	CapabilityList string
	ResourceList   string
	ChangeList     string
	Feed           string // empty where there is none
	OAI            string // likewise
	TimeGate       string // the address that leads to a version of a resource, whose URI is appended; empty where no versions are kept
	TimeMap        string // likewise, to the list of all
	About          string
	Path           string // its resources are those at and below this path relative to the base URL
	Elsewhere      bool   // they are not below the base URL
	Private        bool   // pages show it to its readers only
}

// Published is what pages say of the documents of a set; the zero value says
// that it is not known.
type Published struct {
	Known        bool      // Count and Last are known
	Count        int64     // resources
	Last         time.Time // of the last change; zero: there was none
	Held         bool      // it is not published yet
	ResourceDump string    // empty when there is none, or that is not known; likewise
	ChangeDump   string
	Archives     []Archive // likewise
	Resources    string    // how many, in words; empty when not known
	At           string
	Changed      string
}

// An Archive is an archive on a page.
type Archive struct {
	URI string
	Of  string // what it names
}

// A setView is a set on a page.
type setView struct {
	Set
	Published
	Covers  bool // the page itself is where the set's resources are (RS-DISC-04)
	Heading string
}

// view returns the set on the page at rel.
func (set *Set) view(of Published, rel string) setView {
	return setView{*set, of, set.covers(rel), cmp.Or(set.Title, "Set "+set.Name)}
}

// Pages are the pages of a Source.
type Pages struct {
	Home        string                     // URI of the home page
	Description string                     // URI of the Source Description
	Sets        []Set                      // all sets
	Published   func(set string) Published // what is known of the documents of a set
	Title       string                     // of the collection, for people; may be empty
	Summary     string                     // likewise, what it contains
	Explore     string                     // address of pages on which sets are browsed; empty: there are none
}

// title returns that of the home page.
func (p *Pages) title() string { return cmp.Or(p.Title, "A ResourceSync Source") }

// Outside represents addresses that are not below the base URL: no set covers
// them.
const Outside = "/"

// Covers reports whether resources at and below path are where rel is.
func Covers(path string, elsewhere bool, rel string) bool {
	path = strings.Trim(path, "/")
	rest, ok := strings.CutPrefix(rel, path)
	return ok && !elsewhere && (path == "" || rest != "" && rest[0] == '/')
}

func (set *Set) covers(rel string) bool {
	return rel != Outside && Covers(set.Path, set.Elsewhere, rel)
}

// For returns the pages as readers of some private sets see them; without any, as
// everyone does.
func (p *Pages) For(readable []string) *Pages {
	seen := *p
	seen.Sets = nil
	for _, set := range p.Sets {
		if !set.Private || slices.Contains(readable, set.Name) {
			seen.Sets = append(seen.Sets, set)
		}
	}
	return &seen
}

// Header states the links of the page at rel: to the Capability Lists of the
// sets that cover it (RS-DISC-04), and to feeds.
func (p *Pages) Header(header http.Header, rel string) {
	p.links(header, rel)
	Secure(header)
}

// HomeHeader is Header for the home page.
func (p *Pages) HomeHeader(header http.Header, rel string) {
	p.links(header, rel)
	webpage.Secure(header, p.site())
}

func (p *Pages) links(header http.Header, rel string) {
	var links []string
	sets := p.Sets[:min(len(p.Sets), maxSets)]
	for i := range sets {
		if sets[i].covers(rel) {
			links = append(links, "<"+sets[i].CapabilityList+`>; rel="resourcesync"`)
		}
	}
	for i := range sets {
		if sets[i].Feed != "" {
			links = append(links, "<"+sets[i].Feed+`>; rel="alternate"; type="`+atompmh.MediaType+`"`)
		}
	}
	header["Link"] = links
	header.Set("Content-Type", "text/html; charset=utf-8")
}

// Secure allows a page what it needs.
func Secure(header http.Header) {
	header.Set("Content-Security-Policy", pagePolicy)
	header.Set("Referrer-Policy", "no-referrer")
}

// Render returns the page at rel about all sets, with what is published of them.
func (p *Pages) Render(title, message, rel string) ([]byte, error) {
	return p.render(p.Sets, p.Published, title, message, rel)
}

// Hint returns the page at rel about the sets that is beside the documents. It
// says nothing that changes with the resources.
func (p *Pages) Hint(sets []Set, rel string) ([]byte, error) {
	return p.render(sets, func(string) Published { return Published{} }, p.title(), "", rel)
}

func (p *Pages) render(sets []Set, published func(set string) Published, title, message, rel string) ([]byte, error) {
	shown := sets[:min(len(sets), maxSets)]
	v := view{
		Mark: Mark, Title: title, Message: message, Home: p.Home, Description: p.Description, Style: template.CSS(pageCSS),
		More: len(sets) - len(shown),
	}
	if message == "" {
		v.Summary = p.Summary
	}
	for i := range shown {
		v.Sets = append(v.Sets, shown[i].view(published(shown[i].Name), rel))
	}
	var b strings.Builder
	if err := pageTemplate().Execute(&b, v); err != nil {
		return nil, err
	}
	return []byte(b.String()), nil
}
