package filename

import (
	"errors"
	"fmt"
	"slices"
	"sort"
	"strings"

	"lockstep/blob"
)

// How a URI becomes a file name
//
// Decoding a name returns its URI, byte for byte, so two URIs never share a
// file. Where our own Source would publish a file under the URI, the name is the
// name of that file.
//
// The URI is cut after the longest prefix that has a directory of its own
// (the Source's origin has DEST itself). The rest is split at the slashes
// before any "?" or "#"; each segment becomes one component:
//
//	x       a byte that URIs contain unescaped: itself
//	%XX     a byte that has to be escaped, in upper case: the byte
//	%~XX    any other escape, as it was written: %2f, %41, %2F, %00
//	%~=XX   an unescaped byte of the URI that a name cannot contain: ?, a space
//	%~@     an empty segment
//	%~,     the URI does not continue with a slash (at the very beginning)
//	%~;     between scheme and authority, in _other, if it is not the Source's scheme
//	%~_     the segment continues in the next component (at the end)
//	%~+     a directory whose name a file has already (at the end)
//	%~-     a file whose name a directory has already (at the end)
//	%~!     letters are spelled exactly, see below (at the end, before these)
//
// "%~" has no other meaning: a "%" before a "~" remains escaped.
//
// Portable names are for file systems on which "a" and "A", or two spellings of
// "é", are the same name, or which refuse some characters. They escape more
// characters, and have a second form for when the first name is taken: it also
// escapes capital letters and all non-ASCII characters, so that two such names
// differ however the file system compares them.

// Names at the root of DEST that no URI of the root's prefix gets. No URI gets
// the name of the state directory at any level.
const (
	StateDir = ".lockstep"
	otherDir = "_other"
)

const (
	// maxName is the longest name that file systems accept, in bytes.
	maxName = 255

	// maxComponent is the length at which a segment that is longer than
	// maxName, or has to be marked, continues in the next component. Escaping its
	// ends and the marks add up to 14 bytes.
	maxComponent = 240
)

var (
	// ErrURI reports a string that is not an absolute URI with an authority,
	// or longer than 16 KiB, or of more than 256 segments.
	ErrURI = errors.New("not an absolute URI")

	// ErrPath reports a file name that no URI has.
	ErrPath = errors.New("not a name that belongs to a URI")
)

// A TakenError reports that every path the resource could have is taken by
// something else; Path is the first of them.
type TakenError struct{ URI, Path string }

func (e *TakenError) Error() string {
	return fmt.Sprintf("place %s: %q is in the way", e.URI, e.Path)
}

// Options configures a [Mapping].
type Options struct {
	// Origin is the Source's scheme and authority, as in its URIs:
	// "https://example.org:8080". Required.
	Origin string

	// Portable selects portable names, see [ProbePortable]. A mirror may change
	// it: names of either kind can be decoded.
	Portable bool

	// Map gives prefixes of URIs a directory of their own.
	Map []Map
}

// A Map puts the URIs that begin with Prefix below Dir, a slash-separated
// path below DEST, or "." for DEST itself; the files of the Source's origin are
// then below _other, like those of any other origin.
type Map struct {
	Prefix string `json:"prefix"`
	Dir    string `json:"dir"`

	// Value is set if the rest of the URI is one value of a query string: the
	// file's name is the value and Suffix. URIs whose rest is not escaped like a
	// value are not below Dir.
	Value  bool   `json:"value,omitempty"`
	Suffix string `json:"suffix,omitempty"` // without slashes; only with Value
}

// A Mapping converts URIs to paths of files, and paths to URIs.
type Mapping struct {
	scheme   string
	portable bool
	bases    []base // longest prefix first
}

// A base is a prefix of URIs and the directory of their files.
type base struct {
	prefix string
	dir    []string // components; none for DEST itself
	value  bool
	suffix string
}

// direct reports whether the first segment follows the prefix without a slash
// between them.
func (b base) direct() bool { return strings.HasSuffix(b.prefix, "/") || b.query() }

// query reports whether slashes after the prefix separate no segments.
func (b base) query() bool { return strings.ContainsAny(b.prefix, "?#") }

// New checks the options and returns their Mapping.
func New(o Options) (*Mapping, error) {
	scheme, rest, ok := CutScheme(o.Origin)
	if !ok || strings.ContainsAny(rest, "/?#") {
		return nil, fmt.Errorf("origin %q: %w", o.Origin, ErrURI)
	}
	p := &Mapping{scheme: scheme, portable: o.Portable}
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
	if root.prefix != o.Origin || !seen[o.Origin] { // else the whole origin has another directory
		p.bases = append(p.bases, root)
	}
	sort.SliceStable(p.bases, func(i, j int) bool { return len(p.bases[i].prefix) > len(p.bases[j].prefix) })
	return p, nil
}

func newBase(m Map) (base, error) {
	if _, _, ok := CutScheme(m.Prefix); !ok {
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

// within reports whether path is dir or is below dir on some file system. It is
// false if dir is DEST itself, which has rules of its own.
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

// CutScheme splits an absolute URI into its scheme and the rest after "://".
func CutScheme(uri string) (scheme, rest string, ok bool) {
	scheme, rest, ok = strings.Cut(uri, "://")
	for i := range len(scheme) {
		c := scheme[i] | 0x20
		if !(c >= 'a' && c <= 'z' || i > 0 && strings.IndexByte("0123456789+-.", scheme[i]) >= 0) {
			return "", "", false
		}
	}
	return scheme, rest, ok && scheme != ""
}

// Path returns the path of a URI's file, relative to DEST and slash-separated, if
// nothing else has that path. [Mapping.Place] checks.
func (p *Mapping) Path(uri string) (string, error) {
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

// An Occupancy says what a name is in use for.
type Occupancy int

const (
	Vacant    Occupancy = iota // nothing, neither at the name nor below it
	Directory                  // a directory with exactly this name
	Occupied                   // anything else: a file, a link, a directory whose name is spelled differently
)

// Place returns a path that is free for the file of a URI. At reports what a path
// is in use for: files and directories on disk as well as those reserved for
// other URIs. Callers store the path, because a later call may return a different
// one. If no path is free the error is a [TakenError].
func (p *Mapping) Place(uri string, at func(path string) (Occupancy, error)) (string, error) {
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

// forms returns the spellings this mirror may use, the preferred one first.
func (p *Mapping) forms() []form {
	if p.portable {
		return []form{{portable: true, long: true}, {portable: true}, {portable: true, exact: true}}
	}
	return []form{{long: true}, {}}
}

// place marks components where necessary, and returns "" if the path is taken
// even so.
func place(comps []component, at func(string) (Occupancy, error)) (string, error) {
	path, end, last, vacant := join(comps), 0, len(comps)-1, false
	for i, c := range comps {
		mark, wanted := "%~+", Directory
		if i == last {
			mark, wanted = "%~-", Vacant
		}
		if i > 0 {
			end++ // the slash
		}
		if end += len(c.name); vacant && i < last {
			continue
		}
		s, err := at(path[:end])
		if err == nil && s != Vacant && s != wanted && !c.cut && (i < last || s == Directory) && len(c.name+mark) <= maxName {
			path = path[:end] + mark + path[end:]
			end += len(mark)
			s, err = at(path[:end])
		}
		if err != nil {
			return "", err
		}
		if s != Vacant && s != wanted {
			return "", nil
		}
		vacant = s == Vacant
	}
	return path, nil
}

// URI returns the URI whose file has this path, portable or not, or fails with
// ErrPath.
func (p *Mapping) URI(path string) (string, error) {
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
	if InStateDir(path) {
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

// Undecoded returns the file name of uri in programs that use what follows the
// prefix as a path without decoding it, or "" if no file can have that name here.
func (p *Mapping) Undecoded(uri string) string {
	for _, b := range p.bases {
		rest, ok := b.cut(uri)
		if !ok {
			continue
		}
		path := strings.Join(append(b.dir[:len(b.dir):len(b.dir)], strings.TrimPrefix(rest, "/")), "/")
		first, _, _ := strings.Cut(path, "/")
		if len(uri) > maxURI || !blob.ValidName(path) || InStateDir(path) || fold(first) == otherDir {
			return ""
		}
		return path
	}
	return ""
}
