package patch

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
)

// ApplyMerge applies patch, of type [TypeMerge] (RFC 7396), to the JSON
// document old: an object's members replace or, if they are null, remove those
// of the same name, and any other value replaces everything. The form and
// limits of the result are those of [ApplyJSON].
func ApplyMerge(old, patch []byte, limit int64) ([]byte, error) {
	out, err := applyJSON(old, patch, limit, func(p *patching) error {
		var merge bytes.Buffer
		if err := json.Compact(&merge, patch); err != nil {
			return fmt.Errorf("%w: %w", ErrInvalid, err)
		}
		var err error
		p.root, err = p.merge(p.root, merge.Bytes(), 0)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("apply JSON merge patch: %w", err)
	}
	return out, nil
}

// merge applies a merge patch in compact JSON to in, which is nil if there is no
// value yet.
func (p *patching) merge(in *tree, patch []byte, depth int) (*tree, error) {
	if err := p.spend(1); err != nil {
		return nil, err
	}
	if patch[0] != '{' {
		return &tree{raw: patch}, nil
	}
	if depth > maxDepth {
		return nil, fmt.Errorf("nested too deep: %w", ErrTooLarge)
	}
	from := &tree{raw: patch}
	if err := p.open(from); err != nil {
		return nil, err
	}
	if in == nil || in.kind == 0 && in.raw[0] != '{' || in.kind == '[' {
		in = &tree{kind: '{'}
	}
	if err := p.open(in); err != nil {
		return nil, err
	}
	for _, kid := range from.kids {
		if err := p.mergeMember(in, kid, depth); err != nil {
			return nil, err
		}
	}
	return in, nil
}

func (p *patching) mergeMember(in, kid *tree, depth int) error {
	var name string
	if err := json.Unmarshal(kid.name, &name); err != nil {
		return fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	if err := p.spend(len(in.kids)); err != nil {
		return err
	}
	i := in.member(name)
	if string(kid.raw) == "null" {
		if i >= 0 {
			in.kids = slices.Delete(in.kids, i, i+1)
		}
		return nil
	}
	var was *tree
	if i >= 0 {
		was = in.kids[i]
	}
	v, err := p.merge(was, kid.raw, depth+1)
	if err != nil {
		return err
	}
	if i >= 0 {
		v.name, in.kids[i] = in.kids[i].name, v
		return nil
	}
	v.name = kid.name
	in.kids = append(in.kids, v)
	return nil
}
