package patch

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"slices"
	"strings"
)

// An XML patch is a list of operations that add, replace and remove nodes of a
// tree (RFC 5261), within a root element (RFC 7351 defines patch). The result
// must equal the new version byte for byte, so the document is not parsed and
// written again: unchanged parts keep their spelling, and added ones have the
// spelling of the patch, including white space.

// maxXML is the maximum size of an XML document to be patched, and of a patch.
const maxXML = 1 << 20

// maxXMLWork bounds the work of applying an XML patch, counted in visited nodes
// and visited or moved bytes: about half a second.
const maxXMLWork = 1 << 25

// ApplyXML applies patch, of type [TypeXML], to the XML document old and returns
// at most limit bytes. Old, patch and result have at most 1 MiB, else it returns
// [ErrTooLarge]. All are in UTF-8. It returns [ErrInvalid] for a patch whose root
// is not a list of operations, or with an operation that does not apply. Prefixes
// of added elements become those of old if it has others for the same namespaces;
// missing ones are declared. Time and memory are bounded, whatever patch
// contains.
func ApplyXML(old, patch []byte, limit int64) ([]byte, error) {
	out, err := applyXML(old, patch, min(max(limit, 0), maxXML))
	if err != nil {
		return nil, fmt.Errorf("apply XML patch: %w", err)
	}
	return out, nil
}

// xmlPatching is the state of applying one XML patch.
type xmlPatching struct {
	doc  *xmlNode
	work int // see maxXMLWork
}

func (p *xmlPatching) spend(n int) error {
	if p.work += n; p.work > maxXMLWork {
		return fmt.Errorf("too much to do: %w", ErrTooLarge)
	}
	return nil
}

func applyXML(old, patch []byte, limit int64) ([]byte, error) {
	if len(old) > maxXML || len(patch) > maxXML {
		return nil, fmt.Errorf("%d bytes to %d: %w", len(patch), len(old), ErrTooLarge)
	}
	doc, err := parseXML(old)
	if err != nil {
		return nil, fmt.Errorf("the document: %w", err)
	}
	diff, err := parseXML(patch)
	if err != nil {
		return nil, fmt.Errorf("the patch: %w", err)
	}
	p := &xmlPatching{doc: doc}
	root := diff.element()
	n := 0
	for _, op := range root.kids {
		switch op.kind {
		case xmlComment, xmlInstruction:
			continue
		case xmlText:
			if isSpace(op) {
				continue
			}
		}
		n++
		if err := p.apply(root, op); err != nil {
			return nil, fmt.Errorf("operation %d: %w", n, err)
		}
	}
	if _, local := splitName(root.name); n == 0 && local != "patch" && local != "diff" {
		return nil, fmt.Errorf("%w: <%s> is no list of operations", ErrInvalid, clip(root.name))
	}
	return doc.write(make([]byte, 0, min(limit, int64(len(old)+len(patch)))), limit)
}

// isSpace reports whether n is a text of white space only.
func isSpace(n *xmlNode) bool {
	return n.kind == xmlText && len(bytes.Trim(n.open, " \t\r\n")) == 0
}

// apply applies one operation.
func (p *xmlPatching) apply(root, op *xmlNode) error {
	prefix, verb := splitName(op.name)
	rootPrefix, _ := splitName(root.name)
	space, _, err := p.uri(op, prefix)
	if err != nil {
		return err
	}
	if rootSpace, _, _ := p.uri(root, rootPrefix); op.kind != xmlElement || space != rootSpace {
		return fmt.Errorf("%w: unknown operation %q", ErrInvalid, clip(op.name))
	}
	as, err := attrValues(op)
	if err != nil {
		return err
	}
	sel, ok := as["sel"]
	if !ok {
		return fmt.Errorf("%w: no sel", ErrInvalid)
	}
	if err := p.spend(len(op.open)); err != nil {
		return err
	}
	t, err := p.find(op, sel)
	if err != nil {
		return err
	}
	switch verb {
	case "add":
		return p.add(t, op, as["pos"], as["type"])
	case "replace":
		return p.replace(t, op)
	case "remove":
		return p.remove(t, as["ws"])
	}
	return fmt.Errorf("%w: unknown operation %q", ErrInvalid, clip(op.name))
}

func attrValues(n *xmlNode) (map[string]string, error) {
	as, err := n.attrs()
	if err != nil {
		return nil, err
	}
	values := make(map[string]string, len(as))
	for i := range as {
		if values[as[i].name], err = n.valueOf(&as[i]); err != nil {
			return nil, err
		}
	}
	return values, nil
}

// add adds the content of op: RFC 5261, section 4.3.
func (p *xmlPatching) add(t target, op *xmlNode, pos, kind string) error {
	n := t.node
	switch {
	case t.attr != "":
		return fmt.Errorf("%w: nothing can be added to an attribute", ErrInvalid)
	case kind != "":
		return p.addAttr(n, op, kind)
	}
	in, i := n, 0
	switch pos {
	case "":
		i = len(n.kids)
	case "prepend":
	case "before", "after":
		in = n.parent
		if i = slices.Index(in.kids, n); pos == "after" {
			i++
		}
		if in == p.doc && !besideRoot(op.kids) {
			return fmt.Errorf("%w: a second root", ErrInvalid)
		}
	default:
		return fmt.Errorf("%w: pos %q", ErrInvalid, clip(pos))
	}
	if in == n && n.kind != xmlElement {
		return fmt.Errorf("%w: not an element", ErrInvalid)
	}
	if len(op.kids) == 0 {
		return nil
	}
	nodes := op.kids
	for _, kid := range nodes {
		if err := p.adopt(kid, in); err != nil {
			return err
		}
	}
	in.unfold()
	return p.put(in, i, i, nodes)
}

// besideRoot reports whether nodes are allowed beside the root of a document.
func besideRoot(nodes []*xmlNode) bool {
	return !slices.ContainsFunc(nodes, func(n *xmlNode) bool {
		return n.kind != xmlComment && n.kind != xmlInstruction && !isSpace(n)
	})
}

// put replaces the nodes from i up to j by nodes, and joins texts that become
// adjacent.
func (p *xmlPatching) put(in *xmlNode, i, j int, nodes []*xmlNode) error {
	if err := p.spend(len(in.kids) + len(nodes)); err != nil {
		return err
	}
	in.kids = slices.Replace(in.kids, i, j, nodes...)
	for _, n := range nodes {
		n.parent = in
	}
	if err := p.join(in, i+len(nodes)); err != nil {
		return err
	}
	return p.join(in, i)
}

// join joins the two texts before and at i.
func (p *xmlPatching) join(in *xmlNode, i int) error {
	if i <= 0 || i >= len(in.kids) || in.kids[i-1].kind != xmlText || in.kids[i].kind != xmlText {
		return nil
	}
	first := in.kids[i-1]
	first.open = slices.Concat(first.open, in.kids[i].open)
	in.kids = slices.Delete(in.kids, i, i+1)
	return p.spend(len(first.open))
}

func (p *xmlPatching) addAttr(n, op *xmlNode, kind string) error {
	if n.kind != xmlElement {
		return fmt.Errorf("%w: not an element", ErrInvalid)
	}
	value, err := p.attrText(op, '"')
	if err != nil {
		return err
	}
	as, err := p.attrs(n)
	if err != nil {
		return err
	}
	name, isAttr := strings.CutPrefix(kind, "@")
	if prefix, ok := strings.CutPrefix(kind, "namespace::"); ok && prefix != "" && !strings.Contains(prefix, ":") {
		name = "xmlns:" + prefix
	} else if !isAttr || name == "" || strings.HasPrefix(name, "xmlns") {
		return fmt.Errorf("%w: type %q", ErrInvalid, clip(kind))
	} else if name, err = p.attrName(n, op, name); err != nil {
		return err
	}
	if !isQName(name) || slices.ContainsFunc(as, func(a xmlAttr) bool { return a.name == name }) {
		return fmt.Errorf("%w: attribute %q cannot be added", ErrInvalid, clip(name))
	}
	at := 1 + len(n.name)
	if k := len(as); k > 0 {
		at = as[k-1].end
	}
	return n.splice(at, at, " "+name+`="`+value+`"`)
}

// isQName reports whether name is a qualified name of XML: one or two names.
func isQName(name string) bool {
	parts := strings.Split(name, ":")
	if len(parts) > 2 {
		return false
	}
	for _, part := range parts {
		token, err := xml.NewDecoder(strings.NewReader("<" + part + "/>")).RawToken()
		if start, ok := token.(xml.StartElement); err != nil || !ok || start.Name.Local != part {
			return false
		}
	}
	return true
}

// attrName returns the name at n of an attribute of a patch.
func (p *xmlPatching) attrName(n, op *xmlNode, name string) (string, error) {
	uri, local, err := p.expand(op, name, false)
	if err != nil || uri == "" {
		return local, err
	}
	prefix, _ := splitName(name)
	if got, _, err := p.uri(n, prefix); err != nil || got == uri {
		return name, err
	}
	if prefix, err = p.prefixFor(n, uri, false); err == nil && prefix == "" {
		err = fmt.Errorf("%w: the document has no prefix for %q", ErrInvalid, clip(uri))
	}
	return prefix + ":" + local, err
}

// attrText returns the content of op in the form for use between quotes.
func (p *xmlPatching) attrText(op *xmlNode, quote byte) (string, error) {
	var raw []byte
	for _, kid := range op.kids {
		if kid.kind != xmlText {
			return "", fmt.Errorf("%w: an attribute holds text only", ErrInvalid)
		}
		raw = append(raw, kid.open...)
	}
	if bytes.IndexByte(raw, '<') >= 0 { // CDATA
		text, err := decodeXML(raw)
		if err != nil {
			return "", err
		}
		raw = []byte(strings.NewReplacer("&", "&amp;", "<", "&lt;").Replace(text))
	}
	if quote == '"' {
		return strings.ReplaceAll(string(raw), `"`, "&quot;"), nil
	}
	return strings.ReplaceAll(string(raw), "'", "&apos;"), nil
}

// replace replaces the target by the content of op: RFC 5261, section 4.4.
func (p *xmlPatching) replace(t target, op *xmlNode) error {
	n := t.node
	if t.attr != "" {
		as, err := p.attrs(n)
		if err != nil {
			return err
		}
		for i := range as {
			if a := &as[i]; a.name == t.attr {
				value, err := p.attrText(op, n.open[a.end-1])
				if err != nil {
					return err
				}
				return n.splice(a.value, a.end-1, value)
			}
		}
		return errFound(0)
	}
	nodes := op.kids
	if n.kind == xmlText {
		if len(nodes) > 1 || len(nodes) == 1 && nodes[0].kind != xmlText {
			return fmt.Errorf("%w: a text is replaced by a text", ErrInvalid)
		}
	} else {
		nodes = slices.DeleteFunc(slices.Clone(nodes), isSpace)
		if len(nodes) != 1 || nodes[0].kind != n.kind {
			return fmt.Errorf("%w: a node is replaced by one of its kind", ErrInvalid)
		}
	}
	i := slices.Index(n.parent.kids, n)
	for _, kid := range nodes {
		if err := p.adopt(kid, n.parent); err != nil {
			return err
		}
	}
	return p.put(n.parent, i, i+1, nodes)
}

// remove removes the target, and white space beside it: RFC 5261, section 4.5.
func (p *xmlPatching) remove(t target, ws string) error {
	n := t.node
	if t.attr != "" {
		as, err := p.attrs(n)
		if err != nil {
			return err
		}
		for i := range as {
			if as[i].name == t.attr {
				return n.splice(as[i].begin, as[i].end, "")
			}
		}
		return errFound(0)
	}
	if n.kind == xmlElement && n.parent == p.doc {
		return fmt.Errorf("%w: the root cannot be removed", ErrInvalid)
	}
	kids := n.parent.kids
	i := slices.Index(kids, n)
	j := i + 1
	switch ws {
	case "", "before", "after", "both":
	default:
		return fmt.Errorf("%w: ws %q", ErrInvalid, clip(ws))
	}
	if ws == "before" || ws == "both" {
		if i--; i < 0 || !isSpace(kids[i]) {
			return fmt.Errorf("%w: no white space before it", ErrInvalid)
		}
	}
	if ws == "after" || ws == "both" {
		if j++; j > len(kids) || !isSpace(kids[j-1]) {
			return fmt.Errorf("%w: no white space after it", ErrInvalid)
		}
	}
	return p.put(n.parent, i, j, nil)
}
