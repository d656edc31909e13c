package patch

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/wI2L/jsondiff"
)

// A JSON Patch turns one JSON value into another, not bytes into bytes. What is
// announced must yield the very bytes of the new version's hash (RS-REL-34), so
// both sides agree on how the result is written, which is how the old version is
// written: its layout (see layouts) and whether it ends in a newline; members in
// the order of the old version, added ones behind them; what a patch does not
// touch as it was spelt. Where the new version is not written so there is no
// JSON Patch of it, only a delta.

// maxJSON is up to how many bytes of JSON are patched as such: trees take many
// times the memory of their text, and a delta serves large documents better.
const maxJSON = 1 << 20

// maxPatchWork bounds what a JSON Patch can make us do, counted in
// members and bytes looked at: a second or two.
const maxPatchWork = 1 << 28

// MakeJSON returns a JSON Patch that turns before into after, or nil if there is
// none that does, byte for byte.
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

// unmarshalExact keeps numbers as they are spelt.
func unmarshalExact(data []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	return d.Decode(v)
}

// encodeOperations writes a patch as RFC 6902 has it, without the escapes that
// package json adds for the sake of HTML: they would end up in the document.
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

// ApplyJSON returns what patch, of type [TypeJSON] (RFC 6902), makes of the JSON
// document old, written in the layout of old: at most limit bytes, and at most
// 1 MiB, else [ErrTooLarge]. That holds for old and patch, too. A patch that is
// none, or does not apply, or a document in a layout that is none of ours, is
// refused with [ErrInvalid]. Time and memory are bounded, whatever patch holds.
// The caller verifies the result against the hash that was announced
// (RS-REL-34); one of another Source may well be written in another manner.
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

// applyJSON has change patch the tree of old, and writes it in old's layout.
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
