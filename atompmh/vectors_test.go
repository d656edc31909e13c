package atompmh_test

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"lockstep/atompmh"
)

var update = flag.Bool("update", false, "rewrite what the vectors expect")

// TestVectors compares the Reader's result for each feed with the comment at its
// beginning; the README next to the feeds describes the format. Some of the
// examples have no authors, two alternates of one type, or an entry that is
// later than its feed (AP-AMB-09).
func TestVectors(t *testing.T) {
	t.Parallel()
	paths, err := filepath.Glob(filepath.Join("..", "testdata", "feeds", "*.xml"))
	if err != nil || len(paths) < 6 {
		t.Fatalf("%d vectors: %v", len(paths), err)
	}
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".xml"), func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			head, doc, found := bytes.Cut(text, []byte("-->\n"))
			title, want, _ := strings.Cut(string(head), "\n")
			if !found {
				t.Fatal("the file does not begin with a comment")
			}
			got := outcome(doc)
			if got == want {
				return
			}
			if !*update {
				t.Fatalf("got:\n%s\nwant:\n%s", got, want)
			}
			if err := os.WriteFile(path, fmt.Appendf(nil, "%s\n%s-->\n%s", title, got, doc), 0o644); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// outcome describes the Reader's result for doc.
func outcome(doc []byte) string {
	var b strings.Builder
	got, err := read(bytes.NewReader(doc), atompmh.ReaderOptions{Base: "https://vectors.example/feed.xml"})
	rules := slices.Compact(slices.Sorted(slices.Values(got.rules)))
	switch {
	case err != nil:
		fmt.Fprintf(&b, "expect: refused\nerror: %v\n", err)
	case len(rules) > 0:
		b.WriteString("expect: accepted with warnings\n")
	default:
		b.WriteString("expect: accepted\n")
	}
	if len(rules) > 0 {
		fmt.Fprintf(&b, "warnings: %s\n", strings.Join(rules, " "))
	}
	if err == nil {
		f := got.feed
		fmt.Fprintf(&b, "feed: %s updated=%s", f.ID, f.Updated.Format(time.RFC3339Nano))
		for _, l := range []struct{ rel, href string }{
			{"self", f.Self}, {"current", f.Current}, {"prev-archive", f.PrevArchive}, {"next-archive", f.NextArchive},
		} {
			if l.href != "" {
				fmt.Fprintf(&b, " [%s %s]", l.rel, l.href)
			}
		}
		if f.Archive {
			b.WriteString(" archive")
		}
		if f.Complete {
			b.WriteString(" complete")
		}
		b.WriteString("\n")
	}
	for _, e := range got.entries {
		fmt.Fprintf(&b, "entry: %s %s updated=%s", e.ID, e.Kind, e.Updated.Format(time.RFC3339Nano))
		for _, l := range e.Links {
			fmt.Fprintf(&b, " [%s %s type=%s]", l.Rel, l.Href, l.Type)
		}
		b.WriteString("\n")
	}
	return b.String()
}
