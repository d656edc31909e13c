package patch_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	jsonpatch "github.com/evanphx/json-patch/v5"

	"lockstep/patch"
)

// object returns a JSON document in a layout, in which version differs.
func object(seed int, indent string, version int) string {
	var b bytes.Buffer
	fmt.Fprintf(&b, `{"title":"T","version":%d,"authors":[{"name":"A & B <c@d>","born":1950.0},null,[]],"abstract":%q,"tags":{}}`,
		version, strings.Repeat(fmt.Sprint("text of ", seed, " "), 400))
	if indent == "" {
		return b.String()
	}
	var out bytes.Buffer
	_ = json.Indent(&out, b.Bytes(), "", indent) // it is valid JSON
	return out.String() + "\n"
}

// TestJSONPatchVectors: the examples of RFC 6902, mostly from its appendix A.
func TestJSONPatchVectors(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ doc, patch, want string }{ // want "": refused
		{`{"foo":"bar"}`, `[{"op":"add","path":"/baz","value":"qux"}]`, `{"foo":"bar","baz":"qux"}`},
		{`{"foo":["bar","baz"]}`, `[{"op":"add","path":"/foo/1","value":"qux"}]`, `{"foo":["bar","qux","baz"]}`},
		{`{"foo":["bar"]}`, `[{"op":"add","path":"/foo/1","value":"qux"}]`, `{"foo":["bar","qux"]}`},
		{`{"foo":["bar"]}`, `[{"op":"add","path":"/foo/2","value":"qux"}]`, ``},
		{`{"baz":"qux","foo":"bar"}`, `[{"op":"remove","path":"/baz"}]`, `{"foo":"bar"}`},
		{`{"foo":["bar","qux","baz"]}`, `[{"op":"remove","path":"/foo/1"}]`, `{"foo":["bar","baz"]}`},
		{`{"baz":"qux","foo":"bar"}`, `[{"op":"replace","path":"/baz","value":"boo"}]`, `{"baz":"boo","foo":"bar"}`},
		{`{"foo":{"bar":"baz","waldo":"fred"},"qux":{"corge":"grault"}}`, `[{"op":"move","from":"/foo/waldo","path":"/qux/thud"}]`,
			`{"foo":{"bar":"baz"},"qux":{"corge":"grault","thud":"fred"}}`},
		{`{"foo":["all","grass","cows","eat"]}`, `[{"op":"move","from":"/foo/1","path":"/foo/3"}]`, `{"foo":["all","cows","eat","grass"]}`},
		{`{"baz":"qux","foo":["a",2,"c"]}`, `[{"op":"test","path":"/baz","value":"qux"},{"op":"test","path":"/foo/1","value":2}]`, `{"baz":"qux","foo":["a",2,"c"]}`},
		{`{"baz":"qux"}`, `[{"op":"test","path":"/baz","value":"bar"}]`, ``},
		{`{"foo":"bar"}`, `[{"op":"add","path":"/child","value":{"grandchild":{}}}]`, `{"foo":"bar","child":{"grandchild":{}}}`},
		{`{"foo":"bar"}`, `[{"op":"add","path":"/baz","value":"qux","xyz":123}]`, `{"foo":"bar","baz":"qux"}`},
		{`{"foo":"bar"}`, `[{"op":"add","path":"/baz/bat","value":"qux"}]`, ``},
		{`{"/":9,"~1":10}`, `[{"op":"test","path":"/~01","value":10}]`, `{"/":9,"~1":10}`},
		{`{"/":9,"~1":10}`, `[{"op":"test","path":"/~01","value":"10"}]`, ``},
		{`{"foo":["bar"]}`, `[{"op":"add","path":"/foo/-","value":["abc","def"]}]`, `{"foo":["bar",["abc","def"]]}`},
		{`{"":1,"a":2}`, `[{"op":"replace","path":"/","value":3}]`, `{"":3,"a":2}`},
		{`{"a\u0062":1}`, `[{"op":"replace","path":"/ab","value":2}]`, `{"a\u0062":2}`},
		{`{"a":1,"b":[{"c":1.0},2]}`, `[{"op":"test","path":"","value":{"b":[{"c":1},2.0],"a":1e0}}]`, `{"a":1,"b":[{"c":1.0},2]}`},
		{`{"a":{"b":1}}`, `[{"op":"copy","from":"/a","path":"/c"},{"op":"replace","path":"/c/b","value":2}]`, `{"a":{"b":1},"c":{"b":2}}`},
		{`{"a":{"b":1}}`, `[{"op":"move","from":"/a","path":"/a/c"}]`, ``},
		{`{"a":{"b":1}}`, `[{"op":"move","from":"/a","path":"/a"}]`, `{"a":{"b":1}}`},
		{`[1,2]`, `[{"op":"replace","path":"","value":"x"}]`, `"x"`},
		{`[1,2]`, `[{"op":"replace","path":"/-","value":"x"}]`, ``},
		{`[1,2]`, `[{"op":"remove","path":"/01"}]`, ``},
		{`[1,2]`, `[{"op":"remove","path":"/-1"}]`, ``},
		{`[1,2]`, `[{"op":"remove","path":""}]`, ``},
		{`[1,2]`, `[{"op":"remove","path":"1"}]`, ``},
		{`[1,2]`, `[{"op":"add","path":"/0"}]`, ``},
		{`[1,2]`, `[{"op":"add","path":"/0","value":null}]`, `[null,1,2]`},
		{`[1,2]`, `[{"op":"add","value":1}]`, ``},
		{`[1,2]`, `[{"op":"spam","path":"/0"}]`, ``},
		{`[1,2]`, `[{"op":"copy","path":"/0"}]`, ``},
		{`[1,2]`, `[]`, `[1,2]`},
		{`[1,2]`, `null`, ``},
		{`[1,2]`, `{}`, ``},
		{`[1,2]`, ``, ``},
		{``, `[]`, ``},
		{`[1,`, `[]`, ``},
	} {
		got, err := patch.ApplyJSON([]byte(tt.doc), []byte(tt.patch), 1<<20)
		if string(got) != tt.want || (err == nil) != (tt.want != "") || err != nil && !errors.Is(err, patch.ErrInvalid) {
			t.Errorf("%s with %s: %s, %v; want %s", tt.doc, tt.patch, got, err, tt.want)
		}
	}
}

// TestJSONPatchLayouts: a patch is made if it yields exactly the new bytes, in
// any common layout.
func TestJSONPatchLayouts(t *testing.T) {
	t.Parallel()
	python := func(s string) string {
		return strings.NewReplacer(`,"`, `, "`, `":`, `": `, `,{`, `, {`, `,null`, `, null`, `,[`, `, [`).Replace(s)
	}
	for _, tt := range []struct {
		name, before, after string
		patch               bool
	}{
		{"compact", object(1, "", 1), object(1, "", 2), true},
		{"compact, newline", object(1, "", 1) + "\n", object(1, "", 2) + "\n", true},
		{"newline goes", object(1, "", 1) + "\n", object(1, "", 2), false},
		{"two blanks", object(1, "  ", 1), object(1, "  ", 2), true},
		{"four blanks", object(1, "    ", 1), object(1, "    ", 2), true},
		{"tab", object(1, "\t", 1), object(1, "\t", 2), true},
		{"python", python(object(1, "", 1)), python(object(1, "", 2)), true},
		{"three blanks", object(1, "   ", 1), object(1, "   ", 2), false},
		{"another layout", object(1, "  ", 1), object(1, "\t", 2), false},
		{"member added last", `{"b":1}`, `{"b":1,"a":[{"x":1,"y":2}]}`, true},
		{"member added first", `{"b":1}`, `{"a":2,"b":1}`, false},
		{"member removed", `{"a":1,"b":1}`, `{"b":1}`, true},
		{"reordered", `{"a":1,"b":1}`, `{"b":1,"a":1}`, false},
		{"number spelt anew", `{"a":1.0}`, `{"a":1}`, true},
		{"large numbers", `{"a":12345678901234567890}`, `{"a":12345678901234567891}`, true},
		{"escapes", `{"a":"\u00e9"}`, `{"a":"é"}`, false}, // the same value: there is nothing to patch
		{"html", `{"a":"<&>"}`, `{"a":"<&>;"}`, true},
		{"elements", `[1,2,3]`, `[1,3]`, true},
		{"no JSON", `{"a":1}`, `{"a":`, false},
		{"was no JSON", `<a>`, `{"a":1}`, false},
	} {
		p := patch.MakeJSON([]byte(tt.before), []byte(tt.after))
		if (p != nil) != tt.patch {
			t.Errorf("%s: patch %s, want one: %v", tt.name, p, tt.patch)
		}
		if p == nil {
			continue
		}
		got, err := patch.ApplyJSON([]byte(tt.before), p, int64(len(tt.after)))
		if err != nil || string(got) != tt.after {
			t.Errorf("%s: %v, got\n%s, want\n%s", tt.name, err, got, tt.after)
		}
		checkOther(t, tt.name, tt.before, p, tt.after)
	}
}

// checkOther applies a patch with another implementation.
func checkOther(t tb, name, before string, p []byte, after string) {
	t.Helper()
	other, err := jsonpatch.DecodePatch(p)
	must(t, err)
	got, err := other.Apply([]byte(before))
	if err != nil || !sameJSON(got, []byte(after)) {
		t.Errorf("%s: another implementation makes %s of %s, %v", name, got, before, err)
	}
}

func sameJSON(a, b []byte) bool {
	var x, y any
	return json.Unmarshal(a, &x) == nil && json.Unmarshal(b, &y) == nil && reflect.DeepEqual(x, y)
}

// TestJSONPatchHostile: no input takes long, or much memory.
func TestJSONPatchHostile(t *testing.T) {
	t.Parallel()
	deep := strings.Repeat("[", 9000) + strings.Repeat("]", 9000)
	wide := "[" + strings.Repeat("0,", 1<<18) + "0]"
	ops := func(n int, op string) string { return "[" + strings.Repeat(op+",", n-1) + op + "]" }
	limit := 20 * time.Second
	if underRace {
		limit *= 10
	}
	for name, tt := range map[string]struct{ doc, patch string }{
		"copies":         {`{"a":["0123456789"]}`, ops(5000, `{"op":"copy","from":"","path":"/a/-"}`)},
		"insertions":     {wide, ops(20_000, `{"op":"add","path":"/0","value":0}`)},
		"removals":       {wide, ops(20_000, `{"op":"remove","path":"/0"}`)},
		"tests":          {wide, ops(20_000, `{"op":"test","path":"","value":1}`)},
		"depth":          {`{"a":` + deep + `}`, ops(1, `{"op":"copy","from":"","path":"/a`+strings.Repeat("/0", 8999)+`/-"}`)},
		"indentation":    {"[\n\t0\n]", `[{"op":"add","path":"/0","value":` + strings.Repeat("[", 9000) + strings.Repeat("0,", 100_000) + "0" + strings.Repeat("]", 9000) + `}]`},
		"copies removed": {`["` + strings.Repeat("x", 200<<10) + `"]`, ops(10, `{"op":"copy","from":"/0","path":"/1"},{"op":"remove","path":"/1"}`)},
		"large document": {strings.Repeat(" ", 2<<20), `[]`},
	} {
		start := time.Now()
		out, err := patch.ApplyJSON([]byte(tt.doc), []byte(tt.patch), 1<<30)
		if err == nil || out != nil || !errors.Is(err, patch.ErrInvalid) && !errors.Is(err, patch.ErrTooLarge) {
			t.Errorf("%s: %d bytes, %v; want it refused", name, len(out), err)
		}
		if took := time.Since(start); took > limit {
			t.Errorf("%s took %s", name, took)
		}
	}
	if _, err := patch.ApplyJSON([]byte(`[1]`), []byte(`[{"op":"add","path":"/0","value":1}]`), 4); !errors.Is(err, patch.ErrTooLarge) {
		t.Errorf("above the limit: %v", err)
	}
}
