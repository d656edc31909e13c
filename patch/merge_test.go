package patch_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"lockstep/patch"
)

// TestMergePatchVectors: the examples of RFC 7396, from its appendix A and its
// text.
func TestMergePatchVectors(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ doc, patch, want string }{ // want "": refused
		{`{"a":"b"}`, `{"a":"c"}`, `{"a":"c"}`},
		{`{"a":"b"}`, `{"b":"c"}`, `{"a":"b","b":"c"}`},
		{`{"a":"b"}`, `{"a":null}`, `{}`},
		{`{"a":"b","b":"c"}`, `{"a":null}`, `{"b":"c"}`},
		{`{"a":["b"]}`, `{"a":"c"}`, `{"a":"c"}`},
		{`{"a":"c"}`, `{"a":["b"]}`, `{"a":["b"]}`},
		{`{"a":{"b":"c"}}`, `{"a":{"b":"d","c":null}}`, `{"a":{"b":"d"}}`},
		{`{"a":[{"b":"c"}]}`, `{"a":[1]}`, `{"a":[1]}`},
		{`["a","b"]`, `["c","d"]`, `["c","d"]`},
		{`{"a":"b"}`, `["c"]`, `["c"]`},
		{`{"a":"foo"}`, `null`, `null`},
		{`{"a":"foo"}`, `"bar"`, `"bar"`},
		{`{"e":null}`, `{"a":1}`, `{"e":null,"a":1}`},
		{`[1,2]`, `{"a":"b","c":null}`, `{"a":"b"}`},
		{`{}`, `{"a":{"bb":{"ccc":null}}}`, `{"a":{"bb":{}}}`},
		{"{\n  \"title\": \"Goodbye!\",\n  \"author\": {\n    \"given\": \"John\",\n    \"family\": \"Doe\"\n  },\n  \"n\": 1.0\n}\n",
			`{"author":{"family":null},"tags":["x"]}`,
			"{\n  \"title\": \"Goodbye!\",\n  \"author\": {\n    \"given\": \"John\"\n  },\n  \"n\": 1.0,\n  \"tags\": [\n    \"x\"\n  ]\n}\n"},
		{`{"a\u0062":1}`, `{"ab":2}`, `{"a\u0062":2}`},
		{`{"a":1}`, `{"a":`, ``},
		{`{"a":1}`, ``, ``},
		{`{"a":`, `{}`, ``},
	} {
		got, err := patch.Apply(patch.TypeMerge+"; charset=utf-8", []byte(tt.doc), []byte(tt.patch), 1<<20)
		if string(got) != tt.want || (err == nil) != (tt.want != "") || err != nil && !errors.Is(err, patch.ErrInvalid) {
			t.Errorf("%s with %s: %s, %v; want %s", tt.doc, tt.patch, got, err, tt.want)
		}
	}
}

func TestMergePatchHostile(t *testing.T) {
	t.Parallel()
	start := time.Now()
	for name, tt := range map[string]struct{ doc, patch string }{
		"depth":   {`{}`, strings.Repeat(`{"a":`, 150_000) + "1" + strings.Repeat("}", 150_000)},
		"width":   {`{` + strings.Repeat(`"a":1,`, 100_000) + `"b":1}`, `{` + strings.Repeat(`"c":1,`, 100_000) + `"b":1}`},
		"levels":  {`{}`, strings.Repeat(`{"a":`, 9000) + strings.Repeat(" ", 900_000) + "{}" + strings.Repeat("}", 9000)},
		"to much": {`{}`, `{"a":"` + strings.Repeat("x", 1<<20) + `"}`},
	} {
		if out, err := patch.ApplyMerge([]byte(tt.doc), []byte(tt.patch), 1<<20); err != nil && !refused(err) || len(out) > 1<<20 {
			t.Errorf("%s: %d bytes, %v", name, len(out), err)
		}
	}
	most := 20 * time.Second
	if underRace {
		most *= 4
	}
	if took := time.Since(start); took > most {
		t.Errorf("took %s", took)
	}
}

// TestApplyTypes: the media type determines the format of a patch, in any
// spelling.
func TestApplyTypes(t *testing.T) {
	t.Parallel()
	old, ops := []byte(`{"a":1}`), []byte(`[{"op":"remove","path":"/a"}]`)
	for _, name := range []string{"application/json-patch+json", "application/json-patch", " Application/JSON-Patch+json ; charset=utf-8"} {
		if got, err := patch.Apply(name, old, ops, 100); !patch.Known(name) || err != nil || string(got) != "{}" {
			t.Errorf("%s: %s, %v", name, got, err)
		}
	}
	for _, name := range []string{"", "application/json", "application/x-vcdiff"} {
		if _, err := patch.Apply(name, old, ops, 100); patch.Known(name) || !errors.Is(err, patch.ErrType) {
			t.Errorf("%s: %v, want ErrType", name, err)
		}
	}
}

// FuzzMergePatch: any patch is handled safely, and a result is JSON.
func FuzzMergePatch(f *testing.F) {
	f.Add([]byte(`{"a":{"b":1},"c":[1]}`), []byte(`{"a":{"b":null,"d":2},"c":{}}`))
	f.Add([]byte("[\n\t1\n]\n"), []byte(`{"a":null}`))
	f.Fuzz(func(t *testing.T, before, merge []byte) {
		const limit = 1 << 16
		got, err := patch.ApplyMerge(before, merge, limit)
		if err != nil {
			if !refused(err) {
				t.Fatal(err)
			}
			return
		}
		if !json.Valid(got) || len(got) > limit {
			t.Fatalf("%q with %q yields %q", before, merge, got)
		}
	})
}
