package patch

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// An operation is one step of a JSON Patch.
type operation struct {
	Op    string          `json:"op"`
	Path  *string         `json:"path"`
	From  *string         `json:"from"`
	Value json.RawMessage `json:"value"`
}

// A tree is a JSON value, parsed only as far as a patch has reached into it.
// Everything else keeps its spelling.
type tree struct {
	raw  []byte // compact JSON; nil once it is open
	name []byte // name of a member: a JSON string
	kind byte   // '{' or '[' once it is open
	kids []*tree
}

// patching is the state of applying one patch.
type patching struct {
	root *tree
	work int // see maxPatchWork
	room int // bytes that may still be added to the document by copying
}

// spend counts work, and returns an error when it is too much.
func (p *patching) spend(n int) error {
	if p.work += n; p.work > maxPatchWork {
		return fmt.Errorf("too much to do: %w", ErrTooLarge)
	}
	return nil
}

// apply applies one operation. After an error the tree is undefined: the patch
// as a whole has failed (RFC 6902, section 5).
func (p *patching) apply(o *operation) error {
	if o.Path == nil {
		return fmt.Errorf("%w: no path", ErrInvalid)
	}
	if err := p.spend(1 + len(*o.Path) + len(o.Value)); err != nil {
		return err
	}
	switch o.Op {
	case "add", "replace", "test":
		value, err := compactValue(o.Value)
		if err != nil {
			return err
		}
		switch o.Op {
		case "add":
			return p.add(*o.Path, &tree{raw: value})
		case "replace":
			return p.replace(*o.Path, &tree{raw: value})
		}
		return p.test(*o.Path, value)
	case "remove":
		_, err := p.remove(*o.Path)
		return err
	case "move", "copy":
		if o.From == nil {
			return fmt.Errorf("%w: no from", ErrInvalid)
		}
		if o.Op == "copy" {
			return p.copy(*o.From, *o.Path)
		}
		return p.move(*o.From, *o.Path)
	}
	return fmt.Errorf("%w: operation %q", ErrInvalid, clip(o.Op))
}

func compactValue(raw json.RawMessage) ([]byte, error) {
	if raw == nil {
		return nil, fmt.Errorf("%w: no value", ErrInvalid)
	}
	var buf bytes.Buffer
	if err := json.Compact(&buf, raw); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	return buf.Bytes(), nil
}

func (p *patching) add(path string, v *tree) error {
	if path == "" {
		p.root = v
		return nil
	}
	in, last, err := p.parent(path)
	if err != nil {
		return err
	}
	if err := p.spend(len(in.kids)); err != nil {
		return err
	}
	if in.kind == '[' {
		i := len(in.kids)
		if last != "-" {
			if i, err = index(last, len(in.kids)+1); err != nil {
				return err
			}
		}
		v.name = nil
		in.kids = slices.Insert(in.kids, i, v)
		return nil
	}
	if i := in.member(last); i >= 0 {
		v.name = in.kids[i].name
		in.kids[i] = v
		return nil
	}
	v.name = quote(last)
	in.kids = append(in.kids, v)
	return nil
}

func (p *patching) replace(path string, v *tree) error {
	if path == "" {
		p.root = v
		return nil
	}
	in, i, err := p.find(path)
	if err != nil {
		return err
	}
	v.name = in.kids[i].name
	in.kids[i] = v
	return nil
}

func (p *patching) remove(path string) (*tree, error) {
	in, i, err := p.find(path)
	if err != nil {
		return nil, err
	}
	v := in.kids[i]
	in.kids = slices.Delete(in.kids, i, i+1)
	return v, p.spend(len(in.kids))
}

func (p *patching) move(from, path string) error {
	if strings.HasPrefix(path, from+"/") {
		return fmt.Errorf("%w: %q moves into itself", ErrInvalid, clip(from))
	}
	if from == path {
		_, err := p.get(from)
		return err
	}
	v, err := p.remove(from)
	if err != nil {
		return err
	}
	return p.add(path, v)
}

func (p *patching) copy(from, path string) error {
	v, err := p.get(from)
	if err != nil {
		return err
	}
	raw, err := p.write(nil, v, 0)
	if err != nil {
		return err
	}
	if p.room -= len(raw); p.room < 0 {
		return fmt.Errorf("copies too much: %w", ErrTooLarge)
	}
	return p.add(path, &tree{raw: raw})
}

func (p *patching) test(path string, want []byte) error {
	v, err := p.get(path)
	if err != nil {
		return err
	}
	raw, err := p.write(nil, v, 0)
	if err != nil {
		return err
	}
	if bytes.Equal(raw, want) {
		return nil
	}
	var a, b any
	if unmarshalExact(raw, &a) != nil || unmarshalExact(want, &b) != nil || !equal(a, b) {
		return fmt.Errorf("%w: test of %q fails", ErrInvalid, clip(path))
	}
	return nil
}

// equal compares according to RFC 6902, section 4.6: members in any order,
// numbers by their value.
func equal(a, b any) bool {
	switch a := a.(type) {
	case map[string]any:
		b, ok := b.(map[string]any)
		if !ok || len(a) != len(b) {
			return false
		}
		for name, v := range a {
			if w, there := b[name]; !there || !equal(v, w) {
				return false
			}
		}
		return true
	case []any:
		b, ok := b.([]any)
		return ok && slices.EqualFunc(a, b, equal)
	case json.Number:
		b, ok := b.(json.Number)
		x, err1 := a.Float64()
		y, err2 := b.Float64()
		return ok && (a == b || err1 == nil && err2 == nil && x == y)
	}
	return a == b
}

// get returns the value at a JSON Pointer.
func (p *patching) get(path string) (*tree, error) {
	if path == "" {
		return p.root, nil
	}
	in, i, err := p.find(path)
	if err != nil {
		return nil, err
	}
	return in.kids[i], nil
}

// find returns the position of the value at a JSON Pointer.
func (p *patching) find(path string) (in *tree, i int, err error) {
	in, last, err := p.parent(path)
	if err != nil {
		return nil, 0, err
	}
	i, err = p.child(in, last)
	if err != nil {
		return nil, 0, fmt.Errorf("%w: %q", err, clip(path))
	}
	return in, i, nil
}

// parent returns the object or array in which the last part of a JSON Pointer
// (RFC 6901) is a name.
func (p *patching) parent(path string) (in *tree, last string, err error) {
	parts, ok := strings.CutPrefix(path, "/")
	if !ok {
		return nil, "", fmt.Errorf("%w: path %q", ErrInvalid, clip(path))
	}
	in = p.root
	for {
		part, rest, more := strings.Cut(parts, "/")
		if err := p.open(in); err != nil {
			return nil, "", fmt.Errorf("%w: %q", err, clip(path))
		}
		part = unescape.Replace(part)
		if !more {
			return in, part, nil
		}
		i, err := p.child(in, part)
		if err != nil {
			return nil, "", fmt.Errorf("%w: %q", err, clip(path))
		}
		in, parts = in.kids[i], rest
	}
}

var unescape = strings.NewReplacer("~1", "/", "~0", "~")

// child returns the index of the child of in with that name.
func (p *patching) child(in *tree, name string) (int, error) {
	if in.kind == '[' {
		return index(name, len(in.kids))
	}
	if err := p.spend(len(in.kids)); err != nil {
		return 0, err
	}
	if i := in.member(name); i >= 0 {
		return i, nil
	}
	return 0, fmt.Errorf("%w: no such member", ErrInvalid)
}

// index parses an array index below n.
func index(s string, n int) (int, error) {
	i, err := strconv.Atoi(s)
	if err != nil || i < 0 || i >= n || strconv.Itoa(i) != s {
		return 0, fmt.Errorf("%w: no element %q", ErrInvalid, clip(s))
	}
	return i, nil
}

// member returns the index of the member with that name; of several the last,
// like most readers of JSON.
func (t *tree) member(name string) int {
	for i, kid := range slices.Backward(t.kids) {
		if inner := kid.name[1 : len(kid.name)-1]; bytes.IndexByte(inner, '\\') < 0 {
			if string(inner) == name {
				return i
			}
			continue
		}
		var s string
		if json.Unmarshal(kid.name, &s) == nil && s == name {
			return i
		}
	}
	return -1
}

// open parses an object or array, one level deep.
func (p *patching) open(t *tree) error {
	if t.kind != 0 {
		return nil
	}
	b := t.raw
	if b[0] != '{' && b[0] != '[' {
		return fmt.Errorf("%w: neither object nor array", ErrInvalid)
	}
	if err := p.spend(len(b)); err != nil {
		return err
	}
	t.kind, t.raw = b[0], nil
	for rest := b[1:]; rest[0] != '}' && rest[0] != ']'; {
		kid := new(tree)
		if t.kind == '{' {
			n := stringLen(rest)
			kid.name, rest = rest[:n], rest[n+1:] // and the colon
		}
		n := valueLen(rest)
		kid.raw, rest = rest[:n], rest[n:]
		t.kids = append(t.kids, kid)
		if rest[0] == ',' {
			rest = rest[1:]
		}
	}
	return nil
}

// valueLen returns the length of the value at the beginning of compact JSON.
func valueLen(b []byte) int {
	depth := 0
	for i := 0; i < len(b); i++ {
		switch b[i] {
		case '"':
			i += stringLen(b[i:]) - 1
		case '{', '[':
			depth++
		case '}', ']':
			depth--
			if depth < 0 {
				return i
			}
		case ',', ':':
			if depth == 0 {
				return i
			}
			continue
		}
		if depth == 0 && (i+1 == len(b) || b[i] == '"' || b[i] == '}' || b[i] == ']') {
			return i + 1
		}
	}
	return len(b)
}

// compact returns the document.
func (p *patching) compact() ([]byte, error) { return p.write(nil, p.root, 0) }

// maxDepth is the maximum nesting depth of package json, and of the result.
const maxDepth = 10_000

// write appends a value at nesting depth depth.
func (p *patching) write(dst []byte, t *tree, depth int) ([]byte, error) {
	if t.kind == 0 {
		return append(dst, t.raw...), p.spend(len(t.raw))
	}
	if depth > maxDepth {
		return nil, fmt.Errorf("nested too deep: %w", ErrTooLarge)
	}
	dst = append(dst, t.kind)
	for i, kid := range t.kids {
		if i > 0 {
			dst = append(dst, ',')
		}
		if t.kind == '{' {
			dst = append(append(dst, kid.name...), ':')
		}
		if err := p.spend(1 + len(kid.name)); err != nil {
			return nil, err
		}
		var err error
		if dst, err = p.write(dst, kid, depth+1); err != nil {
			return nil, err
		}
	}
	return append(dst, t.kind+2), nil // '}' and ']' are '{' and '[' plus two
}

// quote returns a name as a JSON string, with no more escapes than it needs.
func quote(name string) []byte {
	var buf bytes.Buffer
	e := json.NewEncoder(&buf)
	e.SetEscapeHTML(false)
	_ = e.Encode(name) // a string can always be encoded, and a Buffer never fails
	return bytes.TrimSuffix(buf.Bytes(), []byte("\n"))
}

// clip shortens untrusted text for an error.
func clip(s string) string {
	const most = 64
	if len(s) > most {
		return s[:most] + "…"
	}
	return s
}
