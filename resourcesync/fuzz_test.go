package resourcesync_test

import (
	"bytes"
	"errors"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"lockstep/resourcesync"
)

// sameDatetime is equality of instants, absent ones included: datetimes are
// always written in full, so the granularity may be finer after reading them
// back.
var sameDatetime = cmp.Comparer(func(a, b resourcesync.Datetime) bool { return a.Compare(b) == 0 })

// promised reports whether err is of a type that the Reader documents for
// readable input.
func promised(err error) bool {
	var syn *resourcesync.SyntaxError
	return errors.As(err, &syn) && syn.Err != nil && syn.Line > 0 && syn.Column > 0
}

func seedReader(f *testing.F) {
	for _, doc := range wellFormed {
		f.Add([]byte(doc))
	}
	for _, tt := range notWellFormed {
		f.Add([]byte(tt.doc))
	}
	for _, s := range samples {
		f.Add(write(f, s.header, s.entries...))
	}
	for _, tt := range foreignTests {
		f.Add([]byte(foreignRoot + `<url><loc>http://example.org/a</loc>` + tt.content + `<rs:ln rel="via" href="urn:b" x:a="1"/></url></urlset>`))
	}
	for _, v := range vectors(f) {
		f.Add(v.doc)
	}
}

// FuzzReader: no input makes the Reader panic, run forever, use much memory or
// return an undocumented error. How the input is split into reads makes no
// difference.
func FuzzReader(f *testing.F) {
	seedReader(f)
	f.Fuzz(func(t *testing.T, doc []byte) {
		o := resourcesync.ReaderOptions{Base: "http://example.org/a/b.xml", MaxBytes: 8 << 20}
		whole, err := readFrom(bytes.NewReader(doc), o)
		if err != nil && !promised(err) {
			t.Fatalf("error of type %T: %v", err, err)
		}
		if whole.stats.Entries != len(whole.entries) || whole.stats.Warnings < len(whole.warnings) {
			t.Errorf("Stats = %+v beside %d entries and %d warnings", whole.stats, len(whole.entries), len(whole.warnings))
		}
		for _, e := range whole.entries {
			if e.Loc == "" || strings.TrimSpace(e.Loc) == "" || !utf8.ValidString(e.Loc) {
				t.Errorf("an entry with loc %q", e.Loc)
			}
			if again, err := resourcesync.ParseForeign(e.Foreign.String()); err != nil || again != e.Foreign {
				t.Errorf("%s is read again as %s, %v", e.Foreign, again, err)
			}
			for _, l := range e.Links {
				if again, err := resourcesync.ParseForeign(l.Foreign.String()); err != nil || again != l.Foreign || l.Foreign.HasElements() {
					t.Errorf("%s is read again as %s, %v", l.Foreign, again, err)
				}
				if l.Rel == "" || l.Href == "" || l.Pri < 0 || l.Pri > 999_999 {
					t.Errorf("a link %+v", l)
				}
			}
		}
		if len(doc) > 4096 {
			return
		}
		slow, slowErr := readFrom(iotest.OneByteReader(bytes.NewReader(doc)), o)
		if (err == nil) != (slowErr == nil) || err != nil && err.Error() != slowErr.Error() {
			t.Fatalf("error %v, byte by byte %v", err, slowErr)
		}
		if !reflect.DeepEqual(whole.entries, slow.entries) || !reflect.DeepEqual(whole.header, slow.header) {
			t.Errorf("read whole:\n%+v\nread byte by byte:\n%+v", whole.entries, slow.entries)
		}
	})
}

// FuzzStrict: what a strict Reader accepts, a lenient one accepts with the same
// result and the same warnings.
func FuzzStrict(f *testing.F) {
	seedReader(f)
	f.Fuzz(func(t *testing.T, doc []byte) {
		o := resourcesync.ReaderOptions{MaxBytes: 1 << 20}
		lenient, lenientErr := readFrom(bytes.NewReader(doc), o)
		o.Strict = true
		strict, err := readFrom(bytes.NewReader(doc), o)
		if err != nil {
			var rule *resourcesync.RuleError
			if lenientErr == nil && !errors.As(err, &rule) {
				t.Errorf("a lenient Reader accepts it, a strict one says %v", err)
			}
			return
		}
		if lenientErr != nil {
			t.Fatalf("a strict Reader accepts it, a lenient one says %v", lenientErr)
		}
		if !reflect.DeepEqual(strict, lenient) {
			t.Errorf("strict:\n%+v\nlenient:\n%+v", strict, lenient)
		}
		if lenient.stats.Skipped > 0 || lenient.header.Dialect != "" {
			t.Errorf("a strict Reader took liberties: %+v, dialect %q", lenient.stats, lenient.header.Dialect)
		}
	})
}

// FuzzRewrite: any entry that was read and that the Writer accepts is read back
// equal by a strict Reader.
func FuzzRewrite(f *testing.F) {
	seedReader(f)
	f.Fuzz(func(t *testing.T, doc []byte) {
		in, err := readFrom(bytes.NewReader(doc), resourcesync.ReaderOptions{MaxBytes: 1 << 20})
		if err != nil {
			return
		}
		h := resourcesync.Header{
			Capability: in.header.Capability, Index: in.header.Index, Links: in.header.Links,
			At: in.header.At, Completed: in.header.Completed, From: in.header.From, Until: in.header.Until,
		}
		var out bytes.Buffer
		w, err := resourcesync.NewWriter(&out, h)
		if err != nil {
			wantRule(t, err)
			return
		}
		var want []resourcesync.Entry
		for _, e := range in.entries {
			e.ETag = "" // never written
			if err := w.Write(&e); err != nil {
				wantRule(t, err)
				continue
			}
			want = append(want, e)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		wantDocument(t, out.Bytes(), h, want)
	})
}

// A reporter is a test, or a property that is being checked.
type reporter interface {
	Helper()
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
}

// wantRule fails unless err names the violated rule.
func wantRule(t reporter, err error) {
	t.Helper()
	var rule *resourcesync.RuleError
	if !errors.As(err, &rule) || !strings.HasPrefix(rule.Rule, "RS-") {
		t.Errorf("error %v of type %T, want a RuleError", err, err)
	}
}

// wantDocument fails unless doc is well formed and a strict Reader returns
// exactly h and entries.
func wantDocument(t reporter, doc []byte, h resourcesync.Header, entries []resourcesync.Entry) {
	t.Helper()
	got, err := readFrom(bytes.NewReader(doc), resourcesync.ReaderOptions{Strict: true})
	if err != nil {
		t.Fatalf("what was written is not accepted: %v\n%s", err, doc)
	}
	if diff := cmp.Diff(h, got.header, sameDatetime); diff != "" {
		t.Errorf("header written -, read +:\n%s", diff)
	}
	if diff := cmp.Diff(entries, got.entries, sameDatetime); diff != "" {
		t.Errorf("entries written -, read +:\n%s", diff)
	}
	if err := standardLibrary(string(doc)); err != nil {
		t.Errorf("encoding/xml: %v\n%s", err, doc)
	}
}

// FuzzDatetime: any text is parsed as a datetime or refused; a parsed datetime
// prints as text that parses to the same instant; what the strict parser
// accepts, the lenient one accepts without a warning.
func FuzzDatetime(f *testing.F) {
	for _, tt := range datetimes {
		f.Add(tt.text)
	}
	f.Fuzz(func(t *testing.T, s string) {
		strict, err := resourcesync.ParseDatetime(s)
		if err != nil && !errors.Is(err, resourcesync.ErrDatetime) {
			t.Errorf("ParseDatetime: error %v", err)
		}
		d, liberty, lenientErr := resourcesync.ParseDatetimeLenient(s)
		if (err == nil) != (lenientErr == nil && liberty == "") || err == nil && d != strict {
			t.Errorf("strict %v, %v; lenient %v, %q, %v", strict, err, d, liberty, lenientErr)
		}
		if lenientErr != nil {
			return
		}
		if d.IsZero() || d.Time().IsZero() {
			t.Errorf("%q is a datetime, and zero", s)
		}
		again, err := resourcesync.ParseDatetime(d.String())
		if err != nil || again.Compare(d) != 0 {
			t.Errorf("%q is %s, which is %s, %v", s, d, again, err)
		}
		if back := resourcesync.NewDatetime(d.Time()); back.Compare(d) != 0 {
			t.Errorf("%q is %s, by way of Time %s", s, d, back)
		}
		if want := d.Time().Format("2006-01-02T15:04:05.999999999Z"); d.String() != want {
			t.Errorf("%q prints as %s, want %s", s, d, want)
		}
	})
}

// FuzzHashes: only digests of the right length are accepted, one for each
// algorithm, and they print as text that parses to the same without a warning.
func FuzzHashes(f *testing.F) {
	for _, tt := range hashTests {
		f.Add(tt.text)
	}
	f.Fuzz(func(t *testing.T, s string) {
		hs, _ := resourcesync.ParseHashes(s)
		seen := map[resourcesync.Algorithm]bool{}
		for _, h := range hs {
			if seen[h.Algorithm] || len(h.Digest) != h.Algorithm.Size() || h.Algorithm.Size() == 0 {
				t.Errorf("%q gives %v", s, hs)
			}
			seen[h.Algorithm] = true
		}
		again, liberties := resourcesync.ParseHashes(hs.String())
		if len(liberties) > 0 || !cmp.Equal(hs, again) {
			t.Errorf("%q gives %v, which gives %v with %q", s, hs, again, liberties)
		}
		if h, err := resourcesync.ParseHash(s); err == nil && (len(hs) != 1 || h != hs[0]) {
			t.Errorf("ParseHash(%q) = %v, ParseHashes %v", s, h, hs)
		} else if err != nil && !errors.Is(err, resourcesync.ErrHash) {
			t.Errorf("ParseHash: error %v", err)
		}
	})
}
