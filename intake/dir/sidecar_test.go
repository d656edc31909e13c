package dir_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"lockstep/catalog"
	"lockstep/intake"
	"lockstep/intake/dir"
	"lockstep/intake/internal/pathname"
)

const carSuffix = ".links.json"

func via(href string) string { return `{"links":[{"rel":"via","href":"` + href + `"}]}` }

// linked returns what the catalog holds: paths and what they are linked to.
func linked(t tb, cat catalog.Catalog) string {
	t.Helper()
	var all []string
	for r, err := range cat.Resources(context.Background(), set, catalog.Range{}) {
		must(t, err)
		s := strings.TrimPrefix(r.URI, base)
		for _, l := range r.Links {
			s += fmt.Sprintf(" <%s %s>", l.Rel, l.Href)
		}
		if !r.Foreign.IsZero() {
			s += " " + r.Foreign.String()
		}
		all = append(all, s)
	}
	return strings.Join(all, ", ")
}

func TestSidecar(t *testing.T) {
	t.Parallel()
	root, cat := t.TempDir(), catalog.NewMem(nil)
	d := newDir(t, root, cat, dir.Options{Sidecar: carSuffix, Include: []string{"*.pdf", "dir/"}, Exclude: []string{"secret.pdf"}})
	for _, s := range sidecarSteps(t, root) {
		s.do()
		time.Sleep(120 * time.Millisecond) // or files would be read again to be sure
		scan := func(how string, r intake.Report, err error) {
			must(t, err)
			if got := linked(t, cat); got != s.want {
				t.Errorf("%s, %s: the catalog holds %s, want %s", s.name, how, got, s.want)
			}
			var got []string
			for _, p := range r.Unreadable.First {
				got = append(got, p.String())
			}
			if diff := cmp.Diff(s.problems, got); diff != "" {
				t.Errorf("%s, %s: problems (-want +got)\n%s", s.name, how, diff)
			}
		}
		var hashed int64
		if s.path != "" {
			r, err := d.ScanPaths(t.Context(), s.path)
			scan("alone", r, err)
			hashed += r.Hashed
		}
		r, err := d.Scan(t.Context())
		scan("whole", r, err)
		if hashed += r.Hashed; hashed != s.hashed {
			t.Errorf("%s: %d files were read, want %d", s.name, hashed, s.hashed)
		}
	}
	if _, _, err := d.Open("c.pdf" + carSuffix); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("open a sidecar: %v, want fs.ErrNotExist", err)
	}
	r := scan(t, newDir(t, root, cat, dir.Options{Sidecar: carSuffix}))
	orphans := 0
	for _, p := range r.Skipped.First {
		if strings.Contains(p.String(), "no resource to which its links belong") {
			orphans++
		}
	}
	if orphans != 2 { // of text.txt, which is not there, and of c.pdf, now a directory
		t.Errorf("%d orphans, want 2: %v", orphans, r.Skipped.First)
	}
}

// A sidecarStep changes files and says what then holds.
type sidecarStep struct {
	name     string
	do       func()
	path     string // scanned alone, too
	want     string
	hashed   int64
	problems []string
}

func sidecarSteps(t *testing.T, root string) []sidecarStep {
	remove := func(rel string) func() { return func() { must(t, os.Remove(filepath.Join(root, rel))) } }
	put := func(rel, text string) func() { return func() { write(t, root, rel, text) } }
	return []sidecarStep{
		{"without", func() {
			write(t, root, "a.pdf", "A")
			write(t, root, "a-b.pdf", "B")
			write(t, root, "secret.pdf", "S")
			write(t, root, "secret.pdf"+carSuffix, "not looked at")
			write(t, root, "text.txt"+carSuffix, "likewise")
			write(t, root, "dir/x y", "X")
			write(t, root, carSuffix, "no sidecar, and not included")
		}, "", "a-b.pdf, a.pdf, dir/x%20y", 3, nil},
		{"new", put("a.pdf"+carSuffix, via("urn:a")), "a.pdf" + carSuffix, "a-b.pdf, a.pdf <via urn:a>, dir/x%20y", 0, nil},
		{"quiet", func() {}, "", "a-b.pdf, a.pdf <via urn:a>, dir/x%20y", 0, nil},
		{"escaped", put("dir/x y"+carSuffix, via("urn:x")), "dir", "a-b.pdf, a.pdf <via urn:a>, dir/x%20y <via urn:x>", 0, nil},
		{"changed", put("a.pdf"+carSuffix, via("urn:longer")), "a.pdf", "a-b.pdf, a.pdf <via urn:longer>, dir/x%20y <via urn:x>", 0, nil},
		{"malformed", put("a.pdf"+carSuffix, `{"links":[{"rel":"via"}]}`), "a.pdf" + carSuffix, "a-b.pdf, a.pdf <via urn:longer>, dir/x%20y <via urn:x>", 0,
			[]string{`"a.pdf.links.json": byte 10: links[0].href: is missing`}},
		{"malformed still", put("a.pdf", "A2"), "a.pdf", "a-b.pdf, a.pdf <via urn:longer>, dir/x%20y <via urn:x>", 1,
			[]string{`"a.pdf.links.json": byte 10: links[0].href: is missing`}},
		{"a patch", put("a.pdf"+carSuffix, `{"links":[{"rel":"http://www.openarchives.org/rs/terms/patch","href":"urn:p","type":"a/b"}]}`), "",
			"a-b.pdf, a.pdf <via urn:longer>, dir/x%20y <via urn:x>", 0, []string{`"a.pdf.links.json": byte 0: a patch belongs to one change, so a sidecar cannot contain one`}},
		{"too large", put("a.pdf"+carSuffix, strings.Repeat(" ", 1<<20+1)), "", "a-b.pdf, a.pdf <via urn:longer>, dir/x%20y <via urn:x>", 0,
			[]string{`"a.pdf.links.json": larger than 1048576 bytes`}},
		{"foreign", put("a.pdf"+carSuffix, `{"links":[{"rel":"via","href":"urn:a"}],"foreign":"<foreign xmlns:x='urn:x' x:a='1'/>"}`), "a.pdf" + carSuffix,
			`a-b.pdf, a.pdf <via urn:a> <foreign xmlns:x="urn:x" x:a="1"/>, dir/x%20y <via urn:x>`, 0, nil},
		{"other foreign", put("a.pdf"+carSuffix, `{"foreign":"<foreign xmlns:x='urn:x' x:a='2'/>"}`), "", `a-b.pdf, a.pdf <foreign xmlns:x="urn:x" x:a="2"/>, dir/x%20y <via urn:x>`, 0, nil},
		{"malformed foreign", put("a.pdf"+carSuffix, `{"foreign":"<other/>"}`), "a.pdf", `a-b.pdf, a.pdf <foreign xmlns:x="urn:x" x:a="2"/>, dir/x%20y <via urn:x>`, 0,
			[]string{`"a.pdf.links.json": byte 1: foreign: invalid foreign markup: its root element is not <foreign>`}},
		{"removed", remove("a.pdf" + carSuffix), "a.pdf" + carSuffix, "a-b.pdf, a.pdf, dir/x%20y <via urn:x>", 0, nil},
		{"alone", func() { must(t, os.Rename(filepath.Join(root, "a.pdf"), filepath.Join(root, "c.pdf"))) }, "", "a-b.pdf, c.pdf, dir/x%20y <via urn:x>", 1, nil},
		{"both", func() {
			write(t, root, "c.pdf", "C2")
			write(t, root, "c.pdf"+carSuffix, via("urn:c"))
		}, "c.pdf", "a-b.pdf, c.pdf <via urn:c>, dir/x%20y <via urn:x>", 1, nil},
		{"link", func() {
			must(t, os.Remove(filepath.Join(root, "dir/x y"+carSuffix)))
			must(t, os.Symlink("../c.pdf"+carSuffix, filepath.Join(root, "dir/x y"+carSuffix)))
		}, "", "a-b.pdf, c.pdf <via urn:c>, dir/x%20y <via urn:c>", 0, nil},
		{"link outside", func() {
			must(t, os.Remove(filepath.Join(root, "dir/x y"+carSuffix)))
			must(t, os.Symlink("/etc/passwd", filepath.Join(root, "dir/x y"+carSuffix)))
		}, "", "a-b.pdf, c.pdf <via urn:c>, dir/x%20y", 0, nil},
		{"orphan", func() {
			must(t, os.Remove(filepath.Join(root, "dir/x y"+carSuffix)))
			must(t, os.Remove(filepath.Join(root, "c.pdf")))
			must(t, os.Mkdir(filepath.Join(root, "c.pdf"), 0o755))
		}, "", "a-b.pdf, dir/x%20y", 0, nil},
	}
}

// TestSidecarSwitch turns the option on and off again.
func TestSidecarSwitch(t *testing.T) {
	t.Parallel()
	root, cat := t.TempDir(), catalog.NewMem(nil)
	write(t, root, "a", "A")
	write(t, root, "a"+carSuffix, via("urn:a"))
	for i, want := range []string{"a, a" + carSuffix, "a <via urn:a>", "a, a" + carSuffix} {
		o := dir.Options{}
		if i == 1 {
			o.Sidecar = carSuffix
		}
		scan(t, newDir(t, root, cat, o))
		if got := linked(t, cat); got != want {
			t.Errorf("scan %d: %s, want %s", i, got, want)
		}
	}
	if _, err := dir.New(root, cat, set, dir.Options{BaseURI: base, Sidecar: "a/b"}); err == nil {
		t.Error("a suffix with a slash was taken")
	}
}

func TestSidecarWatch(t *testing.T) {
	t.Parallel()
	root, cat := t.TempDir(), catalog.NewMem(nil)
	write(t, root, "dir/a.pdf", "A")
	d := newDir(t, root, cat, dir.Options{Sidecar: carSuffix, Include: []string{"*.pdf"}, Exclude: []string{"*.json"}})
	ctx, cancel := context.WithCancel(t.Context())
	told, done := make(chan intake.Report, 10), make(chan error)
	go func() { done <- d.Watch(ctx, func(r intake.Report) { told <- r }) }()
	defer func() { cancel(); <-done }()
	car := filepath.Join(root, "dir/a.pdf"+carSuffix)
	for i, s := range []struct {
		do   func() error
		want string
	}{
		{func() error { return nil }, "dir/a.pdf"},
		{func() error { return os.WriteFile(car, []byte(via("urn:a")), 0o644) }, "dir/a.pdf <via urn:a>"},
		{func() error { return os.WriteFile(car, []byte(via("urn:b")), 0o644) }, "dir/a.pdf <via urn:b>"},
		{func() error { return os.Rename(car, car+"x") }, "dir/a.pdf"},
	} {
		must(t, s.do())
		select {
		case <-told:
		case <-time.After(time.Minute):
			t.Fatalf("step %d: nobody told", i)
		}
		if got := linked(t, cat); got != s.want {
			t.Errorf("step %d: %s, want %s", i, got, s.want)
		}
	}
}

// TestSidecarLife changes files and sidecars at random; scans in part and whole
// must agree with a look at what is there.
func TestSidecarLife(t *testing.T) {
	t.Parallel()
	root, cat := t.TempDir(), catalog.NewMem(nil)
	d := newDir(t, root, cat, dir.Options{Sidecar: carSuffix, AllowEmpty: true})
	rnd := rand.New(rand.NewPCG(1, 2))
	names := []string{"a", "a-", "a.b", "d/a", "d/\xff", "d/e/%"}
	files, cars := make(map[string]bool), make(map[string]string)
	for range 80 {
		for range 1 + rnd.IntN(4) {
			name := names[rnd.IntN(len(names))]
			switch rnd.IntN(4) {
			case 0:
				write(t, root, name, strings.Repeat("x", rnd.IntN(9)))
				files[name] = true
			case 1:
				href := fmt.Sprint("urn:x", rnd.IntN(1e6))
				write(t, root, name+carSuffix, via(href))
				cars[name] = href
			case 2:
				_ = os.Remove(filepath.Join(root, name)) // may not be there
				delete(files, name)
			case 3:
				_ = os.Remove(filepath.Join(root, name+carSuffix)) // likewise
				delete(cars, name)
			}
		}
		if rnd.IntN(2) == 0 {
			scan(t, d)
		} else if _, err := d.ScanPaths(t.Context(), "a", "a-", "a.b", "d"); err != nil {
			t.Fatal(err)
		}
		want := make(map[string]string)
		for name := range files {
			want[base+pathname.EscapePath(name)] = cars[name]
		}
		got := make(map[string]string)
		for r, err := range cat.Resources(t.Context(), set, catalog.Range{}) {
			must(t, err)
			got[r.URI] = ""
			if len(r.Links) > 0 {
				got[r.URI] = r.Links[0].Href
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("(-want +got)\n%s", diff)
		}
	}
}
