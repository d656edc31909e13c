// Package webservers writes the part of the configuration of nginx, Apache or Caddy that
// serves published documents.
package webservers

import (
	"embed"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"text/template"
	"unicode"

	"lockstep/cmd/lockstep/internal/config"
	"lockstep/cmd/lockstep/internal/hubflags"
	"lockstep/cmd/lockstep/internal/mirror"
	"lockstep/cmd/lockstep/internal/term"
	"lockstep/source"
	"lockstep/websub"
)

// A Publication is what a web server is to serve: documents that were published
// with these flags.
type Publication struct {
	BaseURL string
	Out     string
	Config  string // file with the sets; it is only named in errors
	URI     string
	Gzip    bool
	Hubs    []string
}

//go:embed snippets
var snippetFiles embed.FS

// A webServer is one that snippets are written for.
type webServer struct {
	name  string
	quote func(string) string // writes a string that is taken as it stands
	noOut []string            // what a file path in its configuration cannot hold
	noURL []string            // what the path of a URL cannot hold there
}

// webServers lists them. No configuration can hold control characters.
func webServers() []webServer {
	return []webServer{
		// In the values of nginx a dollar sign begins a variable, and nothing takes
		// that from it; in those of Apache one before a brace, and a question mark
		// in what is rewritten begins a query; in those of Caddy the brace.
		{"nginx", quoteBackslash, []string{"$"}, nil},
		{"apache", quoteBackslash, []string{"${", "?"}, []string{"${", "?"}},
		{"caddy", quoteCaddy, []string{"{"}, nil},
	}
}

// Snippet returns the part of a web server's configuration that serves what was
// published. It knows the servers nginx, apache and caddy.
func Snippet(name string, p *Publication, sets []config.Set) (string, error) {
	servers := webServers()
	i := slices.IndexFunc(servers, func(s webServer) bool { return s.name == name })
	if i < 0 {
		return "", term.Usage(fmt.Errorf("snippet: no snippet for %q", name), "choose nginx, apache or caddy")
	}
	v, err := p.view(sets)
	if err != nil {
		return "", err
	}
	return servers[i].write(v)
}

// A snippetView is what the templates see. Paths are decoded.
type snippetView struct {
	source.Layout
	BaseURL  string
	Out      string // absolute, without a slash at the end
	BasePath string // of the base URL, with slashes at both ends
	Gzip     bool
	Sets     []snippetSet
	Topics   []snippetTopic
	Others   []string // sets whose resources this server does not serve, or that their paths cannot identify
	hubs     []string // that are notified of changes
}

// A snippetSet is a set whose resources are those below a path.
type snippetSet struct {
	Name string
	Path string // with slashes at both ends
	Link string // header value that leads to its Capability List (RS-DISC-04)
}

// A snippetTopic is where notifications of a set stand.
type snippetTopic struct {
	Name string // of the set
	File string // below Documents
	Link string // header value that names it and its hubs (WS-D-01)
}

// view prepares the data for the template.
func (o *Publication) view(sets []config.Set) (*snippetView, error) {
	switch {
	case o.Out == "":
		return nil, term.Usage(errors.New("--out is missing"), "say where the documents are: the directory that was given to publish")
	case mirror.IsBucket(o.Out):
		return nil, term.Usage(fmt.Errorf("--out %s: a bucket is served by its own service", o.Out), "publish has stored types and cache headers with every document")
	case strings.Contains(o.Out, "://"):
		return nil, term.Usagef("--out %s: want a directory", o.Out)
	case o.BaseURL == "":
		return nil, term.Usage(errors.New("--base-url is missing"), "give the one that was given to publish, as --base-url https://data.example.org/")
	case len(sets) > 0 && o.URI != "":
		return nil, term.Usage(term.Usagef("--uri: %s has sets of its own", o.Config), "write uri: "+o.URI+" into the set it is for")
	}
	base, err := source.BaseURL(o.BaseURL)
	if err != nil {
		return nil, term.Usage(err, "")
	}
	v := &snippetView{Layout: source.WebLayout(), BaseURL: base, Gzip: o.Gzip}
	if v.Out, err = filepath.Abs(o.Out); err != nil {
		return nil, fmt.Errorf("find %s: %w", o.Out, err)
	}
	v.Out = strings.TrimSuffix(filepath.ToSlash(v.Out), "/")
	origin, path := splitOrigin(base)
	if v.BasePath, err = url.PathUnescape(path); err != nil { // unreachable: BaseURL has checked it
		return nil, term.Usagef("--base-url %s: %w", base, err)
	}
	hubs := hubflags.Hubs{URLs: o.Hubs}
	if err := hubs.Settle(); err != nil {
		return nil, err
	}
	v.hubs = slices.DeleteFunc(slices.Clone(o.Hubs), func(hub string) bool { return hub == hubflags.Off })
	if len(sets) == 0 {
		sets = []config.Set{{URI: o.URI}}
	}
	for i := range sets {
		if err := v.add(&sets[i], origin); err != nil {
			return nil, err
		}
	}
	return v, nil
}

// splitOrigin cuts a canonical URL before its path.
func splitOrigin(u string) (origin, path string) {
	at := strings.Index(u, "://") + len("://")
	at += strings.IndexByte(u[at:], '/')
	return u[:at], u[at:]
}

// add takes a set into the view.
func (v *snippetView) add(c *config.Set, origin string) error {
	name := c.Name
	if name == "" {
		name = source.DefaultSet
	}
	if c.Private() {
		return term.Usage(fmt.Errorf("set %s: readers: static files cannot ask for a credential", name), "use lockstep serve, and have the web server pass requests on to it")
	}
	list, err := source.CapabilityListURI(v.BaseURL, name)
	if err != nil {
		return term.Usage(err, "")
	}
	if len(v.hubs) > 0 {
		topic, err := source.TopicURI(v.BaseURL, name)
		if err != nil {
			return term.Usage(err, "")
		}
		file := strings.TrimPrefix(topic, v.BaseURL+v.Documents)
		v.Topics = append(v.Topics, snippetTopic{name, file, websub.LinkHeader(topic, v.hubs)})
	}
	if _, err := os.Stat(filepath.Join(v.Out, v.Documents, name, "capabilitylist.xml"+v.Variant)); err == nil {
		v.Gzip = true
	}
	uri := c.URI
	switch {
	case uri == "" && c.Origin.Kind != nil && c.Origin.Kind.Away:
		v.Others = append(v.Others, name) // anywhere: each says itself
		return nil
	case uri == "":
		uri = v.BaseURL
	}
	if uri, err = source.BaseURL(uri); err != nil {
		return term.Usagef("set %s: %w", name, err)
	}
	at, path := splitOrigin(uri)
	if at != origin {
		v.Others = append(v.Others, name)
		return nil
	}
	if path, err = url.PathUnescape(path); err != nil { // unreachable: BaseURL has checked it
		return term.Usagef("set %s: uri %s: %w", name, uri, err)
	}
	v.Sets = append(v.Sets, snippetSet{name, path, "<" + list + `>; rel="resourcesync"`})
	return nil
}

// write fills in the server's template.
func (s webServer) write(v *snippetView) (string, error) {
	if bad := cannotHold(v.Out, s.noOut); bad != "" {
		return "", term.Usage(fmt.Errorf("--out %q: the configuration of %s has no way to write a path with %s", v.Out, s.name, bad),
			"give a symbolic link to it that is called otherwise")

	}
	for _, path := range v.paths() {
		if bad := cannotHold(path, s.noURL); bad != "" {
			return "", term.Usagef("the path %q: the configuration of %s has no way to write one with %s", path, s.name, bad)
		}
	}
	t, err := template.New(s.name+".tmpl").Funcs(template.FuncMap{
		"quote":     s.quote,
		"literal":   regexp.QuoteMeta,
		"after":     func(prefix, s string) string { return strings.TrimPrefix(s, prefix) },
		"inc":       func(i int) int { return i + 1 },
		"encoded":   percentEncode,
		"escape":    escapeEach,
		"format":    func(s string) string { return strings.ReplaceAll(s, "%", "%%") },
		"rewrite":   quoteRewrite,
		"caddyAt":   caddyAt,
		"caddyDir":  func(path string) string { return caddyAt(path + "*") },
		"trimSlash": func(path string) string { return strings.TrimSuffix(path, "/") },
	}).ParseFS(snippetFiles, "snippets/"+s.name+".tmpl")
	if err != nil {
		return "", err // unreachable: it parses
	}
	var b strings.Builder
	if err := t.Execute(&b, v); err != nil {
		return "", err // unreachable: the templates are tested
	}
	return strings.TrimSpace(b.String()) + "\n", nil
}

// cannotHold describes what in s a server's configuration cannot express, or
// returns "".
func cannotHold(s string, not []string) string {
	if strings.ContainsFunc(s, unicode.IsControl) {
		return "a control character"
	}
	for _, bad := range not {
		if strings.Contains(s, bad) {
			return bad
		}
	}
	return ""
}

// paths lists the URL paths in a snippet.
func (v *snippetView) paths() []string {
	paths := []string{v.BasePath}
	for _, s := range v.Sets {
		paths = append(paths, s.Path)
	}
	return paths
}

// quoteBackslash quotes s as nginx and Apache read it.
func quoteBackslash(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"`
}

// quoteRewrite writes an argument of mod_rewrite, which reads quotes in a way of
// its own. It must not begin with one.
func quoteRewrite(s string) string { return strings.ReplaceAll(s, " ", `\ `) }

// quoteCaddy quotes s as Caddy reads it: between backticks nothing has a
// meaning; between quotes a backslash has one before a quote only.
func quoteCaddy(s string) string {
	if !strings.Contains(s, "`") {
		return "`" + s + "`"
	}
	return `"` + strings.ReplaceAll(s, `"`, `\"`) + `"`
}

// caddyAt returns a matcher for a path, or if it ends in an asterisk, for those
// that begin so. Caddy sorts by those it calls path, the longest first; they
// have characters that mean something else.
func caddyAt(path string) string {
	prefix, open := strings.CutSuffix(path, "*")
	if !strings.ContainsAny(prefix, "*?[\\%{`") {
		return "path " + quoteCaddy(path)
	}
	pattern := "^" + regexp.QuoteMeta(prefix)
	if !open {
		pattern += "$"
	}
	return "path_regexp " + quoteCaddy(pattern)
}

// percentEncode encodes some characters of s as in a URI.
func percentEncode(s, chars string) string {
	var b strings.Builder
	for i := range len(s) {
		if strings.IndexByte(chars, s[i]) >= 0 {
			fmt.Fprintf(&b, "%%%02X", s[i])
		} else {
			b.WriteByte(s[i])
		}
	}
	return b.String()
}

// escapeEach writes a backslash in front of some characters of s.
func escapeEach(s, chars string) string {
	var b strings.Builder
	for i := range len(s) {
		if strings.IndexByte(chars, s[i]) >= 0 {
			b.WriteByte('\\')
		}
		b.WriteByte(s[i])
	}
	return b.String()
}
