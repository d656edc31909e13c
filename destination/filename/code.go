package filename

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// A form is one of the spellings of a name; all forms of a name decode alike.
type form struct {
	portable bool // escapes what some file system refuses or changes
	exact    bool // also escapes what some file system takes for something else
	long     bool // cuts no segment that just fits
	earlier  bool // as in earlier versions, which reserve the name of the state directory at the root alone
}

// A component of a path. It is cut if its segment continues in the next one.
type component struct {
	name string
	cut  bool
}

func join(comps []component) string {
	size := len(comps)
	for i := range comps {
		size += len(comps[i].name)
	}
	var b strings.Builder
	b.Grow(size)
	for i := range comps {
		if i > 0 {
			b.WriteByte('/')
		}
		b.WriteString(comps[i].name)
	}
	return b.String()
}

const (
	// maxURI limits the length of URIs. Sitemaps allow 2,048 characters, web
	// servers about 8,000.
	maxURI = 16 << 10

	// maxFolders limits how deep a Source can nest directories: each costs a
	// lookup, a creation, a flush and a removal.
	maxFolders = 256

	// maxScheme limits a URI's scheme; the longest registered one has 36 letters.
	maxScheme = 64
)

// components spells the path of a URI.
func (p *Mapping) components(uri string, f form) ([]component, error) {
	scheme, rest, ok := CutScheme(uri)
	switch {
	case !ok || len(scheme) > maxScheme:
		return nil, ErrURI
	case len(uri) > maxURI || strings.Count(uri, "/") > maxFolders:
		return nil, fmt.Errorf("%w of at most %d bytes and %d segments", ErrURI, maxURI, maxFolders)
	}
	e := encoder{form: f, out: make([]component, 0, 8)}
	for _, b := range p.bases {
		if rest, ok := b.cut(uri); ok {
			for _, name := range b.dir {
				e.out = append(e.out, component{name: name})
			}
			if len(b.dir) == 0 {
				e.top = p
			}
			if b.value {
				e.path(rest, true, false)
			} else {
				e.path(rest, b.direct(), b.query())
			}
			return e.out, nil
		}
	}
	end := strings.IndexAny(rest, "/?#")
	if end < 0 {
		end = len(rest)
	}
	e.out = append(e.out, component{name: otherDir})
	authority := e.units(nil, rest[:end])
	for i := range authority {
		if authority[i].text == ":" {
			authority[i].natural = false // even where it could be natural
		}
	}
	if scheme != p.scheme {
		authority = append(append(e.units(nil, scheme), mark("%~;")), authority...)
	}
	e.segment(authority)
	e.path(rest[end:], false, false)
	return e.out, nil
}

// cut returns the rest of the URI after the prefix. After an authority alone the
// rest has to begin with a separator: example.org is no prefix of example.org.evil.
func (b base) cut(uri string) (string, bool) {
	rest, ok := strings.CutPrefix(uri, b.prefix)
	if ok && rest != "" && strings.IndexByte("/?#", rest[0]) < 0 {
		_, tail, _ := CutScheme(b.prefix)
		ok = strings.ContainsAny(tail, "/?#")
	}
	if ok && b.value {
		rest, ok = pathOfValue(rest)
		rest += b.suffix
	}
	return rest, ok
}

// reserved reports whether a path at the root of DEST would be, or enter, a
// place with another use.
func (p *Mapping) reserved(before []component, name string) bool {
	if len(before) == 0 {
		if n := fold(name); n == StateDir || n == otherDir {
			return true
		}
	}
	for _, b := range p.bases {
		if len(b.dir) != len(before)+1 || fold(name) != fold(b.dir[len(before)]) {
			continue
		}
		if !slices.ContainsFunc(indexed(before), func(i int) bool { return fold(before[i].name) != fold(b.dir[i]) }) {
			return true
		}
	}
	return false
}

func indexed[T any](s []T) []int {
	is := make([]int, len(s))
	for i := range is {
		is[i] = i
	}
	return is
}

// An encoder appends components to out.
type encoder struct {
	form
	out []component
	top *Mapping // set if names at the root of DEST are encoded, some of which are reserved
}

// isReserved reports whether the next component must not have that name. A
// directory with the state directory's name is, at any depth, the state of a
// mirror, or of one created there later, whose state no Source may provide.
func (e *encoder) isReserved(name string) bool {
	return !e.earlier && isStateDir(name) || e.top != nil && e.top.reserved(e.out, name)
}

// isStateDir reports whether name is the state directory's on some file system.
func isStateDir(name string) bool { return len(name) >= len(StateDir) && fold(name) == StateDir }

// InStateDir reports whether a path has a component with the state directory's
// name, as paths of earlier versions may.
func InStateDir(path string) bool {
	for name := range strings.SplitSeq(path, "/") {
		if isStateDir(name) {
			return true
		}
	}
	return false
}

// path encodes the rest of a URI after a prefix.
func (e *encoder) path(rest string, direct, query bool) {
	var lead []unit
	if !direct {
		after, slash := strings.CutPrefix(rest, "/")
		if !slash {
			lead = []unit{mark("%~,")}
		}
		rest = after
	}
	slashes := len(rest)
	if i := strings.IndexAny(rest, "?#"); i >= 0 {
		slashes = i
	}
	if query {
		slashes = 0
	}
	for {
		i := strings.IndexByte(rest[:slashes], '/')
		if i < 0 {
			break
		}
		e.text(lead, rest[:i])
		lead, rest, slashes = nil, rest[i+1:], slashes-i-1
	}
	e.text(lead, rest)
}

// text encodes one segment.
func (e *encoder) text(lead []unit, seg string) {
	if lead == nil && !e.portable && plain(seg) && (len(seg) <= maxComponent || e.long && len(seg) <= maxName) && !e.isReserved(seg) {
		e.out = append(e.out, component{name: seg})
		return
	}
	e.segment(e.units(lead, seg))
}

// plain reports whether a segment can be a name unchanged, as most can.
func plain(seg string) bool {
	for i := range len(seg) {
		if !literal[seg[i]] {
			return false
		}
	}
	return seg != "" && seg != "." && seg != ".."
}

// segment encodes units as one component or more.
func (e *encoder) segment(units []unit) {
	if len(units) == 0 {
		units = []unit{mark("%~@")}
	}
	start := len(e.out)
	if e.emit(units); e.portable && !natural(e.out[start:]) {
		for i := range units {
			units[i].natural = units[i].natural && units[i].b < utf8.RuneSelf
		}
		e.out = e.out[:start]
		e.emit(units)
	}
}

// emit splits units into components.
func (e *encoder) emit(units []unit) {
	if e.long {
		whole := slices.Clone(units)
		e.adjust(whole)
		if name := e.spell(whole); len(name) <= maxName {
			e.out = append(e.out, component{name: name})
			return
		}
	}
	for {
		n, size := 0, 0
		for n < len(units) && size+len(units[n].spell(e.form)) <= maxComponent {
			size += len(units[n].spell(e.form))
			n++
		}
		for n < len(units) && n > 1 && units[n].natural && !utf8.RuneStart(units[n].b) && size > maxComponent-utf8.UTFMax {
			n, size = n-1, size-1 // not within a character
		}
		part := slices.Clone(units[:n])
		e.adjust(part)
		c := component{name: e.spell(part), cut: n < len(units)}
		if e.exact {
			c.name += "%~!"
		}
		if c.cut {
			c.name += "%~_"
		}
		e.out = append(e.out, c)
		if units = units[n:]; len(units) == 0 {
			return
		}
	}
}

// adjust escapes the ends of a name that would have a special meaning.
func (e *encoder) adjust(part []unit) {
	name := e.spell(part)
	if name == "." || name == ".." || e.isReserved(name) || e.portable && device(name) {
		part[0].natural = false
	}
	if last := &part[len(part)-1]; e.portable && (last.b == '.' || last.b == ' ') {
		last.natural = false
	}
}

func (e *encoder) spell(part []unit) string {
	var b strings.Builder
	for _, u := range part {
		b.WriteString(u.spell(e.form))
	}
	return b.String()
}

// A unit is the smallest part that is encoded: a byte of the URI, or an escape.
type unit struct {
	text    string // in the URI; for a mark, in the name
	b       byte   // its decoded value
	natural bool   // may be spelled as b
	kind    unitKind
}

type unitKind int

const (
	unitByte   unitKind = iota // a byte as it is
	unitEscape                 // %XX, where our Source would have written it
	unitOdd                    // any other escape
	unitMark
)

func mark(s string) unit { return unit{text: s, kind: unitMark} }

// units reads a segment.
func (e *encoder) units(us []unit, seg string) []unit {
	us = slices.Grow(us, len(seg))
	for i := 0; i < len(seg); {
		u := unit{text: seg[i : i+1], b: seg[i], natural: literal[seg[i]]}
		if seg[i] == '%' && i+2 < len(seg) && unhex(seg[i+1]) >= 0 && unhex(seg[i+2]) >= 0 {
			u.text = seg[i : i+3]
			u.b = byte(unhex(seg[i+1])<<4 | unhex(seg[i+2]))
			u.kind = unitOdd
			if !literal[u.b] && u.text == escape(u.b) {
				u.kind = unitEscape
			}
			tilde := i+3 < len(seg) && seg[i+3] == '~'
			u.natural = u.kind == unitEscape && u.b != 0 && u.b != '/' && !(u.b == '%' && tilde)
		}
		u.natural = u.natural && !(e.portable && refused(u.b)) && !(e.exact && ambiguous(u.b))
		i += len(u.text)
		// LOCKST~1 is another name of .lockstep on some disks.
		if e.portable && u.text == "~" && i < len(seg) && '0' <= seg[i] && seg[i] <= '9' {
			u.natural = false
		}
		us = append(us, u)
	}
	return us
}

// spell returns the unit as it is written in a name.
func (u unit) spell(f form) string {
	switch {
	case u.kind == unitMark:
		return u.text
	case u.natural && u.kind == unitByte:
		return u.text
	case u.natural:
		return byteNames[u.b]
	case u.kind == unitByte:
		return "%~=" + escape(u.b)[1:]
	case !f.exact || u.text == strings.ToUpper(u.text):
		return "%~" + u.text[1:]
	}
	// Names must differ by more than %~2f and %~2F do.
	s := "%~=25"
	for i := 1; i < len(u.text); i++ {
		if c := u.text[i]; ambiguous(c) {
			s += "%~=" + escape(c)[1:]
		} else {
			s += string(c)
		}
	}
	return s
}

// decodeSegments reverses encoder.path. Bare reports that there was no slash.
func decodeSegments(names []string) (text string, bare, ok bool) {
	var b strings.Builder
	for i, name := range names {
		name, cut := strings.CutSuffix(name, "%~_")
		name = strings.TrimSuffix(name, "%~!")
		if i == 0 {
			name, bare = strings.CutPrefix(name, "%~,")
		}
		if name != "%~@" && !decodeName(&b, name) {
			return "", false, false
		}
		if !cut && i < len(names)-1 {
			b.WriteByte('/')
		}
	}
	return b.String(), bare, true
}

// decodeName reverses encoder.spell.
func decodeName(b *strings.Builder, name string) bool {
	for i := 0; i < len(name); {
		esc, special := strings.CutPrefix(name[i:], "%~")
		literalByte := special && strings.HasPrefix(esc, "=")
		if literalByte {
			esc, i = esc[1:], i+1
		}
		switch {
		case !special && literal[name[i]]:
			b.WriteByte(name[i])
			i++
			continue
		case !special:
			b.WriteString(escape(name[i]))
			i++
			continue
		case len(esc) < 2 || unhex(esc[0]) < 0 || unhex(esc[1]) < 0:
			return false
		case literalByte:
			b.WriteByte(byte(unhex(esc[0])<<4 | unhex(esc[1])))
		default:
			b.WriteString("%" + esc[:2])
		}
		i += len("%~XX")
	}
	return true
}

// decode reverses components, and also accepts names that components never returns.
func (p *Mapping) decode(names []string) (string, bool) {
	if names[0] == otherDir {
		return p.decodeOther(names[1:])
	}
	var found base
	for _, b := range p.bases {
		if len(b.dir) >= len(found.dir) && len(names) > len(b.dir) && slices.Equal(names[:len(b.dir)], b.dir) {
			found = b
		}
	}
	rest, bare, ok := decodeSegments(names[len(found.dir):])
	if found.value {
		rest, named := strings.CutSuffix(rest, found.suffix)
		return found.prefix + valueOfPath(rest), ok && named && !bare
	}
	if !bare && !found.direct() {
		rest = "/" + rest
	}
	return found.prefix + rest, ok
}

func (p *Mapping) decodeOther(names []string) (string, bool) {
	n := slices.IndexFunc(names, func(name string) bool { return !strings.HasSuffix(name, "%~_") }) + 1
	if n == 0 || n == len(names) {
		return "", false
	}
	scheme := p.scheme
	host := slices.Clone(names[:n])
	if before, after, other := strings.Cut(host[0], "%~;"); other {
		var b strings.Builder
		if !decodeName(&b, before) {
			return "", false
		}
		scheme, host[0] = b.String(), after
	}
	authority, _, ok := decodeSegments(host)
	rest, bare, ok1 := decodeSegments(names[n:])
	if !bare {
		rest = "/" + rest
	}
	return scheme + "://" + authority + rest, ok && ok1
}
