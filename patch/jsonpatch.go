package patch

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/wI2L/jsondiff"
)

// A JSON Patch converts one JSON value to another, not bytes to bytes. The
// result must have exactly the bytes of the new version's hash (RS-REL-34), so
// both sides must agree on its form, which is that of the old version: its
// layout (see layouts) and whether it ends in a newline; members in the order of
// the old version, added ones after them; unchanged values in their spelling. If
// the new version has another form there is no JSON Patch for it, only a delta.

// maxJSON is the maximum size of JSON documents that are patched as such: trees
// take many times the memory of their text, and a delta suits large documents
// better.
const maxJSON = 1 << 20

// maxPatchWork bounds the work of applying a JSON Patch, counted in visited
// members and bytes: a second or two.
const maxPatchWork = 1 << 28

// MakeJSON returns a JSON Patch that converts before to after, byte for byte, or
// nil if there is none.
func MakeJSON(before, after []byte) []byte {
	if len(before) > maxJSON || len(after) > maxJSON || !hasLayout(before) || !hasLayout(after) {
		return nil
	}
	ops, err := jsondiff.CompareJSON(before, after, jsondiff.UnmarshalFunc(unmarshalExact))
	if err != nil {
		return nil
	}
	patch, err := encodeOperations(ops)
	if err != nil {
		return nil
	}
	if got, err := ApplyJSON(before, patch, int64(len(after))); err != nil || !bytes.Equal(got, after) {
		return nil
	}
	return patch
}

func hasLayout(doc []byte) bool {
	_, _, err := readJSON(doc)
	return err == nil
}

// unmarshalExact keeps the spelling of numbers.
func unmarshalExact(data []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	return d.Decode(v)
}

// encodeOperations encodes a patch according to RFC 6902, without the escapes
// that package json adds for HTML: they would become part of the document.
func encodeOperations(ops jsondiff.Patch) ([]byte, error) {
	type plain struct {
		Op    string `json:"op"`
		Path  string `json:"path"`
		Value any    `json:"value"`
	}
	type remove struct {
		Op   string `json:"op"`
		Path string `json:"path"`
	}
	list := make([]any, 0, len(ops))
	for _, op := range ops {
		switch op.Type {
		case jsondiff.OperationAdd, jsondiff.OperationReplace:
			list = append(list, plain{op.Type, op.Path, op.Value})
		case jsondiff.OperationRemove:
			list = append(list, remove{op.Type, op.Path})
		default:
			return nil, fmt.Errorf("operation %q: %w", op.Type, ErrInvalid)
		}
	}
	var buf bytes.Buffer
	e := json.NewEncoder(&buf)
	e.SetEscapeHTML(false)
	if err := e.Encode(list); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(buf.Bytes(), []byte("\n")), nil
}

// ApplyJSON applies patch, of type [TypeJSON] (RFC 6902), to the JSON document
// old and returns the result in the layout of old. old, patch and result may
// have at most limit bytes and at most 1 MiB, else ApplyJSON returns
// [ErrTooLarge]. It returns [ErrInvalid] for an invalid patch, one that does not
// apply, or a document in an unknown layout. Time and memory are bounded,
// whatever patch contains. The caller verifies the result against the announced
// hash (RS-REL-34); another Source may well use another form.
func ApplyJSON(old, patch []byte, limit int64) ([]byte, error) {
	out, err := applyJSON(old, patch, limit, func(p *patching) error {
		var ops []operation
		if err := json.Unmarshal(patch, &ops); err != nil {
			return fmt.Errorf("%w: %w", ErrInvalid, err)
		}
		if ops == nil { // null
			return fmt.Errorf("%w: no array", ErrInvalid)
		}
		for i := range ops {
			if err := p.apply(&ops[i]); err != nil {
				return fmt.Errorf("operation %d: %w", i, err)
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("apply JSON patch: %w", err)
	}
	return out, nil
}

// applyJSON makes change patch the tree of old, and writes it in old's layout.
func applyJSON(old, patch []byte, limit int64, change func(*patching) error) ([]byte, error) {
	limit = min(max(limit, 0), maxJSON)
	if len(old) > maxJSON || len(patch) > maxJSON {
		return nil, fmt.Errorf("%d bytes to %d: %w", len(patch), len(old), ErrTooLarge)
	}
	doc, l, err := readJSON(old)
	if err != nil {
		return nil, err
	}
	p := &patching{root: &tree{raw: doc}, room: maxJSON}
	if err := change(p); err != nil {
		return nil, err
	}
	compact, err := p.compact()
	if err != nil {
		return nil, err
	}
	if !json.Valid(compact) {
		return nil, fmt.Errorf("result nested too deep: %w", ErrTooLarge)
	}
	out, ok := l.render(compact, int(limit))
	if !ok {
		return nil, fmt.Errorf("result above %d bytes: %w", limit, ErrTooLarge)
	}
	return out, nil
}
