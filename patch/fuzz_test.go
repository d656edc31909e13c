package patch_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"testing"

	"lockstep/patch"
)

func refused(err error) bool {
	return errors.Is(err, patch.ErrInvalid) || errors.Is(err, patch.ErrTooLarge)
}

// FuzzDelta: generated deltas apply, whatever the bytes; others are refused.
func FuzzDelta(f *testing.F) {
	f.Add([]byte("old bytes, a few of them"), []byte("new bytes, a few of them"), []byte("x"))
	d, err := deltas.Make(prose(1, 3000), edit(prose(1, 3000), 2))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(prose(1, 3000), edit(prose(1, 3000), 2), d[40:])
	f.Fuzz(func(t *testing.T, before, after, frame []byte) {
		p, err := deltas.Make(before, after)
		if err != nil {
			t.Fatal(err)
		}
		got, err := patch.ApplyDelta(before, p, int64(len(after)))
		if err != nil || !bytes.Equal(got, after) {
			t.Fatalf("got %d bytes, %v", len(got), err)
		}
		const limit = 1 << 16
		got, err = patch.ApplyDelta(before, append(p[:40:40], frame...), limit)
		if len(got) > limit || err != nil && !refused(err) {
			t.Fatalf("%d bytes, %v", len(got), err)
		}
		if _, err := patch.ApplyDelta(before, frame, limit); err != nil && !refused(err) {
			t.Fatal(err)
		}
	})
}

// FuzzJSONPatch: any patch is handled safely, a result is JSON, and a patch
// made from two documents converts one to the other.
func FuzzJSONPatch(f *testing.F) {
	f.Add([]byte(object(1, "", 1)), []byte(`[{"op":"replace","path":"/version","value":2}]`), []byte(object(1, "", 2)))
	f.Add([]byte(`{"a":[1,{"b":"\u0041"}]}`), []byte(`[{"op":"move","from":"/a/1","path":"/c"},{"op":"copy","from":"","path":"/d"}]`), []byte(`{"a":[1],"c":2}`))
	f.Add([]byte("[\n\t1\n]\n"), []byte(`[{"op":"test","path":"/0","value":1.0},{"op":"add","path":"/-","value":{}}]`), []byte("[\n\t1,\n\t{}\n]\n"))
	f.Add([]byte(`{"a": 1, "b": "x, y: z"}`), []byte(`[{"op":"remove","path":"/a"}]`), []byte(`{"b": "x, y: z"}`))
	f.Fuzz(func(t *testing.T, before, ops, after []byte) {
		const limit = 1 << 16
		got, err := patch.ApplyJSON(before, ops, limit)
		if err != nil && !refused(err) {
			t.Fatal(err)
		}
		if err == nil && (!json.Valid(got) || len(got) > limit) {
			t.Fatalf("%q with %q yields %q", before, ops, got)
		}
		p := patch.MakeJSON(before, after)
		if p == nil {
			return
		}
		got, err = patch.ApplyJSON(before, p, int64(len(after)))
		if err != nil || !bytes.Equal(got, after) {
			t.Fatalf("%q with %q yields %q, want %q, %v", before, p, got, after, err)
		}
	})
}
