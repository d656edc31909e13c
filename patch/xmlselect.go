package patch

import (
	"fmt"
	"strconv"
	"strings"
)

// A target is the result of a selector: a node, or an attribute or namespace
// declaration of one.
type target struct {
	node *xmlNode
	attr string // as spelt in the start tag; "": the node itself
}

// find returns the one target that a selector in the operation op selects in
// the document: RFC 5261, section 4.1, the subset of XPath that its schema
// allows.
func (p *xmlPatching) find(op *xmlNode, sel string) (target, error) {
	s := &selector{p: p, op: op, rest: strings.TrimPrefix(strings.TrimSpace(sel), "/")}
	wrong := func(err error) (target, error) {
		return target{}, fmt.Errorf("selector %q: %w", clip(sel), err)
	}
	set := []*xmlNode{p.doc}
	for s.rest != "" || set[0] == p.doc {
		if attr, ok, err := s.attribute(); err != nil {
			return wrong(err)
		} else if ok {
			if len(set) != 1 || set[0].kind != xmlElement {
				return wrong(errFound(len(set)))
			}
			name, err := p.attrNamed(set[0], op, attr)
			if err != nil {
				return wrong(err)
			}
			return target{set[0], name}, nil
		}
		next, err := s.step(set)
		if err != nil {
			return wrong(err)
		}
		if set = next; len(set) == 0 {
			break
		}
		if s.rest != "" && (!s.take("/") || s.rest == "") {
			return wrong(errSelector)
		}
	}
	if len(set) != 1 {
		return wrong(errFound(len(set)))
	}
	return target{node: set[0]}, nil
}

var errSelector = fmt.Errorf("%w: not a selector of RFC 5261", ErrInvalid)

func errFound(n int) error { return fmt.Errorf("%w: it selects %d nodes, not one", ErrInvalid, n) }

// A selector is the state of parsing one.
type selector struct {
	p    *xmlPatching
	op   *xmlNode // its prefixes are used
	rest string
}

// take skips a token, if it is next.
func (s *selector) take(token string) bool {
	rest, ok := strings.CutPrefix(s.rest, token)
	if ok {
		s.rest = rest
	}
	return ok
}

// qname parses a name, or "*".
func (s *selector) qname() (string, error) {
	i := strings.IndexAny(s.rest, "/[]()='\"@ \t\r\n")
	if i < 0 {
		i = len(s.rest)
	}
	name := s.rest[:i]
	if name == "" || strings.Contains(name, "::") || name == "." || name == ".." {
		return "", errSelector
	}
	s.rest = s.rest[i:]
	return name, nil
}

// attribute parses a last step that is not a node of the tree: "@name" or
// "namespace::prefix". For the latter it returns the attribute that declares
// the prefix.
func (s *selector) attribute() (string, bool, error) {
	prefix := ""
	switch {
	case s.take("@"):
	case s.take("namespace::"):
		prefix = "xmlns:"
	default:
		return "", false, nil
	}
	name, err := s.qname()
	if err == nil && (s.rest != "" || name == "*") {
		err = errSelector
	}
	return prefix + name, true, err
}

// A filter selects the nodes of a step.
type filter struct {
	kind     xmlKind
	any      bool // with any name
	uri      string
	name     string // local
	instance string // of an instruction: its target
}

// step makes one step down from each node of the set.
func (s *selector) step(set []*xmlNode) ([]*xmlNode, error) {
	if len(set) == 1 && set[0] == s.p.doc && s.take("id(") {
		return s.byID()
	}
	f, err := s.filter()
	if err != nil {
		return nil, err
	}
	groups := make([][]*xmlNode, 0, len(set))
	for _, n := range set {
		if err := s.p.spend(1 + len(n.kids)); err != nil {
			return nil, err
		}
		var found []*xmlNode
		for _, kid := range n.kids {
			ok, err := s.p.matches(kid, &f)
			if err != nil {
				return nil, err
			}
			if ok {
				found = append(found, kid)
			}
		}
		groups = append(groups, found)
	}
	for s.take("[") {
		if groups, err = s.predicate(groups); err != nil {
			return nil, err
		}
		if !s.take("]") {
			return nil, errSelector
		}
	}
	var all []*xmlNode
	for _, g := range groups {
		all = append(all, g...)
	}
	return all, nil
}

func (s *selector) filter() (filter, error) {
	switch {
	case s.take("text()"):
		return filter{kind: xmlText, any: true}, nil
	case s.take("comment()"):
		return filter{kind: xmlComment, any: true}, nil
	case s.take("processing-instruction("):
		f := filter{kind: xmlInstruction, any: true}
		if !s.take(")") {
			var err error
			if f.instance, err = s.literal(); err != nil || !s.take(")") {
				return f, errSelector
			}
			f.any = false
		}
		return f, nil
	}
	name, err := s.qname()
	if err != nil {
		return filter{}, err
	}
	if name == "*" {
		return filter{kind: xmlElement, any: true}, nil
	}
	f := filter{kind: xmlElement}
	f.uri, f.name, err = s.p.expand(s.op, name, true)
	return f, err
}

// expand resolves a name in the patch. An element name without a prefix is in the
// default namespace of the patch: here RFC 5261, section 4.2.2, differs from
// XPath 1.0.
func (p *xmlPatching) expand(op *xmlNode, name string, element bool) (uri, local string, err error) {
	prefix, local := splitName(name)
	if prefix == "" && !element {
		return "", local, nil
	}
	uri, ok, err := p.uri(op, prefix)
	if err == nil && !ok {
		err = fmt.Errorf("%w: prefix %q is not declared", ErrInvalid, clip(prefix))
	}
	return uri, local, err
}

func (p *xmlPatching) matches(n *xmlNode, f *filter) (bool, error) {
	switch {
	case n.kind != f.kind:
		return false, nil
	case f.any:
		return true, nil
	case n.kind == xmlInstruction:
		return n.name == f.instance, nil
	}
	prefix, local := splitName(n.name)
	if local != f.name {
		return false, nil
	}
	uri, _, err := p.uri(n, prefix)
	return uri == f.uri, err
}

// predicate parses a condition and applies it to each of the groups of
// siblings.
func (s *selector) predicate(groups [][]*xmlNode) ([][]*xmlNode, error) {
	work := len(groups)
	for _, g := range groups {
		work += len(g)
	}
	if err := s.p.spend(work); err != nil {
		return nil, err
	}
	if i := strings.IndexByte(s.rest, ']'); i > 0 && strings.Trim(s.rest[:i], "0123456789") == "" {
		at, err := strconv.Atoi(s.rest[:i])
		if err != nil || at < 1 {
			return nil, errSelector
		}
		s.rest = s.rest[i:]
		for j, g := range groups {
			if groups[j] = nil; at <= len(g) {
				groups[j] = g[at-1 : at]
			}
		}
		return groups, nil
	}
	test, err := s.test()
	if err != nil {
		return nil, err
	}
	for j, g := range groups {
		var kept []*xmlNode
		for _, n := range g {
			ok, err := test(n)
			if err != nil {
				return nil, err
			}
			if ok {
				kept = append(kept, n)
			}
		}
		groups[j] = kept
	}
	return groups, nil
}

// test parses a comparison: of an attribute, of a child, or of the node itself.
func (s *selector) test() (func(*xmlNode) (bool, error), error) {
	var name string
	var err error
	own, attr := false, s.take("@")
	if !attr && s.take(".") {
		own = true
	} else if name, err = s.qname(); err != nil || name == "*" {
		return nil, errSelector
	}
	if !s.take("=") {
		return nil, errSelector
	}
	value, err := s.literal()
	if err != nil {
		return nil, err
	}
	uri, local := "", ""
	if !own {
		if uri, local, err = s.p.expand(s.op, name, !attr); err != nil {
			return nil, err
		}
	}
	switch {
	case own:
		return func(n *xmlNode) (bool, error) { return s.p.hasText(n, value) }, nil
	case attr:
		return func(n *xmlNode) (bool, error) { return s.p.hasAttr(n, uri, local, value) }, nil
	}
	f := filter{kind: xmlElement, uri: uri, name: local}
	return func(n *xmlNode) (bool, error) { return s.p.hasChild(n, &f, value) }, nil
}

// literal parses a quoted string.
func (s *selector) literal() (string, error) {
	if s.rest == "" || s.rest[0] != '\'' && s.rest[0] != '"' {
		return "", errSelector
	}
	value, rest, ok := strings.Cut(s.rest[1:], s.rest[:1])
	if !ok {
		return "", errSelector
	}
	s.rest = rest
	return value, nil
}

// byID finds an element by its xml:id, the only attribute that is an ID without a
// DTD.
func (s *selector) byID() ([]*xmlNode, error) {
	id, err := s.literal()
	if err != nil || !s.take(")") {
		return nil, errSelector
	}
	var found []*xmlNode
	var walk func(n *xmlNode) error
	walk = func(n *xmlNode) error { // at most maxXMLDepth deep
		if err := s.p.spend(1); err != nil {
			return err
		}
		if n.kind == xmlElement {
			ok, err := s.p.hasAttr(n, "http://www.w3.org/XML/1998/namespace", "id", id)
			if err != nil {
				return err
			}
			if ok {
				found = append(found, n)
			}
		}
		for _, kid := range n.kids {
			if err := walk(kid); err != nil {
				return err
			}
		}
		return nil
	}
	return found, walk(s.p.doc)
}

func (p *xmlPatching) hasAttr(n *xmlNode, uri, local, value string) (bool, error) {
	name, err := p.attrOf(n, uri, local)
	if err != nil || name == "" {
		return false, err
	}
	as, err := p.attrs(n)
	if err != nil {
		return false, err
	}
	for i := range as {
		if as[i].name == name {
			got, err := n.valueOf(&as[i])
			return got == value, err
		}
	}
	return false, nil
}

// attrOf returns the attribute's spelling in the start tag of n, or "".
func (p *xmlPatching) attrOf(n *xmlNode, uri, local string) (string, error) {
	if n.kind != xmlElement {
		return "", nil
	}
	as, err := p.attrs(n)
	if err != nil {
		return "", err
	}
	for i := range as {
		prefix, name := splitName(as[i].name)
		if name != local || prefix == "xmlns" {
			continue
		}
		got := ""
		if prefix != "" {
			if got, _, err = p.uri(n, prefix); err != nil {
				return "", err
			}
		}
		if got == uri {
			return as[i].name, nil
		}
	}
	return "", nil
}

// attrNamed returns the spelling in the start tag of n of the attribute, or
// namespace declaration, that a patch names.
func (p *xmlPatching) attrNamed(n, op *xmlNode, attr string) (string, error) {
	if strings.HasPrefix(attr, "xmlns:") {
		as, err := p.attrs(n)
		for i := range as {
			if as[i].name == attr {
				return attr, err
			}
		}
		return "", errFound(0)
	}
	uri, local, err := p.expand(op, attr, false)
	if err != nil {
		return "", err
	}
	name, err := p.attrOf(n, uri, local)
	if err == nil && name == "" {
		err = errFound(0)
	}
	return name, err
}

func (p *xmlPatching) hasChild(n *xmlNode, f *filter, value string) (bool, error) {
	if err := p.spend(len(n.kids)); err != nil {
		return false, err
	}
	for _, kid := range n.kids {
		ok, err := p.matches(kid, f)
		if err == nil && ok {
			ok, err = p.hasText(kid, value)
		}
		if ok || err != nil {
			return ok, err
		}
	}
	return false, nil
}

// hasText reports whether the string-value of n is value.
func (p *xmlPatching) hasText(n *xmlNode, value string) (bool, error) {
	rest, ok, err := p.cutText(n, value)
	return ok && rest == "", err
}

// cutText removes the string-value of n from the front of value.
func (p *xmlPatching) cutText(n *xmlNode, value string) (rest string, ok bool, err error) {
	if err := p.spend(1 + len(n.open) + len(n.kids)); err != nil {
		return "", false, err
	}
	switch n.kind {
	case xmlText:
		text, err := decodeXML(n.open)
		rest, ok = strings.CutPrefix(value, text)
		return rest, ok, err
	case xmlComment:
		rest, ok = strings.CutPrefix(value, string(n.open[len("<!--"):len(n.open)-len("-->")]))
		return rest, ok, nil
	case xmlInstruction, xmlProlog:
		return value, true, nil
	}
	for _, kid := range n.kids {
		if kid.kind != xmlElement && kid.kind != xmlText {
			continue
		}
		if value, ok, err = p.cutText(kid, value); !ok || err != nil {
			return "", false, err
		}
	}
	return value, true, nil
}
