package patch_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"pgregory.net/rapid"

	"lockstep/patch"
)

// value draws a JSON value.
func value(t *rapid.T, depth int) any {
	switch kind := rapid.IntRange(0, 6).Draw(t, "kind"); {
	case kind == 0 && depth > 0:
		m := make(map[string]any)
		for range rapid.IntRange(0, 4).Draw(t, "members") {
			m[name(t)] = value(t, depth-1)
		}
		return m
	case kind == 1 && depth > 0:
		a := make([]any, rapid.IntRange(0, 4).Draw(t, "elements"))
		for i := range a {
			a[i] = value(t, depth-1)
		}
		return a
	case kind == 2:
		return rapid.IntRange(-9, 9).Draw(t, "number")
	case kind == 3:
		return rapid.Bool().Draw(t, "bool")
	case kind == 4:
		return nil
	}
	return rapid.StringMatching(`[a-c<&"\\/~é ]{0,5}`).Draw(t, "string")
}

// name draws the name of a member: never empty, because the other
// implementation handles empty names differently.
func name(t *rapid.T) string {
	return rapid.SampledFrom([]string{"a", "b", "c", "a/b", "~", "~1", "é", `"`, "0", "-"}).Draw(t, "name")
}

// pointer draws a JSON Pointer, mostly to something in v.
func pointer(t *rapid.T, v any) string {
	var p strings.Builder
	for {
		var next string
		switch c := v.(type) {
		case map[string]any:
			next = name(t)
			v = c[next]
		case []any:
			i := rapid.IntRange(0, len(c)).Draw(t, "index")
			next = fmt.Sprint(i)
			if v = nil; i < len(c) {
				v = c[i]
			}
		default:
			return p.String()
		}
		p.WriteString("/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(next))
		if rapid.Bool().Draw(t, "end") {
			return p.String()
		}
	}
}

func encode(t tb, v any) []byte {
	t.Helper()
	b, err := json.Marshal(v)
	must(t, err)
	return b
}

// TestJSONPatchOther: random patches give the same result with another
// implementation, and are refused if it refuses them. There are no test
// operations: some make it panic.
func TestJSONPatchOther(t *testing.T) {
	t.Parallel()
	applied := 0
	rapid.Check(t, func(t *rapid.T) {
		for range 40 {
			doc := map[string]any{"a": value(t, 3), "b": value(t, 3), "c": value(t, 3)}
			var ops []map[string]any
			for range rapid.IntRange(1, 3).Draw(t, "operations") {
				op := map[string]any{"op": rapid.SampledFrom([]string{"add", "remove", "replace", "move", "copy"}).Draw(t, "op"), "path": pointer(t, doc)}
				switch op["op"] {
				case "add", "replace":
					op["value"] = value(t, 2)
				case "move", "copy":
					op["from"] = pointer(t, doc)
				}
				// The other implementation differs on operations on the whole document, and on
				// moving a value into itself.
				if from, ok := op["from"].(string); op["path"] == "" || ok && (from == "" || strings.HasPrefix(op["path"].(string), from)) {
					continue
				}
				ops = append(ops, op)
			}
			if ops == nil {
				continue
			}
			before, text := encode(t, doc), encode(t, ops)
			got, err := patch.ApplyJSON(before, text, 1<<20)
			p, err2 := jsonpatch.DecodePatch(text)
			must(t, err2)
			want, err2 := p.Apply(before)
			if (err == nil) != (err2 == nil) || err == nil && !sameJSON(got, want) {
				t.Fatalf("%s with %s: %s, %v; the other has %s, %v", before, text, got, err, want, err2)
			}
			if err == nil {
				applied++
			}
		}
	})
	if applied == 0 {
		t.Error("no patch applied at all")
	}
}

// TestJSONPatchMade: for any two documents with sorted members, as programs
// write them, a patch is made that yields the second, if it adds no member
// before another.
func TestJSONPatchMade(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		for range 40 {
			before, after := encode(t, []any{value(t, 3), value(t, 3)}), encode(t, []any{value(t, 3), value(t, 3)})
			p := patch.MakeJSON(before, after)
			if p == nil {
				continue
			}
			if got, err := patch.ApplyJSON(before, p, 1<<20); err != nil || string(got) != string(after) {
				t.Fatalf("%s with %s: %s, %v; want %s", before, p, got, err, after)
			}
			checkOther(t, "made", string(before), p, string(after))
		}
	})
}
