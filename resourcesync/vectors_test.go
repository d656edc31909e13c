package resourcesync_test

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"lockstep/resourcesync"
)

var update = flag.Bool("update", false, "rewrite what the vectors expect")

// A vector is a document with the result that every implementation must
// produce. In its file a comment before the document states the result; the
// document begins on the next line.
type vector struct {
	path  string
	title string
	want  string
	doc   []byte
}

// vectors reads the test vectors of the repository.
func vectors(t testing.TB) (vs []vector) {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join("..", "testdata", "vectors", "*.xml"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("no vectors: %v", err)
	}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		head, doc, found := bytes.Cut(text, []byte("-->\n"))
		title, want, _ := strings.Cut(strings.TrimPrefix(string(head), "<!-- "), "\n")
		if !found || title == "" {
			t.Fatalf("%s does not begin with a comment", path)
		}
		vs = append(vs, vector{path, title, want, doc})
	}
	return vs
}

// TestVectors compares the Reader's result for each vector with that in its
// comment; the README next to the vectors describes the format.
func TestVectors(t *testing.T) {
	t.Parallel()
	for _, v := range vectors(t) {
		t.Run(strings.TrimSuffix(filepath.Base(v.path), ".xml"), func(t *testing.T) {
			t.Parallel()
			got := outcome(v.doc)
			if got == v.want {
				return
			}
			if !*update {
				t.Fatalf("%s\ngot:\n%s\nwant:\n%s", v.title, got, v.want)
			}
			text := fmt.Sprintf("<!-- %s\n%s-->\n%s", v.title, got, v.doc)
			if err := os.WriteFile(v.path, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// outcome describes the Reader's result for doc.
func outcome(doc []byte) string {
	var b strings.Builder
	o := resourcesync.ReaderOptions{Base: "https://vectors.example/rs/document.xml", MaxBytes: 1 << 20}
	got, err := readFrom(bytes.NewReader(doc), o)
	o.Strict = true
	strict, strictErr := readFrom(bytes.NewReader(doc), o)
	switch {
	case err != nil:
		fmt.Fprintf(&b, "expect: refused\nerror: %s\n", plain(err.Error()))
	case strictErr != nil:
		fmt.Fprintf(&b, "expect: accepted with warnings\nstrictly: %s\n", plain(strictErr.Error()))
	default:
		fmt.Fprintf(&b, "expect: accepted\n")
	}
	if err == nil && strictErr == nil && len(strict.entries) != len(got.entries) {
		b.WriteString("strictly: other entries\n") // a bug
	}
	rules := map[string]bool{}
	for _, w := range got.warnings {
		rules[w.Rule] = true
	}
	if len(rules) > 0 {
		var ids []string
		for id := range rules {
			ids = append(ids, id)
		}
		slices.Sort(ids)
		fmt.Fprintf(&b, "warnings: %s\n", strings.Join(ids, " "))
	}
	if err == nil {
		fmt.Fprintf(&b, "header:%s\n", describeHeader(got.header))
	}
	for _, e := range got.entries {
		fmt.Fprintf(&b, "entry: %s\n", describeEntry(e))
	}
	if got.stats.Skipped > 0 {
		fmt.Fprintf(&b, "skipped: %d\n", got.stats.Skipped)
	}
	return b.String()
}

// plain makes s printable in one line of a comment.
func plain(s string) string {
	quoted := fmt.Sprintf("%+q", s)
	return strings.ReplaceAll(quoted[1:len(quoted)-1], "--", `-\-`)
}

func describeHeader(h resourcesync.Header) string {
	var b strings.Builder
	pair(&b, "capability", string(h.Capability))
	flags(&b, "index", h.Index)
	for _, t := range []struct {
		name string
		at   resourcesync.Datetime
	}{{"at", h.At}, {"completed", h.Completed}, {"from", h.From}, {"until", h.Until}, {"modified", h.Modified}} {
		pair(&b, t.name, t.at.String())
	}
	flags(&b, "approximate", h.Approximate)
	flags(&b, "unproven", h.FromUnproven)
	flags(&b, "living", h.Living)
	flags(&b, "open", h.Open())
	pair(&b, "dialect", h.Dialect)
	describeLinks(&b, h.Links)
	return b.String()
}

func describeEntry(e resourcesync.Entry) string {
	var b strings.Builder
	b.WriteString(plain(e.Loc))
	pair(&b, "lastmod", e.Lastmod.String())
	pair(&b, "changefreq", e.ChangeFreq)
	pair(&b, "capability", string(e.Capability))
	pair(&b, "change", e.Change.String())
	for _, t := range []struct {
		name string
		at   resourcesync.Datetime
	}{{"datetime", e.Datetime}, {"at", e.At}, {"completed", e.Completed}, {"from", e.From}, {"until", e.Until}} {
		pair(&b, t.name, t.at.String())
	}
	pair(&b, "hash", e.Hashes.String())
	if e.HasLength {
		pair(&b, "length", fmt.Sprint(e.Length))
	}
	pair(&b, "type", e.Type)
	pair(&b, "encoding", e.Encoding)
	pair(&b, "path", e.Path)
	pair(&b, "etag", e.ETag)
	describeLinks(&b, e.Links)
	return b.String()
}

func describeLinks(b *strings.Builder, links []resourcesync.Link) {
	for _, l := range links {
		b.WriteString(" [")
		b.WriteString(plain(l.Rel + " " + l.Href))
		pair(b, "type", l.Type)
		pair(b, "modified", l.Modified.String())
		pair(b, "hash", l.Hashes.String())
		if l.HasLength {
			pair(b, "length", fmt.Sprint(l.Length))
		}
		pair(b, "encoding", l.Encoding)
		if l.Pri != 0 {
			pair(b, "pri", fmt.Sprint(l.Pri))
		}
		pair(b, "path", l.Path)
		b.WriteString("]")
	}
}

func pair(b *strings.Builder, name, value string) {
	if value != "" {
		fmt.Fprintf(b, " %s=%s", name, plain(value))
	}
}

func flags(b *strings.Builder, name string, set bool) {
	if set {
		b.WriteString(" " + name)
	}
}
