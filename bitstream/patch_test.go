package bitstream_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"lockstep/bitstream"
	"lockstep/patch"
	"lockstep/resourcesync"
)

// prose returns text that compresses a little, as real documents do.
func prose(seed uint64, n int) []byte {
	r := rand.New(rand.NewPCG(seed, 0))
	words := strings.Fields("resource sync capability list change dump manifest and the of a in which every entry has one")
	var b bytes.Buffer
	for b.Len() < n {
		fmt.Fprintf(&b, "%s %d ", words[r.IntN(len(words))], r.IntN(1e6))
	}
	return b.Bytes()[:n]
}

// noise returns 8 KB of incompressible text.
func noise(seed uint64) string {
	r := rand.New(rand.NewPCG(seed, 1))
	b := make([]byte, 8<<10)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return string(b)
}

// jsonNoise returns a document that has nothing in common with another.
func jsonNoise(seed uint64) string {
	return fmt.Sprintf(`{"a":"%s"}`, base64.StdEncoding.EncodeToString([]byte(noise(seed))))
}

// edit returns doc with n short insertions.
func edit(doc []byte, n int) []byte {
	out := bytes.Clone(doc)
	for i := range n {
		at := (i + 1) * len(out) / (n + 1)
		out = append(out[:at:at], append([]byte("<edited>"), out[at:]...)...)
	}
	return out
}

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

// TestPatches: updates get links to patches from the old bytes to the new.
func TestPatches(t *testing.T) {
	t.Parallel()
	w := newWorld(t, t.TempDir(), nil, nil, bitstream.SetOptions{Past: true, Patches: &bitstream.PatchOptions{MaxBytes: 2 << 20}})
	versions := map[string][]string{
		"small.txt":  {string(prose(1, 8<<10)), string(edit(prose(1, 8<<10), 1)), string(edit(prose(1, 8<<10), 3))},
		"large.txt":  {string(prose(2, 1<<20)), string(edit(prose(2, 1<<20), 1)), string(edit(prose(2, 1<<20), 2))},
		"huge.txt":   {string(prose(3, 3<<20)), string(edit(prose(3, 3<<20), 1)), string(edit(prose(3, 3<<20), 2))},
		"tiny.txt":   {"a", "b", "c"},
		"tiny.json":  {`{"a":1}`, `{"a":2}`, strings.Repeat(" ", 2000) + `{"a":2}`},
		"other.txt":  {noise(4), noise(5), noise(6)},
		"new.json":   {jsonNoise(1), jsonNoise(2), jsonNoise(3)},
		"data.json":  {object(1, "  ", 1), object(1, "  ", 2), object(1, "  ", 3)},
		"touch.json": {object(2, "", 1), object(2, "", 2), object(3, "\t", 2)},
	}
	want := map[string][]string{ // media types, per change
		"small.txt": {patch.TypeDelta, patch.TypeDelta}, "large.txt": {patch.TypeDelta, patch.TypeDelta},
		"huge.txt": {"", ""}, "tiny.txt": {"", ""}, "tiny.json": {"", patch.TypeDelta}, "new.json": {"", ""}, "other.txt": {"", ""},
		"data.json":  {patch.TypeJSON + " " + patch.TypeDelta, patch.TypeJSON + " " + patch.TypeDelta},
		"touch.json": {patch.TypeJSON + " " + patch.TypeDelta, patch.TypeDelta},
	}
	for i := range 3 {
		for name, texts := range versions {
			write(t, w.root, name, texts[i])
		}
		w.scan(t)
		if i == 0 {
			write(t, w.root, "small.txt", versions["small.txt"][1])
			w.scan(t)
			write(t, w.root, "small.txt", versions["small.txt"][0])
			w.scan(t)
			if len(w.puts.all) != 0 {
				t.Errorf("%d patches made before anybody could know what they apply to", len(w.puts.all))
			}
			w.mark(t)
		}
	}
	got := make(map[string][]string)
	for _, c := range w.changes(t) {
		name := strings.TrimPrefix(c.URI, base)
		n := len(got[name])
		var types []string
		for _, l := range c.Links {
			if l.Rel != resourcesync.RelPatch {
				t.Errorf("%s: link %v", name, l)
			}
			types = append(types, l.Type)
			w.checkPatch(t, l, versions[name][n], versions[name][n+1])
		}
		got[name] = append(got[name], strings.Join(types, " "))
	}
	for name := range want {
		if strings.Join(got[name], "|") != strings.Join(want[name], "|") {
			t.Errorf("%s: patches %q, want %q", name, got[name], want[name])
		}
	}
	w.sweep(t)
	if n := w.blobs(t); n != 18 {
		t.Errorf("%d representations kept, want those of 18 changes", n)
	}
}

// checkPatch applies a patch that was announced.
func (w *world) checkPatch(t tb, l resourcesync.Link, before, after string) {
	t.Helper()
	p := w.puts.all[l.Href]
	sum := sha256.Sum256(p)
	if int64(len(p)) != l.Length || l.Hashes.Get(resourcesync.SHA256) != string(sum[:]) || len(p) > len(after)/2 {
		t.Errorf("patch of %d bytes to %d, link %v", len(p), len(after), l)
	}
	if got, err := patch.Apply(l.Type, []byte(before), p, int64(len(after))); err != nil || string(got) != after {
		t.Errorf("%s yields %d bytes, %v", l.Type, len(got), err)
	}
}

// TestPatchesFail: a change is recorded even if its patch cannot be published.
func TestPatchesFail(t *testing.T) {
	t.Parallel()
	w := newWorld(t, t.TempDir(), nil, nil, bitstream.SetOptions{Patches: &bitstream.PatchOptions{
		Put: func(context.Context, string, []byte) (string, error) { return "", errors.New("disk full") }}})
	write(t, w.root, "a", string(prose(1, 8<<10)))
	w.scan(t)
	w.mark(t)
	write(t, w.root, "a", string(edit(prose(1, 8<<10), 1)))
	w.scan(t)
	cs := w.changes(t)
	if len(cs) != 1 || len(cs[0].Links) != 0 {
		t.Errorf("changes %v, want one without links", cs)
	}
}
