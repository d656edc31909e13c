package destination

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"lockstep/blob"
)

// How a URI becomes a file name
//
// A name says which URI it stands for: decoding it gives the URI back, byte
// for byte, so two URIs never meet in one file. Where a URI is one of those
// our own Source writes for a file, the name is the name of that file.
//
// The URI is cut behind the longest prefix that has a directory of its own
// (the Source's origin has DEST itself). What follows is cut at the slashes
// before any "?" or "#"; each segment becomes one component:
//
//	x       a byte that stands in URIs as it is: itself
//	%XX     a byte that needs it, in upper case: the byte
//	%~XX    any other escape, as it was written: %2f, %41, %2F, %00
//	%~=XX   a byte that stands in the URI, but cannot in a name: ?, a space
//	%~@     an empty segment
//	%~,     the URI does not go on with a slash (at the very beginning)
//	%~;     between scheme and authority, in _other, where not the Source's scheme
//	%~_     the segment goes on in the next component (at the end)
//	%~+     a directory beside a file of its name (at the end)
//	%~-     a file beside a directory of its name (at the end)
//	%~!     letters are spelled exactly, see below (at the end, before these)
//
// "%~" occurs in no other sense: a "%" that a "~" follows stays escaped.
//
// The portable flavour serves file systems that take "a" and "A", or two
// spellings of "é", for one name, or refuse some characters. It escapes more,
// and has a second form for when the first one's name is taken: there capital
// letters and all beyond ASCII are escaped, so that two such names differ
// however the file system compares them.

// Names at the root of DEST that no URI of the root's prefix gets. The name of the
// state's directory no URI gets anywhere.
const (
	stateDir = ".lockstep"
	otherDir = "_other"
)

const (
	// maxName is what file systems take.
	maxName = 255

	// maxComponent is the length at which a segment that is longer than
	// maxName, or has to be marked, goes on in the next component. Escaping its
	// ends and the marks add up to 14 bytes.
	maxComponent = 240
)

var (
	// ErrURI reports a string that is not an absolute URI with an authority,
	// or longer than 16 KiB, or of more than 256 segments.
	ErrURI = errors.New("not an absolute URI")

	// ErrPath reports a file name that stands for no URI.
	ErrPath = errors.New("not a name that stands for a URI")
)

// A TakenError reports that something that is not the resource's stands in
// every place it could have; Path is the first of them.
type TakenError struct{ URI, Path string }

func (e *TakenError) Error() string {
	return fmt.Sprintf("place %s: %q is in the way", e.URI, e.Path)
}

// PathOptions configures [Paths].
type PathOptions struct {
	// Origin is the Source's scheme and authority, as in its URIs:
	// "https://example.org:8080". Required.
	Origin string

	// Portable selects the flavour, see [ProbePortable]. A mirror may change
	// it: names of both are understood.
	Portable bool

	// Map gives prefixes of URIs a directory of their own.
	Map []PathMap
}

// A PathMap puts the URIs that begin with Prefix below Dir, a slash-separated
// path below DEST, or "." for DEST itself, where the Source's origin then no
// longer has its place and goes below _other like any other.
type PathMap struct {
	Prefix string `json:"prefix"`
	Dir    string `json:"dir"`

	// Value says that what follows is one value of a query string, and names the
	// file together with Suffix. URIs in which it is not escaped as one lie
	// elsewhere.
	Value  bool   `json:"value,omitempty"`
	Suffix string `json:"suffix,omitempty"` // without slashes; only with Value
}

// Paths knows which file a URI has, and which URI a file.
type Paths struct {
	scheme   string
	portable bool
	bases    []base // longest prefix first
}

// A base is a prefix of URIs and where they lie.
type base struct {
	prefix string
	dir    []string // components; none for DEST itself
	value  bool
	suffix string
}

// direct reports whether the first segment follows the prefix at once, and not
// behind a slash.
func (b base) direct() bool { return strings.HasSuffix(b.prefix, "/") || b.query() }

// query reports whether slashes behind the prefix separate nothing.
func (b base) query() bool { return strings.ContainsAny(b.prefix, "?#") }

// NewPaths checks the options.
func NewPaths(o PathOptions) (*Paths, error) {
	scheme, rest, ok := cutScheme(o.Origin)
	if !ok || strings.ContainsAny(rest, "/?#") {
		return nil, fmt.Errorf("origin %q: %w", o.Origin, ErrURI)
	}
	p := &Paths{scheme: scheme, portable: o.Portable}
	root := base{prefix: o.Origin}
	seen := map[string]bool{}
	for _, m := range o.Map {
		b, err := newBase(m)
		if err != nil {
			return nil, fmt.Errorf("map %q to %q: %w", m.Prefix, m.Dir, err)
		}
		met := seen[b.prefix] || len(b.dir) == 0 && seen["."]
		for _, c := range p.bases {
			met = met || within(c.dir, b.dir) || within(b.dir, c.dir)
		}
		if met {
			return nil, fmt.Errorf("map %q to %q: another map has this prefix or directory", m.Prefix, m.Dir)
		}
		seen[b.prefix] = true
		if len(b.dir) == 0 {
			root, seen["."] = b, true
			continue
		}
		p.bases = append(p.bases, b)
	}
	if root.prefix != o.Origin || !seen[o.Origin] { // else all of the origin lies elsewhere
		p.bases = append(p.bases, root)
	}
	slices.SortFunc(p.bases, func(a, b base) int { return len(b.prefix) - len(a.prefix) })
	return p, nil
}

func newBase(m PathMap) (base, error) {
	if _, _, ok := cutScheme(m.Prefix); !ok {
		return base{}, ErrURI
	}
	if strings.Contains(m.Suffix, "/") || m.Suffix != "" && !m.Value {
		return base{}, errors.New("not a suffix of names")
	}
	if m.Dir == "." {
		return base{prefix: m.Prefix, value: m.Value, suffix: m.Suffix}, nil
	}
	dir := strings.TrimSuffix(m.Dir, "/")
	if !blob.ValidName(dir) || strings.Contains(dir, "%~") {
		return base{}, errors.New("not a directory below DEST")
	}
	comps := strings.Split(dir, "/")
	if fold(comps[0]) == otherDir || slices.ContainsFunc(comps, isStateDir) {
		return base{}, errors.New("this directory has its own use")
	}
	for _, c := range comps {
		if len(c) > maxComponent {
			return base{}, errors.New("name too long")
		}
	}
	return base{prefix: m.Prefix, dir: comps, value: m.Value, suffix: m.Suffix}, nil
}

// within reports whether path lies at or below dir, on whatever file system.
// Nothing lies below DEST itself in this sense: it has rules of its own.
func within(path, dir []string) bool {
	if len(dir) == 0 || len(path) < len(dir) {
		return false
	}
	for i, c := range dir {
		if fold(path[i]) != fold(c) {
			return false
		}
	}
	return true
}

// cutScheme cuts an absolute URI in its scheme and what follows "://".
func cutScheme(uri string) (scheme, rest string, ok bool) {
	scheme, rest, ok = strings.Cut(uri, "://")
	for i := range len(scheme) {
		c := scheme[i] | 0x20
		if !(c >= 'a' && c <= 'z' || i > 0 && strings.IndexByte("0123456789+-.", scheme[i]) >= 0) {
			return "", "", false
		}
	}
	return scheme, rest, ok && scheme != ""
}

// Path returns the file of a URI, relative to DEST and slash-separated, if
// nothing stands in the way there. [Paths.Place] looks.
func (p *Paths) Path(uri string) (string, error) {
	comps, err := p.components(uri, p.forms()[0])
	if err != nil {
		return "", pathError(uri, err)
	}
	return join(comps), nil
}

// pathError names the URI, or its beginning.
func pathError(uri string, err error) error {
	if len(uri) > maxURI {
		uri = uri[:200] + "…"
	}
	return fmt.Errorf("path of %q: %w", uri, err)
}

// A Standing is what has a name.
type Standing int

const (
	Vacant   Standing = iota // nothing, and nothing below it
	Folder                   // a directory, spelled this way
	Occupied                 // anything else: a file, a link, a directory spelled otherwise
)

// Place returns the file a URI can have beside what there is, which at tells:
// files and directories on disk as well as those promised to other URIs. What
// a URI has once been given is to be remembered, not asked for again. When no
// name is free the error is a [TakenError].
func (p *Paths) Place(uri string, at func(path string) (Standing, error)) (string, error) {
	first := ""
	for _, f := range p.forms() {
		comps, err := p.components(uri, f)
		if err != nil {
			return "", pathError(uri, err)
		}
		path, err := place(comps, at)
		if path != "" || err != nil {
			return path, err
		}
		if first == "" {
			first = join(comps)
		}
	}
	return "", &TakenError{URI: uri, Path: first}
}

// forms are the spellings this mirror may use, the first choice first.
func (p *Paths) forms() []form {
	if p.portable {
		return []form{{portable: true, long: true}, {portable: true}, {portable: true, exact: true}}
	}
	return []form{{long: true}, {}}
}

// place marks components as needed, and returns "" if that does not help.
func place(comps []component, at func(string) (Standing, error)) (string, error) {
	path, last, vacant := "", len(comps)-1, false
	for i, c := range comps {
		name, mark, wanted := c.name, "%~+", Folder
		if i == last {
			mark, wanted = "%~-", Vacant
		}
		if vacant && i < last {
			path += name + "/"
			continue
		}
		s, err := at(path + name)
		if err == nil && s != Vacant && s != wanted && !c.cut && (i < last || s == Folder) && len(name+mark) <= maxName {
			name += mark
			s, err = at(path + name)
		}
		if err != nil {
			return "", err
		}
		if s != Vacant && s != wanted {
			return "", nil
		}
		vacant = s == Vacant
		if path += name; i < last {
			path += "/"
		}
	}
	return path, nil
}

// URI returns the URI whose file, in either flavour, has this path, or fails
// with ErrPath.
func (p *Paths) URI(path string) (string, error) {
	fail := fmt.Errorf("%w: %q", ErrPath, path)
	if !blob.ValidName(path) {
		return "", fail
	}
	names := strings.Split(path, "/")
	exact := false
	for i, name := range names {
		if i < len(names)-1 {
			name = strings.TrimSuffix(name, "%~+")
		} else {
			name = strings.TrimSuffix(name, "%~-")
		}
		exact = exact || strings.Contains(name, "%~!")
		names[i] = name
	}
	uri, ok := p.decode(names)
	if !ok {
		return "", fail
	}
	forms := []form{{long: true}, {}, {portable: true, long: true}, {portable: true}}
	if exact {
		forms = []form{{portable: true, exact: true}}
	}
	if inStateDir(path) {
		for i := range forms {
			forms[i].earlier = true
		}
	}
	for _, f := range forms {
		comps, err := p.components(uri, f)
		if err == nil && slices.EqualFunc(comps, names, func(c component, name string) bool { return c.name == name }) {
			return uri, nil
		}
	}
	return "", fail
}
