package atompmh_test

import (
	"bytes"
	"encoding/xml"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"lockstep/atompmh"
)

// FuzzReader: no input makes the Reader panic, run forever or return an
// undocumented error; how the input is split into reads makes no difference;
// every returned record is also seen by encoding/xml.
func FuzzReader(f *testing.F) {
	paths, _ := filepath.Glob(filepath.Join("..", "testdata", "feeds", "*.xml")) // there may be none
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		_, doc, _ := bytes.Cut(text, []byte("-->\n"))
		f.Add(doc)
	}
	f.Add([]byte(head + `<at:deleted-entry ref="urn:r" when="2024-05-01T10:00:00+10:00"/><entry xml:base="/x/"><id>urn:r</id>` + stamp +
		`<content src="a"/></entry>` + entry + tail))
	f.Add([]byte(root + entry + "<fh:complete/>" + about + "<entry><id>urn:s</id>" + stamp + "<content> </content>" + alternate + "</entry>" + named + tail))
	f.Fuzz(func(t *testing.T, doc []byte) {
		o := atompmh.ReaderOptions{Base: base, MaxBytes: 4 << 20}
		got, err := read(bytes.NewReader(doc), o)
		var syn *atompmh.SyntaxError
		if err != nil && (!errors.As(err, &syn) || syn.Err == nil || syn.Line < 1 || syn.Column < 1) {
			t.Fatalf("error of type %T: %v", err, err)
		}
		for _, e := range got.entries {
			checkEntry(t, e)
		}
		if len(doc) <= 4096 {
			slow, slowErr := read(iotest.OneByteReader(bytes.NewReader(doc)), o)
			if diff := cmp.Diff(got, slow, cmp.AllowUnexported(reading{})); diff != "" || (err == nil) != (slowErr == nil) || err != nil && err.Error() != slowErr.Error() {
				t.Fatalf("%v, byte by byte %v\n%s", err, slowErr, diff)
			}
		}
		if err != nil {
			return
		}
		if st := got.stats; st.Entries != len(got.entries) || st.Deletions > st.Entries || st.Warnings < len(got.rules) {
			t.Errorf("stats %+v beside %d entries and %d warnings", st, len(got.entries), len(got.rules))
		}
		o.Strict = true
		if _, err := read(bytes.NewReader(doc), o); (err == nil) != (got.stats.Warnings == 0) {
			t.Errorf("a strict Reader says %v, a lenient one warns of %v", err, got.rules)
		}
		beside(t, doc, got.entries)
	})
}

// checkEntry checks what the Reader promises of every entry.
func checkEntry(t *testing.T, e atompmh.Entry) {
	t.Helper()
	if e.ID == "" || e.Updated.IsZero() || e.Updated.Location() != time.UTC || !utf8.ValidString(e.ID+e.Title+e.Summary) {
		t.Errorf("an entry %+v", e)
	}
	if n := len(e.Alternates()); (e.Kind == atompmh.Active) != (n > 0) || e.Kind != atompmh.Active && e.Kind != atompmh.Deletion {
		t.Errorf("an entry of kind %v with %d alternates", e.Kind, n)
	}
	for _, l := range e.Links {
		if l.Rel == "" || l.Href == "" || l.Length < 0 || !strings.Contains(l.Href, ":") {
			t.Errorf("a link %+v", l)
		}
	}
}

// beside compares entries with what encoding/xml sees in doc: a deletion is one
// there as well.
func beside(t *testing.T, doc []byte, entries []atompmh.Entry) {
	t.Helper()
	var feed struct {
		XMLName xml.Name `xml:"http://www.w3.org/2005/Atom feed"`
		Entries []struct {
			ID      []string `xml:"http://www.w3.org/2005/Atom id"`
			Content []struct {
				Inner string `xml:",innerxml"`
				Src   string `xml:"src,attr"`
			} `xml:"http://www.w3.org/2005/Atom content"`
			Links []struct {
				Rel *string `xml:"rel,attr"`
			} `xml:"http://www.w3.org/2005/Atom link"`
		} `xml:"http://www.w3.org/2005/Atom entry"`
		Tombstones []struct {
			Ref string `xml:"ref,attr"`
		} `xml:"http://purl.org/atompub/tombstones/1.0 deleted-entry"`
	}
	if err := xml.Unmarshal(doc, &feed); err != nil {
		return
	}
	if len(entries) > len(feed.Entries)+len(feed.Tombstones) {
		t.Errorf("%d entries, encoding/xml sees %d", len(entries), len(feed.Entries)+len(feed.Tombstones))
	}
	for _, e := range entries {
		if e.Kind != atompmh.Deletion {
			continue
		}
		found := false
		for _, x := range feed.Entries {
			// A deletion has no link without a relation, and its content has no address.
			ok := len(x.ID) > 0 && len(x.Content) > 0 && slices.ContainsFunc(x.ID, func(id string) bool { return strings.Contains(id, e.ID) })
			for _, c := range x.Content {
				ok = ok && c.Src == ""
			}
			for _, l := range x.Links {
				ok = ok && l.Rel != nil && *l.Rel != "alternate"
			}
			found = found || ok
		}
		for _, x := range feed.Tombstones {
			found = found || strings.Contains(x.Ref, e.ID)
		}
		if !found {
			t.Errorf("deletion of %q, of which encoding/xml sees nothing in %q", e.ID, doc)
		}
	}
}

// FuzzRoundTrip: what the Writer accepts, a strict Reader reads back.
func FuzzRoundTrip(f *testing.F) {
	f.Add("urn:r", "A & B", "text/html", "http://a.example/?a=1&b=2", "alternate", "", int64(1_700_000_000_000_000_000), int64(12))
	f.Add("urn:\u00fc", " \t<x> ", "a/b", "urn:x", "via", "de", int64(-1), int64(0))
	f.Fuzz(func(t *testing.T, id, title, typ, href, rel, lang string, at, length int64) {
		e := atompmh.Entry{ID: id, Title: title, Updated: time.Unix(0, at).UTC(), Kind: atompmh.Active,
			Links: []atompmh.Link{{Rel: rel, Type: typ, Href: href, Hreflang: lang, Title: title, Length: length}}}
		if rel != atompmh.RelAlternate {
			e.Kind = atompmh.Deletion
		}
		var b bytes.Buffer
		feed := plainFeed
		feed.Updated = time.Date(2300, 1, 1, 0, 0, 0, 0, time.UTC)
		w, err := atompmh.NewWriter(&b, feed)
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Write(&e); err != nil {
			var broken *atompmh.RuleError
			if !errors.As(err, &broken) {
				t.Fatalf("error of type %T: %v", err, err)
			}
			return
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		e.Title = strings.Trim(title, " \t\r\n")
		e.Links[0].Title = e.Title
		got, err := read(&b, atompmh.ReaderOptions{Strict: true})
		if diff := cmp.Diff([]atompmh.Entry{e}, got.entries, cmpopts.EquateEmpty()); diff != "" || err != nil {
			t.Errorf("%v\n%s", err, diff)
		}
	})
}

// rfc3339 is its grammar; package time accepts more.
var rfc3339 = regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]([01]\d|2[0-3]):[0-5]\d)$`)

// FuzzDatetime: a datetime of RFC 3339 is parsed to the same instant as by
// package time.
func FuzzDatetime(f *testing.F) {
	for _, s := range []string{"2024-05-01T00:00:00Z", "2024-05-01T10:00:00.5+10:00", "2024-12-31T23:59:60Z", "2024-05-01"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		want, err := time.Parse(time.RFC3339Nano, s)
		if err != nil || want.IsZero() || !rfc3339.MatchString(s) {
			return
		}
		got, err := read(strings.NewReader(root+"<entry><id>urn:r</id><title/><updated>"+s+"</updated>"+alternate+"</entry>"+tail), atompmh.ReaderOptions{})
		if err != nil || len(got.entries) != 1 || !got.entries[0].Updated.Equal(want) {
			t.Errorf("%q: read %+v, %v, want %v", s, got.entries, err, want)
		}
	})
}
