package filename_test

import (
	"errors"
	"net/url"
	"path"
	"slices"
	"strings"
	"testing"

	"lockstep/destination/filename"
)

const origin = "https://data.example.org"

func newMapping(t testing.TB, o filename.Options) *filename.Mapping {
	t.Helper()
	if o.Origin == "" {
		o.Origin = origin
	}
	p, err := filename.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestPath(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 300)
	for _, tt := range []struct{ uri, posix, portable string }{
		// what files are called at a Source of ours
		{"/a/b.html", "a/b.html", ""},
		{"/a%20b", "a b", ""},
		{"/what%3F.txt", "what?.txt", "what%~3F.txt"},
		{"/c%23.cs", "c#.cs", ""},
		{"/100%25", "100%", ""},
		{"/%2520", "%20", ""},
		{"/na%C3%AFve", "naïve", ""},
		{"/nai%CC%88ve", "nai\u0308ve", "nai%~CC%~88ve"},
		{"/latin%E9", "latin\xe9", "latin%~E9"},
		{"/two%0Alines", "two\nlines", "two%~0Alines"},
		{"/q%22%3Cx%3E%7C%5C", "q\"<x>|\\", "q%~22%~3Cx%~3E%~7C%~5C"},
		{"/a*b:c", "a*b:c", "a%~=2Ab%~=3Ac"},
		{"/.hidden", ".hidden", ""},
		{"/...", "...", "..%~=2E"},
		{"/dot.", "dot.", "dot%~=2E"},
		{"/blank%20", "blank ", "blank%~20"},
		{"/x%25~y", "x%~25~y", ""},
		{"/x%25%25~", "x%%~25~", ""},
		// what only URIs do
		{"", "%~,", ""},
		{"/", "%~@", ""},
		{"/a/", "a/%~@", ""},
		{"//a///b", "%~@/a/%~@/%~@/b", ""},
		{"/a?b=/c&d=?", "a%~=3Fb=%~=2Fc&d=%~=3F", ""},
		{"?q", "%~,%~=3Fq", ""},
		{"/?q", "%~=3Fq", ""},
		{"/a#b/c", "a%~=23b%~=2Fc", ""},
		{"/a b", "a%~=20b", ""},
		{"/é", "%~=C3%~=A9", ""},
		{"/a%2Fb", "a%~2Fb", ""},
		{"/a%2fb", "a%~2fb", ""},
		{"/a%00b", "a%~00b", ""},
		{"/%41%7E%c3%A9", "%~41%~7E%~c3\xa9", "%~41%~7E%~c3%~A9"},
		{"/%zz%", "%~=25zz%~=25", ""},
		{"/./../x", "%~=2E/%~=2E./x", "%~=2E/%~=2E%~=2E/x"},
		{"/%2E%2E/x", "%~2E%~2E/x", ""},
		{"/.lockstep/state.db", "%~=2Elockstep/state.db", ""},
		{"/.LockStep", "%~=2ELockStep", ""},
		{"/.loc%E2%84%AAstep", "%~=2Eloc\u212astep", ".loc%~E2%~84%~AAstep"},
		{"/_other/x", "%~=5Fother/x", ""},
		{"/a/.lockstep/_other", "a/%~=2Elockstep/_other", ""},
		{"/a/b/.LockStep", "a/b/%~=2ELockStep", ""},
		{"/a/.loc%E2%84%AAstep/x", "a/%~=2Eloc\u212astep/x", "a/.loc%~E2%~84%~AAstep/x"},
		{"/a/%2Elockstep/x", "a/%~2Elockstep/x", ""},
		{"/a/.lockstep.", "a/.lockstep.", "a/.lockstep%~=2E"},
		{"/LOCKST~1/x", "LOCKST~1/x", "LOCKST%~=7E1/x"},
		{"/con", "con", "%~=63on"},
		{"/a/NUL.txt", "a/NUL.txt", "a/%~=4EUL.txt"},
		{"/a/console", "a/console", ""},
		{"/" + long + "/y", strings.Repeat("x", 240) + "%~_/" + strings.Repeat("x", 60) + "/y", ""},
		{"/" + strings.Repeat("x", 255), strings.Repeat("x", 255), ""},
		{"/" + strings.Repeat("%C3%A9", 127), strings.Repeat("é", 127), ""},
		{"/" + strings.Repeat("x", 253) + "%20", strings.Repeat("x", 253) + " ", strings.Repeat("x", 240) + "%~_/xxxxxxxxxxxxx%~20"},
		{"/" + strings.Repeat("x", 255) + "..", strings.Repeat("x", 240) + "%~_/" + strings.Repeat("x", 15) + "..", strings.Repeat("x", 240) + "%~_/" + strings.Repeat("x", 15) + ".%~=2E"},
		{"/" + strings.Repeat("%2f", 80) + "..", strings.Repeat("%~2f", 60) + "%~_/" + strings.Repeat("%~2f", 20) + "..", strings.Repeat("%~2f", 60) + "%~_/" + strings.Repeat("%~2f", 20) + ".%~=2E"},
		{"/" + strings.Repeat("%2f", 60) + "..", strings.Repeat("%~2f", 60) + "..", strings.Repeat("%~2f", 60) + ".%~=2E"},
		{"/" + strings.Repeat("%2f", 120) + "..", strings.Repeat("%~2f", 60) + "%~_/" + strings.Repeat("%~2f", 60) + "%~_/%~=2E.", strings.Repeat("%~2f", 60) + "%~_/" + strings.Repeat("%~2f", 60) + "%~_/%~=2E%~=2E"},
	} {
		for flavour, want := range []string{tt.posix, tt.portable} {
			p := newMapping(t, filename.Options{Portable: flavour == 1})
			if want == "" {
				want = tt.posix
			}
			if got, err := p.Path(origin + tt.uri); got != want || err != nil {
				t.Errorf("flavour %d: Path(%q) = %q, %v, want %q", flavour, tt.uri, got, err, want)
			}
			if got, err := p.URI(want); got != origin+tt.uri || err != nil {
				t.Errorf("flavour %d: URI(%q) = %q, %v, want %q", flavour, want, got, err, origin+tt.uri)
			}
		}
	}
}

func TestPathOtherOrigins(t *testing.T) {
	t.Parallel()
	p := newMapping(t, filename.Options{})
	for uri, want := range map[string]string{
		"https://cdn.example.org/a":       "_other/cdn.example.org/a",
		"https://cdn.example.org:81/a":    "_other/cdn.example.org%~=3A81/a",
		"https://data.example.org:443/a":  "_other/data.example.org%~=3A443/a",
		"https://data.example.org.evil/a": "_other/data.example.org.evil/a",
		"https://DATA.example.org/a":      "_other/DATA.example.org/a",
		"http://data.example.org/a":       "_other/http%~;data.example.org/a",
		"HTTPS://data.example.org/a":      "_other/HTTPS%~;data.example.org/a",
		"ftp://u:p@h/":                    "_other/ftp%~;u%~=3Ap@h/%~@",
		"https://../../etc/passwd":        "_other/%~=2E./%~=2E./etc/passwd",
		"https://[::1]/x":                 "_other/%~=5B%~=3A%~=3A1%~=5D/x",
		"file:///etc/passwd":              "_other/file%~;/etc/passwd",
		"https:///x":                      "_other/%~@/x",
		"https://h":                       "_other/h/%~,",
		"https://.lockstep/x":             "_other/%~=2Elockstep/x",
		"https://h/.lockstep/x":           "_other/h/%~=2Elockstep/x",
	} {
		if got, err := p.Path(uri); got != want || err != nil {
			t.Errorf("Path(%q) = %q, %v, want %q", uri, got, err, want)
		}
		if got, err := p.URI(want); got != uri || err != nil {
			t.Errorf("URI(%q) = %q, %v, want %q", want, got, err, uri)
		}
	}
	for _, uri := range []string{"", "a", "/a", "urn:x", "://h/", "1http://h/", "ht tp://h", strings.Repeat("a", 65) + "://h", origin + strings.Repeat("/a", 300), origin + "/" + strings.Repeat("a", 16<<10)} {
		if got, err := p.Path(uri); !errors.Is(err, filename.ErrURI) {
			t.Errorf("Path(%q) = %q, %v, want ErrURI", uri, got, err)
		}
	}
}

func TestPathMap(t *testing.T) {
	t.Parallel()
	p := newMapping(t, filename.Options{Map: []filename.Map{
		{Prefix: "https://cdn.example.org/img/", Dir: "images"},
		{Prefix: origin + "/deep/", Dir: "a/b"},
		{Prefix: "https://q.example.org/get?id=", Dir: "got"},
		{Prefix: "https://bare.example.org", Dir: "bare"},
		{Prefix: origin + "/pre", Dir: "pre/fix"},
	}})
	for uri, want := range map[string]string{
		"https://cdn.example.org/img/x/y":    "images/x/y",
		"https://cdn.example.org/img/":       "images/%~@",
		"https://cdn.example.org/img":        "_other/cdn.example.org/img",
		origin + "/images/x/y":               "%~=69mages/x/y",
		origin + "/Images":                   "%~=49mages",
		origin + "/x/images":                 "x/images",
		origin + "/deep/x":                   "a/b/x",
		origin + "/a/b/x":                    "a/%~=62/x",
		origin + "/a/x":                      "a/x",
		"https://q.example.org/get?id=a/b":   "got/a%~=2Fb",
		"https://q.example.org/get?id=":      "got/%~@",
		"https://bare.example.org":           "bare/%~,",
		"https://bare.example.org/x":         "bare/x",
		"https://bare.example.org.evil/x":    "_other/bare.example.org.evil/x",
		origin + "/pre":                      "pre/fix/%~,",
		origin + "/prefix/x":                 "pre/fix/%~,fix/x",
		origin + "/pre/x":                    "pre/fix/x",
		origin + "/pre//x":                   "pre/fix/%~@/x",
		origin + "/.lockstep":                "%~=2Elockstep",
		"https://cdn.example.org/img/_other": "images/_other",
	} {
		if got, err := p.Path(uri); got != want || err != nil {
			t.Errorf("Path(%q) = %q, %v, want %q", uri, got, err, want)
		}
		if got, err := p.URI(want); got != uri || err != nil {
			t.Errorf("URI(%q) = %q, %v, want %q", want, got, err, uri)
		}
	}

	root := newMapping(t, filename.Options{Map: []filename.Map{{Prefix: origin + "/set/", Dir: "."}}})
	for uri, want := range map[string]string{
		origin + "/set/x":         "x",
		origin + "/x":             "_other/data.example.org/x",
		origin + "/set/.lockstep": "%~=2Elockstep",
	} {
		if got, err := root.Path(uri); got != want || err != nil {
			t.Errorf("Path(%q) = %q, %v, want %q", uri, got, err, want)
		}
		if got, err := root.URI(want); got != uri || err != nil {
			t.Errorf("URI(%q) = %q, %v, want %q", want, got, err, uri)
		}
	}
}

func TestPathMapOrigin(t *testing.T) {
	t.Parallel()
	p := newMapping(t, filename.Options{Map: []filename.Map{{Prefix: origin, Dir: "d"}}})
	if got, err := p.Path(origin + "/d/x"); got != "d/d/x" || err != nil {
		t.Errorf("Path = %q, %v", got, err)
	}
	if got, err := p.URI("d/d/x"); got != origin+"/d/x" || err != nil {
		t.Errorf("URI = %q, %v", got, err)
	}
	if got, err := p.URI("x"); !errors.Is(err, filename.ErrPath) {
		t.Errorf("URI = %q, %v, want ErrPath", got, err)
	}
}

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	for _, o := range []filename.Options{
		{},
		{Origin: "example.org"},
		{Origin: "https://example.org/"},
		{Origin: origin, Map: []filename.Map{{Prefix: "x", Dir: "d"}}},
		{Origin: origin, Map: []filename.Map{{Prefix: "http://h/", Dir: "../d"}}},
		{Origin: origin, Map: []filename.Map{{Prefix: "http://h/", Dir: "/d"}}},
		{Origin: origin, Map: []filename.Map{{Prefix: "http://h/", Dir: ".Lockstep/d"}}},
		{Origin: origin, Map: []filename.Map{{Prefix: "http://h/", Dir: "_other"}}},
		{Origin: origin, Map: []filename.Map{{Prefix: "http://h/", Dir: "a%~b"}}},
		{Origin: origin, Map: []filename.Map{{Prefix: "http://h/", Dir: "a"}, {Prefix: "http://h/", Dir: "b"}}},
		{Origin: origin, Map: []filename.Map{{Prefix: "http://h/", Dir: "a"}, {Prefix: "http://i/", Dir: "a/b"}}},
		{Origin: origin, Map: []filename.Map{{Prefix: "http://h/", Dir: "."}, {Prefix: "http://i/", Dir: "."}}},
		{Origin: origin, Map: []filename.Map{{Prefix: "http://h/", Dir: "."}, {Prefix: "http://h/", Dir: "d"}}},
	} {
		if _, err := filename.New(o); err == nil {
			t.Errorf("New(%+v) succeeded", o)
		}
	}
}

// A name that we would not write in exactly this form maps to no URI.
func TestURIRefuses(t *testing.T) {
	t.Parallel()
	p := newMapping(t, filename.Options{Map: []filename.Map{{Prefix: origin + "/m/", Dir: "d"}}})
	for _, name := range []string{
		"", "/", "/a", "a/", "a//b", ".", "a/../b", "a\x00b",
		".lockstep", ".lockstep/state.db", ".LOCKSTEP/x", "_other", "_other/h", "_OTHER/h/x", "d", "m/x",
		"%~", "a%~", "%~2", "%~zz", "%~=", "%~=4", "a%~@", "a%~,b", "%~,/a", "a%~;b", "a%~_", "a%~_/b",
		"%~+", "%~-", "a%~+", "a%~-/b", "a%~-%~-", "%~=61", "%~25", "%~=2F", "a%~=2fb", "%~=41", "x%~!%~!",
		"%~,a", "%~@/%~,", "_other/https%~;h/x", "_other/h:1/x", "_other/h%~_/%~@", "a%~", strings.Repeat("x", 256), strings.Repeat("x", 250) + "%~_/a",
	} {
		if uri, err := p.URI(name); !errors.Is(err, filename.ErrPath) {
			t.Errorf("URI(%q) = %q, %v, want ErrPath", name, uri, err)
		}
	}
}

// disk is a directory tree of names, kept by the key of their paths.
type disk struct {
	p     *filename.Mapping
	files map[string]string // URI by key
	dirs  map[string]string // spelling by key
}

func newDisk(p *filename.Mapping) *disk {
	return &disk{p, map[string]string{}, map[string]string{}}
}

func (d *disk) at(name string) (filename.Occupancy, error) {
	key := d.p.Key(name)
	if _, ok := d.files[key]; ok {
		return filename.Occupied, nil
	}
	switch spelling, ok := d.dirs[key]; {
	case !ok:
		return filename.Vacant, nil
	case spelling == name:
		return filename.Directory, nil
	}
	return filename.Occupied, nil
}

func (d *disk) put(t interface{ Fatalf(string, ...any) }, uri string) string {
	name, err := d.p.Place(uri, d.at)
	if err != nil {
		t.Fatalf("Place(%q): %v; there are %q", uri, err, d.files)
	}
	if s, _ := d.at(name); s != filename.Vacant {
		t.Fatalf("Place(%q) = %q, which is taken", uri, name)
	}
	d.files[d.p.Key(name)] = uri
	for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
		if s, _ := d.at(dir); s == filename.Occupied {
			t.Fatalf("Place(%q) = %q, but %q is a file", uri, name, dir)
		}
		d.dirs[d.p.Key(dir)] = dir
	}
	return name
}

func TestPlace(t *testing.T) {
	t.Parallel()
	n253 := strings.Repeat("n", 253)
	for _, tt := range []struct {
		name     string
		portable bool
		uris     []string
		want     []string
	}{
		{"file then directory", false,
			[]string{"/a", "/a/b", "/a/b/c", "/a/"},
			[]string{"a", "a%~+/b", "a%~+/b%~+/c", "a%~+/%~@"}},
		{"directory then file", false,
			[]string{"/a/b/c", "/a/b", "/a", "/a/b/"},
			[]string{"a/b/c", "a/b%~-", "a%~-", "a/b/%~@"}},
		{"no room for a mark", false,
			[]string{"/" + n253, "/" + n253 + "/a", "/d/" + n253 + "/a", "/d/" + n253, "/d/" + n253 + "/b"},
			[]string{n253, n253[:240] + "%~_/nnnnnnnnnnnnn/a", "d/" + n253 + "/a", "d/" + n253[:240] + "%~_/nnnnnnnnnnnnn", "d/" + n253 + "/b"}},
		{"case matters", false,
			[]string{"/a", "/A"}, []string{"a", "A"}},
		{"case does not matter", true,
			[]string{"/Read", "/read", "/READ", "/rEaD"},
			[]string{"Read", "read%~!", "%~=52%~=45%~=41%~=44%~!", "r%~=45a%~=44%~!"}},
		{"directories spelled twice", true,
			[]string{"/Docs/a", "/docs/b", "/Docs/c", "/DOCS", "/DOCs/d"},
			[]string{"Docs/a", "docs%~+/b", "Docs/c", "%~=44%~=4F%~=43%~=53%~!", "%~=44%~=4F%~=43s%~!/d%~!"}},
		{"letters beyond ASCII", true,
			[]string{"/%C3%A9", "/%C3%89", "/e%CC%81", "/stra%C3%9Fe", "/strasse"},
			[]string{"é", "%~C3%~89%~!", "e%~CC%~81", "straße", "strasse%~!"}},
		{"digits of escapes", true,
			[]string{"/%2f", "/%2F", "/%aB", "/%Ab"},
			[]string{"%~2f", "%~2F%~!", "%~aB", "%~=25%~=41b%~!"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := newDisk(newMapping(t, filename.Options{Portable: tt.portable}))
			for i, uri := range tt.uris {
				got := d.put(t, origin+uri)
				if got != tt.want[i] {
					t.Errorf("Place(%q) = %q, want %q", uri, got, tt.want[i])
				}
				if back, err := d.p.URI(got); back != origin+uri || err != nil {
					t.Errorf("URI(%q) = %q, %v, want %q", got, back, err, origin+uri)
				}
			}
		})
	}
}

func TestPlaceTaken(t *testing.T) {
	t.Parallel()
	p := newMapping(t, filename.Options{})
	_, err := p.Place(origin+"/a/b", func(string) (filename.Occupancy, error) { return filename.Occupied, nil })
	var taken *filename.TakenError
	if !errors.As(err, &taken) || taken.Path != "a/b" || taken.URI != origin+"/a/b" {
		t.Errorf("Place = %v, want a TakenError for a/b", err)
	}
	cause := errors.New("unreadable")
	_, err = p.Place(origin+"/a/b", func(string) (filename.Occupancy, error) { return 0, cause })
	if !errors.Is(err, cause) {
		t.Errorf("Place = %v, want %v", err, cause)
	}
}

// Every file name, as our Source escapes it, comes back as it was: `diff -r`
// of source and mirror finds nothing.
func TestPathIsFileName(t *testing.T) {
	t.Parallel()
	p := newMapping(t, filename.Options{})
	var names []string
	for c := range 256 {
		if c != 0 && c != '/' {
			names = append(names, "a"+string([]byte{byte(c)})+"b", string([]byte{byte(c)})+"x")
		}
	}
	names = append(names, "%20", "%2520", "100%", "a b/c d", "%~x", "%%~", "~%", "日本/語", "\xff\xfe", "..a", "a..", "...", "-", "con", "a\\b")
	for _, name := range names {
		got, err := p.Path(origin + "/" + sourceEscape(name))
		if err != nil {
			t.Errorf("Path of %q: %v", name, err)
		}
		if want := strings.ReplaceAll(name, "%~", "%~25~"); got != want {
			t.Errorf("Path of %q = %q", name, got)
		}
	}
}

// sourceEscape is what our Source does to file names; it is
// implemented separately here, so that a change there is noticed.
func sourceEscape(name string) string {
	var b strings.Builder
	for _, c := range []byte(name) {
		if c == '/' || slices.Contains([]byte("-._~!$&'()*+,;=:@"), c) || c < 128 && url.PathEscape(string(rune(c))) == string(rune(c)) {
			b.WriteByte(c)
		} else {
			b.WriteString("%" + strings.ToUpper(string("0123456789abcdef"[c>>4])+string("0123456789abcdef"[c&15])))
		}
	}
	return b.String()
}
