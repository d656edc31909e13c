package patch

import (
	"fmt"
	"slices"
	"strings"
)

// adopt preserves the meaning of names in a patch at their destination (RFC
// 5261, section 4.2.3): names get the prefixes that in has for their namespaces,
// and missing namespaces are declared.
func (p *xmlPatching) adopt(n, in *xmlNode) error {
	if n.kind != xmlElement {
		return nil
	}
	return p.adoptNames(n, n, in, 0)
}

func (p *xmlPatching) adoptNames(n, top, in *xmlNode, depth int) error {
	if depth > maxXMLDepth {
		return fmt.Errorf("nested too deep: %w", ErrTooLarge)
	}
	if err := p.adoptName(n, top, in); err != nil {
		return err
	}
	as, err := p.attrs(n)
	if err != nil {
		return err
	}
	for i := range as {
		if prefix, _ := splitName(as[i].name); prefix != "" && prefix != "xmlns" {
			if err := p.adoptAttr(n, top, in, as[i].name); err != nil {
				return err
			}
		}
	}
	for _, kid := range n.kids {
		if kid.kind == xmlElement {
			if err := p.adoptNames(kid, top, in, depth+1); err != nil {
				return err
			}
		}
	}
	return nil
}

// foreign returns the namespace of a prefix at n, if it is declared outside of
// top and differs from the one at top's destination.
func (p *xmlPatching) foreign(n, top, in *xmlNode, prefix string) (uri string, is bool, err error) {
	for e := n; ; e = e.parent {
		if err := p.spend(1 + len(e.spaces)); err != nil {
			return "", false, err
		}
		if slices.ContainsFunc(e.spaces, func(s xmlSpace) bool { return s.prefix == prefix }) {
			return "", false, nil
		}
		if e == top {
			break
		}
	}
	uri, ok, err := p.uri(top.parent, prefix)
	if err != nil {
		return "", false, err
	}
	if !ok {
		return "", false, fmt.Errorf("%w: prefix %q is not declared", ErrInvalid, clip(prefix))
	}
	there, has, err := p.uri(in, prefix)
	return uri, !has || there != uri, err
}

func (p *xmlPatching) adoptName(n, top, in *xmlNode) error {
	prefix, local := splitName(n.name)
	uri, is, err := p.foreign(n, top, in, prefix)
	if err != nil || !is {
		return err
	}
	to, err := p.renamed(n, top, in, prefix, uri, true)
	if err != nil || to == prefix {
		return err
	}
	name := local
	if to != "" {
		name = to + ":" + local
	}
	old := len(n.name)
	if n.end != nil {
		n.end = append([]byte("</"+name), n.end[len("</")+old:]...)
	}
	n.name = name
	return n.splice(1, 1+old, name)
}

func (p *xmlPatching) adoptAttr(n, top, in *xmlNode, attr string) error {
	prefix, local := splitName(attr)
	uri, is, err := p.foreign(n, top, in, prefix)
	if err != nil || !is {
		return err
	}
	to, err := p.renamed(n, top, in, prefix, uri, false)
	if err != nil || to == prefix {
		return err
	}
	as, err := p.attrs(n) // an added declaration has moved them
	if err != nil {
		return err
	}
	for i := range as {
		if as[i].name == attr {
			begin := as[i].begin
			for isBlank(n.open[begin]) {
				begin++
			}
			return n.splice(begin, begin+len(attr), to+":"+local)
		}
	}
	return nil // unreachable: it was found a moment ago
}

// renamed returns the prefix to use at n for a namespace, which it declares at
// top if there is none. An element may have no prefix.
func (p *xmlPatching) renamed(n, top, in *xmlNode, prefix, uri string, element bool) (string, error) {
	to, err := p.prefixFor(in, uri, element)
	if err != nil {
		return "", err
	}
	if found := to != "" || element && uri != ""; found {
		if there, _, err := p.uri(in, to); err != nil {
			return "", err
		} else if there == uri && !shadowed(n, top, to) {
			return to, nil
		}
	}
	name := "xmlns"
	if prefix != "" {
		name += ":" + prefix
	}
	if err := p.spend(2 * len(top.open)); err != nil {
		return "", err
	}
	at := 1 + len(top.name)
	value := strings.NewReplacer("&", "&amp;", "<", "&lt;", `"`, "&quot;").Replace(uri)
	return prefix, top.splice(at, at, " "+name+`="`+value+`"`)
}

// shadowed reports whether a prefix is redeclared between n and top.
func shadowed(n, top *xmlNode, prefix string) bool {
	for e := n; ; e = e.parent {
		if slices.ContainsFunc(e.spaces, func(s xmlSpace) bool { return s.prefix == prefix }) {
			return true
		}
		if e == top {
			return false
		}
	}
}

// prefixFor returns a prefix for a namespace at n: the one declared closest; ""
// if that is the default namespace, which applies only to elements, or there is
// none.
func (p *xmlPatching) prefixFor(n *xmlNode, uri string, element bool) (string, error) {
	for e := n; e != nil; e = e.parent {
		for _, s := range e.spaces {
			if s.uri != uri || s.prefix == "" && !element {
				continue
			}
			there, _, err := p.uri(n, s.prefix)
			if err != nil {
				return "", err
			}
			if there == uri {
				return s.prefix, nil
			}
		}
		if err := p.spend(1 + len(e.spaces)); err != nil {
			return "", err
		}
	}
	return "", nil
}
