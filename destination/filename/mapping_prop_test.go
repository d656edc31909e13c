package filename_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"lockstep/destination/filename"
)

// pieces are strings that are difficult for mappings, to be joined.
var pieces = []string{
	"a", "A", "b", "aa", "é", "\u0301", "e", "ß", "ss", "K", "\u212a", "k", "ﬁ", "\u200d", "\xff", "\xc3",
	"%C3%A9", "%c3%a9", "%CC%81", "%E2%80%8D", "%C3", "%41", "%61", "%2F", "%2f", "%25", "%7E", "%00", "%20", "%2E", "%3A", "%zz", "%", "~", "%~", "%25~",
	"%2Fa", "%2F%2F", "%2F.%2F", "%3F", "%23", ".xml", "%~", "/", "//", "/./", "/../", "/a", "/A", "/a/", "?", "#", ".", "..", " ", "~1", "=", "+", "-", "_", ",", ";", "!", "\\", ":", "*", "\n", "%0A",
	".lockstep", ".LOCKSTEP", "_other", "_OTHER", "con", "NUL", "com1", "m", "M", "%~=41", "%~+", "%~-", "%~_", "%~@", "%~,", "%~!",
	strings.Repeat("x", 239), strings.Repeat("y", 240), strings.Repeat("z", 14), strings.Repeat("é", 121), strings.Repeat("%C3%A9", 121), strings.Repeat("%c3", 90),
}

func genURI() *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		head := rapid.SampledFrom([]string{origin, origin, origin, origin + "/m/", origin + "/m", "http://data.example.org",
			"HTTPS://data.example.org", "https://h", "https://h:8", "https://H", "https://", "ftp://", "https://cdn/x?y=", valuePrefix, valuePrefix, valuePrefix + "oai%3Ax%3A"}).Draw(t, "head")
		n := rapid.IntRange(0, 6).Draw(t, "n")
		var b strings.Builder
		b.WriteString(head)
		for range n {
			if rapid.IntRange(0, 9).Draw(t, "kind") == 0 {
				b.WriteString(strings.ReplaceAll(rapid.String().Draw(t, "text"), "\x00", ""))
			} else {
				b.WriteString(rapid.SampledFrom(pieces).Draw(t, "piece"))
			}
		}
		return b.String()
	})
}

var testMap = []filename.Map{
	{Prefix: origin + "/m/", Dir: "mm"}, {Prefix: "https://cdn/x?y=", Dir: "a/é"}, {Prefix: "http://bare", Dir: "A/b"},
}

const valuePrefix = "https://oai/?verb=GetRecord&identifier="

// With a map of values files are called by one value of a query string.
var valueMap = []filename.Map{{Prefix: valuePrefix, Dir: ".", Value: true, Suffix: ".xml"}, {Prefix: origin + "/m/", Dir: "mm"}}

func TestMappingProperties(t *testing.T) {
	t.Parallel()
	for _, o := range []filename.Options{{}, {Portable: true}, {Map: testMap}, {Portable: true, Map: testMap}, {Map: valueMap}, {Portable: true, Map: valueMap}} {
		p := newMapping(t, o)
		rapid.Check(t, func(t *rapid.T) {
			uri := genURI().Draw(t, "uri")
			checkPath(t, p, o.Portable, uri)
		})
	}
}

type failer interface {
	Helper()
	Fatalf(string, ...any)
}

// checkPath checks the rules for a single URI.
func checkPath(t failer, p *filename.Mapping, portable bool, uri string) {
	t.Helper()
	name, err := p.Path(uri)
	if err != nil {
		t.Fatalf("Path(%q): %v", uri, err)
	}
	checkName(t, portable, uri, name)
	if back, err := p.URI(name); back != uri || err != nil {
		t.Fatalf("URI(%q) = %q, %v, want %q", name, back, err, uri)
	}
}

func checkName(t failer, portable bool, uri, name string) {
	t.Helper()
	comps := strings.Split(name, "/")
	for i, c := range comps {
		switch {
		case c == "" || c == "." || c == ".." || strings.ContainsAny(c, "\x00") || len(c) > 255:
			t.Fatalf("Path(%q) = %q: component %d", uri, name, i)
		case !portable:
		case strings.ContainsAny(c, "<>:\"|?*\\\n") || !utf8.ValidString(c) || strings.HasSuffix(c, ".") || strings.HasSuffix(c, " "):
			t.Fatalf("Path(%q) = %q: component %d is not portable", uri, name, i)
		}
		if lower := strings.ToLower(c); portable && (lower == "con" || lower == "nul" || strings.HasPrefix(lower, "nul.")) {
			t.Fatalf("Path(%q) = %q: a device", uri, name)
		}
	}
	if strings.EqualFold(comps[0], ".lockstep") || comps[0] != "_other" && strings.EqualFold(comps[0], "_other") {
		t.Fatalf("Path(%q) = %q: reserved", uri, name)
	}
}

// Any URIs in any order get one name each, and each name maps back to its URI.
func TestPlaceProperties(t *testing.T) {
	t.Parallel()
	for _, o := range []filename.Options{{}, {Portable: true}, {Map: testMap}, {Portable: true, Map: testMap}, {Map: valueMap}, {Portable: true, Map: valueMap}} {
		p := newMapping(t, o)
		rapid.Check(t, func(t *rapid.T) {
			d := newDisk(p)
			seen := map[string]bool{}
			for range rapid.IntRange(1, 30).Draw(t, "n") {
				uri := genURI().Draw(t, "uri")
				if seen[uri] {
					continue
				}
				seen[uri] = true
				name := d.put(t, uri)
				checkName(t, o.Portable, uri, name)
				if back, err := p.URI(name); back != uri || err != nil {
					t.Fatalf("URI(%q) = %q, %v, want %q", name, back, err, uri)
				}
			}
		})
	}
}

// Names that differ little are the ones that collide.
func TestPlaceAlike(t *testing.T) {
	t.Parallel()
	alike := []string{"a", "A", "%61", "%41", "é", "É", "%C3%A9", "%C3%89", "%c3%a9", "e%CC%81", "E%CC%81", "k", "K", "%E2%84%AA", "ß", "%C3%9F", "ss",
		"SS", "%E2%80%8D", "a%E2%80%8D", ".", "%2E", "%2e", " ", "%20", "/", "%2F", "%2f", "~", "%7E", "%", "%25", "!", "%21", "con", "CON"}
	for _, portable := range []bool{false, true} {
		p := newMapping(t, filename.Options{Portable: portable})
		rapid.Check(t, func(t *rapid.T) {
			d := newDisk(p)
			seen := map[string]bool{}
			for range rapid.IntRange(1, 60).Draw(t, "n") {
				uri := origin + "/" + strings.Join(rapid.SliceOfN(rapid.SampledFrom(alike), 0, 3).Draw(t, "parts"), "")
				if !seen[uri] {
					d.put(t, uri)
				}
				seen[uri] = true
			}
		})
	}
}

func FuzzMapping(f *testing.F) {
	for _, s := range pieces {
		f.Add(origin+"/"+s, s)
		f.Add("https://"+s, "_other/"+s)
		f.Add(valuePrefix+s, s+".xml")
	}
	var all []*filename.Mapping
	for _, o := range []filename.Options{{}, {Portable: true}, {Map: testMap}, {Portable: true, Map: testMap}, {Map: valueMap}, {Portable: true, Map: valueMap}} {
		all = append(all, newMapping(f, o))
	}
	f.Fuzz(func(t *testing.T, uri, name string) {
		for i, p := range all {
			portable := i%2 == 1
			if _, err := p.Path(uri); err == nil && !strings.Contains(uri, "\x00") {
				checkPath(t, p, portable, uri)
				d := newDisk(p)
				d.put(t, uri)
			}
			// A name that maps to a URI is one of the names the URI can have.
			if back, err := p.URI(name); err == nil {
				got, err := p.Path(back)
				if err != nil {
					t.Fatalf("URI(%q) = %q: %v", name, back, err)
				}
				if again, err := p.URI(got); again != back || err != nil {
					t.Fatalf("URI(%q) = %q, but URI(%q) = %q, %v", name, back, got, again, err)
				}
			}
		}
	})
}

func BenchmarkPath(b *testing.B) {
	for _, portable := range []bool{false, true} {
		p := newMapping(b, filename.Options{Portable: portable})
		b.Run(map[bool]string{false: "posix", true: "portable"}[portable], func(b *testing.B) {
			b.ReportAllocs()
			for range b.N {
				if _, err := p.Path(origin + "/articles/2024/10/some-name%20with-blank.html"); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
