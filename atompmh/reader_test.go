package atompmh_test

import (
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"

	"lockstep/atompmh"
)

const (
	head = `<feed xmlns="http://www.w3.org/2005/Atom" xmlns:fh="http://purl.org/syndication/history/1.0"` +
		` xmlns:at="http://purl.org/atompub/tombstones/1.0"><id>urn:feed</id><title>Records</title>` +
		`<author><name>Example Library</name></author><updated>2024-05-02T09:30:12.500Z</updated>`
	tail      = `</feed>`
	stamp     = `<title>T</title><updated>2024-05-01T00:00:00Z</updated>`
	alternate = `<link rel="alternate" type="application/rdf+xml" href="https://lib.example.net/rec/7.rdf"/>`
	base      = "https://lib.example.net/pmh/feed"
)

var (
	may1     = time.Date(2024, 5, 1, 0, 0, 0, 0, time.UTC)
	rdfLink  = atompmh.Link{Rel: "alternate", Type: "application/rdf+xml", Href: "https://lib.example.net/rec/7.rdf"}
	feedTime = time.Date(2024, 5, 2, 9, 30, 12, 500_000_000, time.UTC)
)

// A reading is a Reader's result for a document.
type reading struct {
	entries []atompmh.Entry
	feed    atompmh.Feed
	stats   atompmh.Stats
	rules   []string // of the warnings
}

func read(r io.Reader, o atompmh.ReaderOptions) (got reading, err error) {
	o.OnWarning = func(w atompmh.Warning) { got.rules = append(got.rules, w.Rule) }
	fr := atompmh.NewReader(r, o)
	for e, err := range fr.Entries() {
		if err != nil {
			return got, err
		}
		got.entries = append(got.entries, e)
	}
	got.stats = fr.Stats()
	got.feed, err = fr.Feed()
	return got, err
}

func readString(t *testing.T, doc string) reading {
	t.Helper()
	got, err := read(strings.NewReader(doc), atompmh.ReaderOptions{Base: base})
	if err != nil {
		t.Fatalf("%s: %v", doc, err)
	}
	return got
}

// The kind of an entry, by its content (AP-CLS-01, AP-CLS-02, AP-CLS-04,
// AP-CLS-05).
func TestKinds(t *testing.T) {
	t.Parallel()
	src := atompmh.Link{Rel: "alternate", Type: "text/html", Href: "https://lib.example.net/rec/7"}
	tests := map[string]struct {
		in    string
		kind  atompmh.Kind // 0: skipped
		links []atompmh.Link
		rule  string
	}{
		"alternate": {alternate, atompmh.Active, []atompmh.Link{rdfLink}, ""},                               // AP-CLS-02
		"no rel":    {strings.Replace(alternate, `rel="alternate"`, "", 1), 1, []atompmh.Link{rdfLink}, ""}, // AP-ACT-05
		"two formats": {alternate + `<link type="text/html" href="https://lib.example.net/rec/7"/>`, atompmh.Active, // AP-ACT-07
			[]atompmh.Link{rdfLink, src}, ""},
		"two of one type": {alternate + alternate, atompmh.Active, []atompmh.Link{rdfLink, rdfLink}, "AP-DOC-07"}, // AP-AMB-09
		"no type": {`<link href="https://lib.example.net/rec/7"/>`, atompmh.Active,
			[]atompmh.Link{{Rel: "alternate", Href: "https://lib.example.net/rec/7"}}, "AP-ACT-05"},
		"empty content":       {"<content/>", atompmh.Deletion, nil, ""}, // AP-CLS-01, AP-DEL-06
		"content of blanks":   {"<content>\n <!-- nothing --> </content>", atompmh.Deletion, nil, ""},
		"other links":         {`<link rel="via" href="urn:x"/><content/>`, atompmh.Deletion, []atompmh.Link{{Rel: "via", Href: "urn:x"}}, ""},
		"alternate, content":  {alternate + "<content>x</content>", atompmh.Active, []atompmh.Link{rdfLink}, "AP-CLS-04"},
		"alternate, empty":    {alternate + "<content/>", atompmh.Active, []atompmh.Link{rdfLink}, "AP-CLS-04"},
		"content, alternate":  {"<content type='xhtml'><div xmlns='http://www.w3.org/1999/xhtml'/></content>" + alternate, 1, []atompmh.Link{rdfLink}, "AP-CLS-04"},
		"src":                 {`<content src="../rec/7" type="text/html"/>`, atompmh.Active, []atompmh.Link{src}, "AP-CLS-04"},
		"src below xml:base":  {`<content xml:base="https://lib.example.net/rec/" src="7" type="text/html"/>`, 1, []atompmh.Link{src}, "AP-CLS-04"},
		"src and alternate":   {alternate + `<content src="../rec/7" type="text/html"/>`, atompmh.Active, []atompmh.Link{rdfLink}, "AP-CLS-04"},
		"neither":             {"", 0, nil, "AP-CLS-04"},
		"content alone":       {"<content>x</content>", 0, nil, "AP-CLS-04"},
		"content of elements": {"<content type='xhtml'><div xmlns='http://www.w3.org/1999/xhtml'/></content>", 0, nil, "AP-CLS-04"},
		"empty and full":      {"<content/><content>x</content>", 0, nil, "AP-CLS-04"},
		"full and empty":      {"<content>x</content><content/>", 0, nil, "AP-CLS-04"},
		"no content of Atom":  {`<content xmlns="urn:other"/>`, 0, nil, "AP-CLS-04"},
		// The links to the record are unusable: treated as a deletion, it would remove
		// the record.
		"alternate to nowhere":   {`<link rel="alternate"/><content/>`, 0, nil, "AP-CLS-04"},
		"alternate to a wreck":   {`<link href="http://[::1"/><content/>`, 1, []atompmh.Link{{Rel: "alternate", Href: "http://[::1"}}, "AP-CLS-04"},
		"alternate to no scheme": {`<link href="//%zz/"/><content/>`, 0, nil, "AP-CLS-04"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := readString(t, head+"<entry><id>urn:r</id>"+stamp+tt.in+"</entry>"+tail)
			if tt.rule == "" && len(got.rules) > 0 || tt.rule != "" && !slices.Contains(got.rules, tt.rule) {
				t.Errorf("warnings %v, want %q", got.rules, tt.rule)
			}
			if tt.kind == 0 {
				if len(got.entries) > 0 || got.stats.Skipped != 1 {
					t.Fatalf("read %+v, want it skipped", got.entries)
				}
				return
			}
			want := []atompmh.Entry{{ID: "urn:r", Title: "T", Updated: may1, Kind: tt.kind, Links: tt.links}}
			if diff := cmp.Diff(want, got.entries); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// AP-CLS-05: tombstones are deletions.
func TestTombstones(t *testing.T) {
	t.Parallel()
	got := readString(t, head+
		`<at:deleted-entry ref=" urn:r " when="2024-05-01T10:00:00+10:00"><at:comment>gone</at:comment><link href="urn:x"/></at:deleted-entry>`+
		`<at:deleted-entry ref="urn:s"/><at:deleted-entry when="2024-05-01T00:00:00Z"/><at:other/>`+tail)
	want := []atompmh.Entry{{ID: "urn:r", Updated: may1, Kind: atompmh.Deletion}}
	if diff := cmp.Diff(want, got.entries); diff != "" {
		t.Error(diff)
	}
	if got.stats.Skipped != 2 || got.stats.Deletions != 1 || !slices.Equal(got.rules, []string{"AP-CLS-05", "AP-CLS-05", "AP-CLS-05"}) {
		t.Errorf("stats %+v, warnings %v", got.stats, got.rules)
	}
}

// Entries that are skipped for missing parts, or not; the feed continues.
func TestBadEntries(t *testing.T) {
	t.Parallel()
	const updated = "<updated>2024-05-01T00:00:00Z</updated>"
	tests := map[string]struct {
		in   string
		want string // the id; "" if it is skipped
		rule string
	}{
		"no id":           {stamp + alternate, "", "AP-DOC-05"},
		"empty id":        {"<id> </id>" + stamp + alternate, "", "AP-DOC-05"},
		"no updated":      {"<id>urn:r</id><title/>" + alternate, "", "AP-DOC-05"},
		"bad updated":     {"<id>urn:r</id><title/><updated>yesterday</updated>" + alternate, "", "AP-DOC-08"},
		"no title":        {"<id>urn:r</id>" + updated + alternate, "urn:r", "AP-DOC-05"},
		"empty title":     {"<id>urn:r</id><title/>" + updated + alternate, "urn:r", ""},
		"two ids":         {"<id>urn:r</id><id>urn:s</id>" + stamp + alternate, "urn:r", "AP-DOC-05"},
		"two titles":      {"<id>urn:r</id><title>a</title>" + stamp + alternate, "urn:r", "AP-DOC-05"},
		"two updated":     {"<id>urn:r</id>" + stamp + updated + alternate, "urn:r", "AP-DOC-05"},
		"two contents":    {"<id>urn:r</id>" + stamp + "<content/><content/>", "urn:r", "AP-DOC-05"},
		"id no IRI":       {"<id>record 7</id>" + stamp + alternate, "record 7", "AP-DOC-09"},
		"id as it stands": {"<id>HTTP://Example.org:80/%7ea/../b?x#é</id>" + stamp + alternate, "HTTP://Example.org:80/%7ea/../b?x#é", ""}, // AP-DOC-09
		"later":           {"<id>urn:r</id><title/><updated>2024-05-02T09:30:12.501Z</updated>" + alternate, "urn:r", "AP-TS-01"},          // AP-AMB-09
		"unknown things": {`<x xmlns="urn:x"><entry xmlns="http://www.w3.org/2005/Atom"/></x><id x:y="1" xmlns:x="urn:x" z="2">urn:r</id>` + // AP-DOC-10
			`<category term="a"/><rights>r</rights><published>2024-05-01T00:00:00Z</published>` + stamp + alternate, "urn:r", ""},
		"a source": {"<source><id>urn:s</id><title>s</title><updated>2001-01-01T00:00:00Z</updated><link href='urn:x'/></source><id>urn:r</id>" + stamp + alternate, "urn:r", ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := readString(t, head+"<entry>"+tt.in+"</entry><entry><id>urn:next</id>"+stamp+alternate+"</entry>"+tail)
			ids := []string{"urn:next"}
			if tt.want != "" {
				ids = []string{tt.want, "urn:next"}
			}
			var have []string
			for _, e := range got.entries {
				have = append(have, e.ID)
			}
			if !slices.Equal(have, ids) || tt.rule == "" && len(got.rules) > 0 || tt.rule != "" && !slices.Contains(got.rules, tt.rule) {
				t.Errorf("read %q with warnings %v, want %q with %q", have, got.rules, ids, tt.rule)
			}
			if got.stats.Entries != len(ids) || got.stats.Skipped != 2-len(ids) {
				t.Errorf("stats %+v", got.stats)
			}
			if _, err := read(strings.NewReader(head+"<entry>"+tt.in+"</entry>"+tail), atompmh.ReaderOptions{Base: base, Strict: true}); (err != nil) != (tt.rule != "") {
				t.Errorf("a strict Reader says %v", err)
			}
		})
	}
}

// AP-DOC-08: datetimes are compared as instants, whatever their form.
func TestDatetimes(t *testing.T) {
	t.Parallel()
	at := func(d time.Duration) time.Time { return may1.Add(d) }
	tests := map[string]struct {
		want  time.Time
		exact bool
	}{
		"2024-05-01T00:00:00Z":                {may1, true},
		"2024-05-01T10:00:00+10:00":           {may1, true},
		"2024-04-30T18:30:00-05:30":           {may1, true},
		"2024-05-01T00:00:00-00:00":           {may1, true},
		"2024-05-01T00:00:00.250Z":            {at(250 * time.Millisecond), true},
		"2024-05-01T00:00:00.123456789Z":      {at(123456789), true},
		"2024-05-01T00:00:00.1234567899999Z":  {at(123456789), true},
		"2024-02-29T23:59:60Z":                {time.Date(2024, 3, 1, 0, 0, 0, 0, time.UTC), true},
		"9999-12-31T23:59:59Z":                {time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC), true},
		" 2024-05-01T00:00:00Z\n":             {may1, true},
		"2024-05-01t00:00:00z":                {may1, false},
		"2024-05-01 00:00:00Z":                {may1, false},
		"2024-05-01T00:00:00":                 {may1, false},
		"2024-05-01T00:00Z":                   {may1, false},
		"2024-05-01":                          {may1, false},
		"2024-05-01T10:00:00+1000":            {may1, false},
		"2024-05-01T10:00:00+10":              {may1, false},
		"2024-05-01T00:00:00,5Z":              {at(500 * time.Millisecond), false},
		"":                                    {},
		"2024":                                {},
		"2024-05":                             {},
		"2024-13-01T00:00:00Z":                {},
		"2024-02-30T00:00:00Z":                {},
		"2023-02-29T00:00:00Z":                {},
		"1900-02-29T00:00:00Z":                {},
		"2024-05-01T24:00:00Z":                {},
		"2024-05-01T00:60:00Z":                {},
		"2024-05-01T00:00:61Z":                {},
		"2024-05-01T00:00:00.Z":               {},
		"2024-05-01T00:00:00+24:00":           {},
		"2024-05-01T00:00:00+10:60":           {},
		"2024-05-01T00:00:00+1:00":            {},
		"2024-05-01T00:00:00ZZ":               {},
		"2024-05-01T00:00:0xZ":                {},
		"2024-05-01X00:00:00Z":                {},
		"0001-01-01T00:00:00Z":                {}, // the zero time of Go
		"Wed, 01 May 2024 00:00:00 GMT":       {},
		"2024-05-01T00:00:00 Europe/Brisbane": {},
	}
	for in, tt := range tests {
		got := readString(t, strings.Replace(head, "2024-05-02T09:30:12.500Z", "9999-12-31T23:59:59Z", 1)+
			"<entry><id>urn:r</id><title/><updated>"+in+"</updated>"+alternate+"</entry>"+tail)
		switch {
		case tt.want.IsZero():
			if len(got.entries) > 0 || !slices.Contains(got.rules, "AP-DOC-08") {
				t.Errorf("%q was taken for %v", in, got.entries[0].Updated)
			}
		case len(got.entries) != 1 || !got.entries[0].Updated.Equal(tt.want) || got.entries[0].Updated.Location() != time.UTC:
			t.Errorf("%q: read %+v, want %v", in, got.entries, tt.want)
		case slices.Contains(got.rules, "AP-DOC-08") == tt.exact:
			t.Errorf("%q: warnings %v", in, got.rules)
		}
	}
}

// Entries may be in any order; two of one record are two (AP-GEN-04, AP-TS-04,
// AP-DOC-06, AP-AMB-09). The Reader reports the interval of their times
// (AP-HV-06).
func TestOrder(t *testing.T) {
	t.Parallel()
	got := readString(t, head+
		"<entry><id>urn:r</id><title/><updated>2024-04-30T00:00:00Z</updated>"+alternate+"</entry>"+
		"<entry><id>urn:r</id><title/><updated>2024-05-01T00:00:00Z</updated><content/></entry>"+
		"<entry><id>urn:s</id><title/><updated>2024-04-01T00:00:00Z</updated>"+alternate+"</entry>"+tail)
	if len(got.entries) != 3 || len(got.rules) > 0 {
		t.Fatalf("read %+v, warnings %v", got.entries, got.rules)
	}
	if !got.stats.Latest.Equal(may1) || !got.stats.Earliest.Equal(time.Date(2024, 4, 1, 0, 0, 0, 0, time.UTC)) {
		t.Errorf("stats %+v", got.stats)
	}
}

// How a document is split into reads makes no difference.
func TestReads(t *testing.T) {
	t.Parallel()
	doc := head + strings.Repeat("<entry><id>urn:r</id>"+stamp+alternate+"<summary>s &amp; t</summary></entry>", 50) + tail
	want := readString(t, doc)
	if len(want.entries) != 50 || want.entries[49].Summary != "s & t" || want.stats.Bytes != int64(len(doc)) {
		t.Fatalf("read %d entries, the last %+v, stats %+v", len(want.entries), want.entries[49], want.stats)
	}
	for name, r := range map[string]io.Reader{
		"byte by byte": iotest.OneByteReader(strings.NewReader(doc)), "in halves": iotest.HalfReader(strings.NewReader(doc)),
		"data with the error": iotest.DataErrReader(strings.NewReader(doc)),
	} {
		got, err := read(r, atompmh.ReaderOptions{Base: base})
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(reading{})); diff != "" || err != nil {
			t.Errorf("%s: %v\n%s", name, err, diff)
		}
	}
}

// Errors are sticky; an error of the underlying reader is returned; the caller
// may stop early.
func TestErrors(t *testing.T) {
	t.Parallel()
	reset := errors.New("connection reset")
	r := atompmh.NewReader(io.MultiReader(strings.NewReader(head+"<entry><id>urn:r</id>"+strings.Repeat(" ", 600)), iotest.ErrReader(reset)), atompmh.ReaderOptions{})
	if f, err := r.Feed(); err != nil || f.ID != "urn:feed" {
		t.Errorf("Feed = %+v, %v", f, err)
	}
	var e atompmh.Entry
	for range 2 {
		if err := r.Read(&e); !errors.Is(err, reset) {
			t.Errorf("error %v, want that of the reader", err)
		}
	}
	if _, err := r.Feed(); !errors.Is(err, reset) {
		t.Errorf("Feed: %v", err)
	}
	if _, err := read(strings.NewReader(head+tail), atompmh.ReaderOptions{Base: "http://[::1"}); err == nil {
		t.Error("a base that is none was taken")
	}
	r = atompmh.NewReader(strings.NewReader(head+strings.Repeat("<entry><id>urn:r</id>"+stamp+alternate+"</entry>", 3)+tail), atompmh.ReaderOptions{})
	for range r.Entries() {
		break
	}
	if st := r.Stats(); st.Entries != 1 {
		t.Errorf("stats %+v", st)
	}
	for range 2 {
		for range r.Entries() {
			continue
		}
		if err := r.Read(&e); err != io.EOF {
			t.Errorf("behind the end: %v", err)
		}
	}
}
