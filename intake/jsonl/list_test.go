package jsonl_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"lockstep/catalog"
	"lockstep/intake"
	"lockstep/intake/jsonl"
)

// list writes lines to a file that has been left alone for a while.
func list(t testing.TB, path string, lines ...string) {
	t.Helper()
	must(t, os.WriteFile(path, []byte(strings.Join(lines, "\n")+"\n"), 0o644))
	rest(t, path)
}

// rest makes a file look as if it had not been modified for an hour.
func rest(t testing.TB, path string) {
	t.Helper()
	old := time.Now().Add(-time.Hour)
	must(t, os.Chtimes(path, old, old))
}

func newJSONL(t testing.TB, path string, cat catalog.Catalog, o jsonl.Options) *jsonl.List {
	t.Helper()
	j, err := jsonl.New(path, cat, set, o)
	must(t, err)
	return j
}

// said returns what the catalog holds: URI and length.
func said(t testing.TB, cat catalog.Catalog) map[string]int64 {
	t.Helper()
	m := make(map[string]int64)
	for r, err := range cat.Resources(context.Background(), set, catalog.Range{}) {
		must(t, err)
		m[r.URI] = r.Length
	}
	return m
}

func counts(r intake.Report) string {
	return fmt.Sprintf("%d created, %d updated, %d deleted, %d unchanged, %d listed, %d unreadable",
		r.Created, r.Updated, r.Deleted, r.Unchanged, r.Files, r.Unreadable.Count)
}

func TestJSONLWhole(t *testing.T) {
	t.Parallel()
	cat, path := catalog.NewMem(nil), filepath.Join(t.TempDir(), "list.jsonl")
	j := newJSONL(t, path, cat, jsonl.Options{})
	steps := []struct {
		lines []string
		want  string
		holds map[string]int64
	}{
		{
			[]string{"\xef\xbb\xbf" + `{"uri":"http://x.example/b","length":1}` + "\r", "", `  {"uri":"http://x.example/a","length":2}`},
			"2 created, 0 updated, 0 deleted, 0 unchanged, 2 listed, 0 unreadable",
			map[string]int64{"http://x.example/a": 2, "http://x.example/b": 1},
		},
		{ // nothing new
			[]string{`{"uri":"http://x.example/a","length":2}`, `{"uri":"http://x.example/b","length":1}`},
			"0 created, 0 updated, 0 deleted, 2 unchanged, 2 listed, 0 unreadable",
			map[string]int64{"http://x.example/a": 2, "http://x.example/b": 1},
		},
		{ // the last of several counts; what is not named is gone
			[]string{`{"uri":"http://x.example/a","length":3}`, `{"uri":"http://x.example/c"}`, `{"uri":"http://x.example/a","length":4}`},
			"1 created, 1 updated, 1 deleted, 0 unchanged, 2 listed, 0 unreadable",
			map[string]int64{"http://x.example/a": 4, "http://x.example/c": -1},
		},
		{ // a bad line: the rest goes on, nothing is gone
			[]string{`{"uri":"http://x.example/d","length":-4}`, `{"uri":"http://x.example/e"}`},
			"1 created, 0 updated, 0 deleted, 0 unchanged, 1 listed, 1 unreadable",
			map[string]int64{"http://x.example/a": 4, "http://x.example/c": -1, "http://x.example/e": -1},
		},
		{ // a list of changes: nothing is gone but what is deleted
			[]string{`{"uri":"http://x.example/a","change":"deleted"}`, `{"uri":"http://x.example/c","length":7}`, `{"uri":"http://x.example/nobody","change":"deleted"}`},
			"0 created, 1 updated, 1 deleted, 1 unchanged, 3 listed, 0 unreadable",
			map[string]int64{"http://x.example/c": 7, "http://x.example/e": -1},
		},
	}
	for i, s := range steps {
		list(t, path, s.lines...)
		r, err := j.Scan(t.Context())
		must(t, err)
		if got := counts(r); got != s.want {
			t.Errorf("step %d: %s, want %s; %v", i, got, s.want, r.Unreadable.First)
		}
		if diff := cmp.Diff(s.holds, said(t, cat)); diff != "" {
			t.Errorf("step %d: (-want +got)\n%s", i, diff)
		}
	}
}

// TestJSONLProblems sees to the words.
func TestJSONLProblems(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "list.jsonl")
	list(t, path,
		`{"uri":"http://x.example/a","title":"A","url":"x","more":{"deep":[1,-2.5e3,null,true,"x"]}}`,
		`{"title":"no name"}`,
		`[{"uri":"http://x.example/a"}]`,
		`{"uri":"`+strings.Repeat("a", 1<<20)+`"}`,
		`{"uri":"http://x.example/b","lastModified":"2024-05-17","links":[{"rel":"via","href":"urn:x","title":"x"}]}`,
		`{"uri":"http://x.example/`+"\xff"+`"}`,
		`{"uri":"http://x.example/c"`,
	)
	b, err := os.ReadFile(path)
	must(t, err)
	must(t, os.WriteFile(path, b[:len(b)-1], 0o644)) // the last line has no end
	rest(t, path)
	cat := catalog.NewMem(nil)
	r, err := newJSONL(t, path, cat, jsonl.Options{}).Scan(t.Context())
	must(t, err)
	var got []string
	for _, p := range slices.Concat(r.Unreadable.First, r.Skipped.First) {
		got = append(got, strings.TrimPrefix(p.String(), fmt.Sprintf("%q: ", path)))
	}
	want := []string{
		`line 2, byte 0: uri: is missing`,
		`line 3, byte 0: is an array, want an object`,
		`line 4: longer than 1048576 bytes`,
		`line 6, byte 8: malformed JSON: a string that is not UTF-8`,
		`line 7: the last line has no end: the list broke off, or is still being written`,
		`line 1: the field "more" is unknown and ignored`,
		`line 1: the field "title" is unknown and ignored`,
		`line 1: the field "url" is unknown and ignored (did you mean uri?)`,
		`line 5: the field "lastModified" is unknown and ignored (did you mean lastmod?)`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if n := len(said(t, cat)); n != 2 {
		t.Errorf("the catalog holds %d resources, want 2", n)
	}
}

func TestJSONLForeign(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, tt := range []struct{ name, text, want string }{
		{"gzip", "\x1f\x8b\x08x", "gzip"},
		{"utf16", "\xff\xfe{\x00", "UTF-16"},
	} {
		path := filepath.Join(dir, tt.name)
		must(t, os.WriteFile(path, []byte(tt.text), 0o644))
		_, err := newJSONL(t, path, catalog.NewMem(nil), jsonl.Options{}).Scan(t.Context())
		if err == nil || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v, want one about %s", tt.name, err, tt.want)
		}
	}
	for _, path := range []string{dir, filepath.Join(dir, "nothing")} {
		if _, err := newJSONL(t, path, catalog.NewMem(nil), jsonl.Options{}).Scan(t.Context()); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v, want an error that names it", path, err)
		}
	}
}

// TestJSONLMassDeletion deletes neither all nor most without consent.
func TestJSONLMassDeletion(t *testing.T) {
	t.Parallel()
	lines := func(n int) (ls []string) {
		for i := range n {
			ls = append(ls, fmt.Sprintf(`{"uri":"http://x.example/%d"}`, i))
		}
		return ls
	}
	for _, tt := range []struct {
		before, after int
		refused       bool
	}{{1, 0, true}, {3, 0, true}, {6, 0, true}, {100, 1, false}, {202, 101, false}, {202, 100, true}, {300, 0, true}} {
		cat, path := catalog.NewMem(nil), filepath.Join(t.TempDir(), "list.jsonl")
		list(t, path, lines(tt.before)...)
		_, err := newJSONL(t, path, cat, jsonl.Options{}).Scan(t.Context())
		must(t, err)
		list(t, path, lines(tt.after)...)
		_, err = newJSONL(t, path, cat, jsonl.Options{}).Scan(t.Context())
		if got := errors.Is(err, intake.ErrEmpty); got != tt.refused || err != nil != tt.refused {
			t.Errorf("%d to %d: %v, refused should be %t", tt.before, tt.after, err, tt.refused)
		}
		want := tt.after
		if tt.refused {
			want = tt.before
		}
		if got := len(said(t, cat)); got != want {
			t.Errorf("%d to %d: %d are left, want %d", tt.before, tt.after, got, want)
		}
		_, err = newJSONL(t, path, cat, jsonl.Options{AllowEmpty: true}).Scan(t.Context())
		must(t, err)
		if got := len(said(t, cat)); got != tt.after {
			t.Errorf("%d to %d, agreed to: %d are left", tt.before, tt.after, got)
		}
	}
}

// TestJSONLRestart reads nothing again that stands as it did, also in the next
// life, unless the catalog is another.
func TestJSONLRestart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path, state := filepath.Join(dir, "list.jsonl"), filepath.Join(dir, "state.json")
	list(t, path, `{"uri":"http://x.example/a"}`, `{"uri":"http://x.example/b","length":1}`)
	cat := catalog.NewMem(nil)
	scan := func(cat catalog.Catalog) intake.Report {
		t.Helper()
		r, err := newJSONL(t, path, cat, jsonl.Options{State: state}).Scan(t.Context())
		must(t, err)
		return r
	}
	time.Sleep(150 * time.Millisecond) // the change time cannot be set
	scan(cat)
	if r := scan(cat); r.Bytes != 0 || r.Unchanged != 2 || r.Files != 2 {
		t.Errorf("the second life read %d bytes: %s", r.Bytes, counts(r))
	}
	if r := scan(catalog.NewMem(nil)); r.Created != 2 {
		t.Errorf("with another catalog: %s", counts(r))
	}
	scan(cat) // what is remembered is of the other
	must(t, os.WriteFile(state, []byte("not ours"), 0o600))
	if r := scan(cat); r.Bytes == 0 || r.Unchanged != 2 {
		t.Errorf("without memory: %s", counts(r))
	}
}

// TestJSONLGrowing reads of a list of changes that grows what is new.
func TestJSONLGrowing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path, state := filepath.Join(dir, "list.jsonl"), filepath.Join(dir, "state.json")
	cat := catalog.NewMem(nil)
	var lines []string
	for i := range 12 {
		lines = append(lines, fmt.Sprintf(`{"uri":"http://x.example/%d","change":"created"}`, i))
		list(t, path, lines...)
		r, err := newJSONL(t, path, cat, jsonl.Options{State: state}).Scan(t.Context())
		must(t, err)
		if r.Files != 1 || r.Created != 1 {
			t.Fatalf("%d lines: %s", i+1, counts(r))
		}
	}
	lines[3] = `{"uri":"http://x.example/another-and-a-longer-one"}`
	list(t, path, append(lines, `{"uri":`)...)
	r, err := newJSONL(t, path, cat, jsonl.Options{State: state}).Scan(t.Context())
	must(t, err)
	if r.Files != 12 || r.Created != 1 || r.Unreadable.Count != 1 || r.Unreadable.First[0].Err.Error() != "line 13, byte 7: malformed JSON: ends where a string should be" {
		t.Errorf("rewritten: %s, %v", counts(r), r.Unreadable.First)
	}
}

// TestJSONLGrowingPieces reads a list of changes whose last line is not whole.
func TestJSONLGrowingPieces(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path, o := filepath.Join(dir, "list.jsonl"), jsonl.Options{State: filepath.Join(dir, "state.json")}
	cat := catalog.NewMem(nil)
	j := newJSONL(t, path, cat, o)
	text := ""
	for i, piece := range []string{
		`{"uri":"http://x.example/a","change":"created"}` + "\n" + `{"uri":"http://x.exam`, `ple/b"}` + "\n",
		`{"uri":"http://x.example/c"}`, "\n" + `{"uri":"http://x.example/d"}` + "\nx", "\n" + `{"uri":"http://x.example/e"}` + "\n",
		`{"uri":"http://x.example/f"}` + "\n",
	} {
		text += piece
		must(t, os.WriteFile(path, []byte(text), 0o644))
		rest(t, path)
		r, err := j.Scan(t.Context())
		must(t, err)
		if got, want := len(said(t, cat)), i+1; got != want {
			t.Errorf("after piece %d: %d are there, want %d", i, got, want)
		}
		if i == 5 { // reported before, but not by this process
			r, err := newJSONL(t, path, cat, o).Scan(t.Context())
			if err != nil || r.Unreadable.Count != 1 {
				t.Errorf("in the next life: %v, problems %v", err, r.Unreadable.First)
			}
		}
		if got, want := r.Unreadable.Count > 0, i == 0 || i > 2 && i < 5; got != want {
			t.Errorf("after piece %d: problems %v", i, r.Unreadable.First)
		}
	}
}

// TestJSONLHalfWritten does not take a list that is being written for whole.
func TestJSONLHalfWritten(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "list.jsonl")
	cat := &readCatalog{Catalog: catalog.NewMem(nil), read: make(chan struct{}, 100)}
	all := []string{`{"uri":"http://x.example/a"}`, `{"uri":"http://x.example/b"}`, `{"uri":"http://x.example/c"}`}
	const settled = 2 * time.Second
	for tries := 1; ; tries++ {
		list(t, path, all...)
		j := newJSONL(t, path, cat, jsonl.Options{})
		_, err := j.Scan(t.Context())
		must(t, err)
		began := time.Now()
		must(t, os.WriteFile(path, []byte(all[0]+"\n"), 0o644)) // and more to come
		cat.drain()
		done := make(chan intake.Report, 1)
		go func() {
			r, err := j.Scan(t.Context())
			if err != nil {
				t.Error(err)
			}
			done <- r
		}()
		<-cat.read                         // after the lines were
		time.Sleep(300 * time.Millisecond) // in which a scan that does not wait ends
		must(t, os.WriteFile(path, []byte(strings.Join(all, "\n")+"\n"), 0o644))
		late := time.Since(began) > settled*9/10 // a loaded machine: the list may have been taken for whole
		if r := <-done; late && tries < 20 {
			continue
		} else if r.Deleted > 0 || r.Unreadable.Count != 1 || !errors.Is(r.Unreadable.First[0].Err, intake.ErrChanging) {
			t.Errorf("%s, %v; want ErrChanging, and nothing deleted", counts(r), r.Unreadable.First)
		}
		if got := len(said(t, cat)); got != len(all) {
			t.Errorf("%d are left, want %d", got, len(all))
		}
		return
	}
}

// A readCatalog notes when its resources are read.
type readCatalog struct {
	catalog.Catalog
	read chan struct{}
}

func (c *readCatalog) Resources(ctx context.Context, set string, within catalog.Range) iter.Seq2[catalog.Record, error] {
	select {
	case c.read <- struct{}{}:
	default:
	}
	return c.Catalog.Resources(ctx, set, within)
}

// drain forgets what was noted.
func (c *readCatalog) drain() {
	for len(c.read) > 0 {
		<-c.read
	}
}

// TestJSONLOrder sorts what does not fit in memory, with repetitions.
func TestJSONLOrder(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "list.jsonl")
	f, err := os.Create(path)
	must(t, err)
	const n, of = 60_000, 7919 * 7
	pad := strings.Repeat("x", 150)
	want := make(map[string]int64)
	for i := range int64(n) {
		uri := fmt.Sprintf("http://x.example/%s/%d", pad, i*7919%of)
		want[uri] = i
		fmt.Fprintf(f, "{\"uri\":%q,\"length\":%d}\n", uri, i)
	}
	must(t, f.Close())
	rest(t, path)
	cat := catalog.NewMem(nil)
	j := newJSONL(t, path, cat, jsonl.Options{TempDir: t.TempDir()})
	if _, err := j.Scan(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := said(t, cat); !maps.Equal(got, want) {
		t.Errorf("the catalog holds %d resources, want %d, or of other lengths", len(got), len(want))
	}
}

// TestJSONLWatch sees changes, waits for the end of writing, and survives that
// the file is away.
// TestJSONLStream takes in what comes while it comes.
func TestJSONLStream(t *testing.T) {
	t.Parallel()
	cat := catalog.NewMem(nil)
	in, out := io.Pipe()
	defer out.Close()
	var problems []string
	j := jsonl.NewStream(in, "standard input", cat, set, jsonl.Options{OnEvent: func(e intake.Event) {
		if e.Kind == intake.EventUnreadable {
			problems = append(problems, e.Path+": "+e.Err.Error())
		}
	}})
	ctx, cancel := context.WithCancel(t.Context())
	reported, done := make(chan intake.Report, 10), make(chan error)
	go func() { done <- j.Watch(ctx, func(r intake.Report) { reported <- r }) }()
	for _, tt := range []struct {
		text string
		want string
	}{
		{`{"uri":"http://a","length":1}`, "1 created, 0 updated, 0 deleted, 0 unchanged, 1 listed, 0 unreadable"},
		{`{"uri":"http://a","length":2}` + "\n" + `{"uri":"http://b"}`, "1 created, 1 updated, 0 deleted, 0 unchanged, 2 listed, 0 unreadable"},
		{"x\n" + `{"uri":"http://a","change":"deleted"}`, "0 created, 0 updated, 1 deleted, 0 unchanged, 1 listed, 1 unreadable"},
	} {
		begin := time.Now()
		if _, err := io.WriteString(out, tt.text+"\n"); err != nil {
			t.Fatal(err)
		}
		select {
		case r := <-reported:
			if got := counts(r); got != tt.want {
				t.Errorf("%s: %s, want %s", tt.text, got, tt.want)
			}
			if d := time.Since(begin); d > 30*time.Second {
				t.Errorf("%s: told after %s, want soon", tt.text, d)
			}
		case <-time.After(time.Minute):
			t.Fatalf("%s: nobody told", tt.text)
		}
	}
	must(t, out.Close())
	time.Sleep(20 * time.Millisecond) // the end of the stream is not that of the watch
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("Watch = %v, want context.Canceled", err)
	}
	if want := []string{"standard input: line 4, byte 0: malformed JSON: 'x' where an object should be"}; !slices.Equal(problems, want) {
		t.Errorf("problems %q, want %q", problems, want)
	}
}

func TestJSONLStreamComplete(t *testing.T) {
	t.Parallel()
	cat := catalog.NewMem(nil)
	for _, tt := range []struct {
		text, want string
	}{
		{"{\"uri\":\"http://a\"}\n{\"uri\":\"http://b\"}", "2 created, 0 updated, 0 deleted, 0 unchanged, 2 listed, 0 unreadable"},
		{"{\"uri\":\"http://a\"}\n{\"uri\":\"http://c\"}\nx\n", "1 created, 0 updated, 0 deleted, 1 unchanged, 2 listed, 1 unreadable"},
		{"{\"uri\":\"http://c\"}\n", "0 created, 0 updated, 2 deleted, 1 unchanged, 1 listed, 0 unreadable"},
	} {
		j := jsonl.NewStream(strings.NewReader(tt.text), "-", cat, set, jsonl.Options{Complete: true})
		r, err := j.Scan(t.Context())
		must(t, err)
		if got := counts(r); got != tt.want {
			t.Errorf("%q: %s, want %s", tt.text, got, tt.want)
		}
		if r, err := j.Scan(t.Context()); err != nil || r.Files != 0 || r.Changed() {
			t.Errorf("%q: read again: %s, %v", tt.text, counts(r), err)
		}
	}
	broken := io.MultiReader(strings.NewReader("{\"uri\":\"http://x\"}\n"), brokenReader{})
	_, err := jsonl.NewStream(broken, "-", cat, set, jsonl.Options{Complete: true}).Scan(t.Context())
	if !errors.Is(err, errBroken) {
		t.Errorf("a stream that breaks: %v, want %v", err, errBroken)
	}
	if got := said(t, cat); len(got) != 1 {
		t.Errorf("a stream that breaks left %v", got)
	}
}

var errBroken = errors.New("broken")

type brokenReader struct{}

func (brokenReader) Read([]byte) (int, error) { return 0, errBroken }
