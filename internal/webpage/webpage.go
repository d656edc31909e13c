// Package webpage has the common look of all pages that Lockstep shows to
// people: a layout with header, navigation, main part and footer, one stylesheet,
// one small script, and templates for tables, charts, facts and commands to copy.
//
// Pages are complete without the script, in light and dark, from 360 pixels to 4K.
// Their policy allows them nothing but these assets: no inline script or style, and
// nothing from other hosts. What strangers wrote reaches a page through
// html/template only.
package webpage

import (
	"bytes"
	_ "embed"
	"html/template"
	"net/http"
	"slices"
	"strconv"
	"sync"
)

//go:embed layout.html
var layoutHTML string

//go:embed parts.html
var partsHTML string

// A Site is what the pages of one program or Source have in common.
type Site struct {
	Name   string // in the header and the title of each page
	Home   string // the address that the name in the header leads to
	Assets string // the path below which Assets is served, with a slash at its end
	Nav    []Link // the main navigation
	Footer string // a sentence at the end of each page
	Inline bool   // pages contain the stylesheet and the script, and load nothing: Assets is not needed
	Frames bool   // pages contain frames from their own origin
	Forms  bool   // pages contain forms, sent to their own origin
}

// A Link leads from a page to an address.
type Link struct {
	Text    string
	Href    string
	Current bool // it leads to the page that contains it
}

// A Page is the content of one page.
type Page struct {
	Title  string // the heading, and the beginning of the title
	Lead   string // one sentence below the heading; may be empty
	Crumbs []Link // the way to this page, from the outermost; may be empty
	Nav    string // the Href of the link in the main navigation that this page belongs to
	Links  []HeadLink
	Events string // the address of server-sent events; each event renews the elements with data-live. May be empty
	Data   any    // what the view's template shows
}

// A HeadLink is what programs read of a page: a link in its head.
type HeadLink struct {
	Rel, Href, Title string
	Feed             bool // it leads to an Atom feed
}

// A View is one kind of page.
type View struct{ template func() *template.Template }

// Parse returns a View with main, a template whose result becomes the main part of the
// page. It can use the functions and templates of this package, and those that
// further templates define. They are parsed when the View is first used, which panics if
// one, which is part of the program, cannot be parsed.
func Parse(main string, further ...string) *View {
	return &View{sync.OnceValue(func() *template.Template {
		t := template.Must(template.New("layout").Funcs(functions()).Parse(layoutHTML))
		template.Must(t.Parse(partsHTML))
		for _, text := range further {
			template.Must(t.Parse(text))
		}
		template.Must(t.New("main").Parse(main))
		return t
	})}
}

// A shown is what layout.html shows.
type shown struct {
	Page
	Site       *Site
	Style      string
	Script     string
	Icon       string
	Navigation []Link

	StyleText  template.CSS // of a page that contains it
	ScriptText template.JS
}

// Render returns a page of a site.
func (v *View) Render(site *Site, p Page) ([]byte, error) {
	s := shown{Page: p, Site: site, Navigation: slices.Clone(site.Nav)}
	s.Style, s.Script, s.Icon = site.Assets+style.name, site.Assets+script.name, site.Assets+icon.name
	if site.Inline {
		s.StyleText, s.ScriptText = template.CSS(styleCSS), template.JS(pageJS)
	}
	for i := range s.Navigation {
		s.Navigation[i].Current = s.Navigation[i].Current || s.Navigation[i].Href == p.Nav
	}
	var b bytes.Buffer
	if err := v.template().Execute(&b, s); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// Write answers a request with a page of a site. It sets all headers except
// Cache-Control, which is no-store unless the caller has set it.
func (v *View) Write(w http.ResponseWriter, r *http.Request, status int, site *Site, p Page) {
	body, err := v.Render(site, p)
	if err != nil {
		http.Error(w, "the page cannot be shown", http.StatusInternalServerError) // unreachable: tests render all views
		return
	}
	header := w.Header()
	header.Set("Content-Type", "text/html; charset=utf-8")
	Secure(header, site)
	if header.Get("Cache-Control") == "" {
		header.Set("Cache-Control", "no-store")
	}
	header.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	if r.Method != http.MethodHead {
		_, _ = w.Write(body) // the client may have disconnected
	}
}

// Secure sets the headers that restrict what a page of a site may do: it loads its
// stylesheet, its script and images of its own origin, and nothing else.
func Secure(header http.Header, site *Site) {
	policy := "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; frame-ancestors 'none'"
	if site.Inline {
		policy = "default-src 'none'; style-src " + style.source() + "; script-src " + script.source() + "; base-uri 'none'; frame-ancestors 'none'"
	}
	policy += "; frame-src " + selfIf(site.Frames) + "; form-action " + selfIf(site.Forms)
	header.Set("Content-Security-Policy", policy)
	header.Set("Referrer-Policy", "no-referrer")
	if site.Forms {
		header.Set("Referrer-Policy", "same-origin") // otherwise the Origin of a form is sent as null
	}
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Cross-Origin-Opener-Policy", "same-origin")
	header.Set("Cross-Origin-Resource-Policy", "same-origin")
}

func selfIf(so bool) string {
	if so {
		return "'self'"
	}
	return "'none'"
}
