package resourcesync_test

import (
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"lockstep/resourcesync"
)

const changesMD = `<rs:md capability="changelist" from="2024-05-02T00:00:00Z"/>`

// event returns an entry of a Change List; an empty time is omitted.
func event(name, lastmod, datetime string) string {
	e := "<url><loc>urn:" + name + "</loc>"
	if lastmod != "" {
		e += "<lastmod>" + lastmod + "</lastmod>"
	}
	e += `<rs:md change="updated"`
	if datetime != "" {
		e += ` datetime="` + datetime + `"`
	}
	return e + "/></url>"
}

// RS-EM-07, RS-CHL-11: lastmod is the time of a change only if there is no
// datetime.
func TestEventOrder(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name                string
		events              []string
		datetimes, disorder int
		sorted              string
	}{
		{"in order", []string{event("a", "", "2024-05-02"), event("b", "", "2024-05-03")}, 2, 0, "ab"},
		{"newest first", []string{event("a", "", "2024-05-04"), event("b", "", "2024-05-03"), event("c", "", "2024-05-02")}, 3, 2, "cba"},
		{"equal times", []string{event("b", "", "2024-05-03"), event("c", "", "2024-05-02"), event("a", "", "2024-05-02")}, 3, 1, "cab"},
		{"by lastmod", []string{event("a", "2024-05-04", ""), event("b", "2024-05-03", "")}, 0, 1, "ba"},
		{"lastmod in between", []string{event("a", "", "2024-05-03"), event("b", "2000", ""), event("c", "", "2024-05-04")}, 2, 0, "abc"},
		{"lastmod first", []string{event("a", "2024-06-02", ""), event("b", "", "2024-05-03"), event("c", "", "2024-05-04")}, 2, 0, "abc"},
		{"no time in between", []string{event("a", "", "2024-05-04"), event("b", "", ""), event("c", "", "2024-05-03")}, 2, 1, "cab"},
		{"no times", []string{event("a", "", ""), event("b", "", "")}, 0, 0, "ab"},
	}
	for _, tt := range tests {
		got, err := readAll(inRoot(upLink+changesMD+strings.Join(tt.events, "")), resourcesync.ReaderOptions{})
		if err != nil || got.stats.Datetimes != tt.datetimes || got.stats.Disorder != tt.disorder {
			t.Errorf("%s: %+v, %v, want %d datetimes and %d out of order", tt.name, got.stats, err, tt.datetimes, tt.disorder)
		}
		resourcesync.SortChanges(got.entries)
		sorted := ""
		for _, e := range got.entries {
			sorted += strings.TrimPrefix(e.Loc, "urn:")
		}
		if sorted != tt.sorted {
			t.Errorf("%s: sorted %q, want %q", tt.name, sorted, tt.sorted)
		}
	}
}

// RS-CHL-11: changes of one instant keep their order, however many there are.
func TestSortIsStable(t *testing.T) {
	t.Parallel()
	var entries []resourcesync.Entry
	for i := range 200 {
		at := day2
		if i%3 == 0 {
			at = day1
		}
		entries = append(entries, resourcesync.Entry{Metadata: resourcesync.Metadata{Datetime: at, Length: int64(i)}})
	}
	resourcesync.SortChanges(entries)
	for i := 1; i < len(entries); i++ {
		if a, b := entries[i-1], entries[i]; a.Datetime.Compare(b.Datetime) > 0 || a.Datetime == b.Datetime && a.Length > b.Length {
			t.Fatalf("entry %d comes behind %d", b.Length, a.Length)
		}
	}
}

// RS-MD-14: a Change List without from begins with its earliest event, wherever
// that is in the document.
func TestFromOfEarliestEvent(t *testing.T) {
	t.Parallel()
	got, err := readAll(inRoot(upLink+`<rs:md capability="changelist"/>`+event("a", "1999", "")+event("b", "", "2024-05-04")+event("c", "", "2024-05-03")),
		resourcesync.ReaderOptions{})
	if err != nil || !got.header.FromUnproven || got.header.From.Compare(date("2024-05-03")) != 0 {
		t.Errorf("header %+v, %v", got.header, err)
	}
}

// The header is known before the entries are read; afterwards it includes what
// followed them (RS-XML-03).
func TestHeader(t *testing.T) {
	t.Parallel()
	r := resourcesync.NewReader(strings.NewReader(inRoot(listMD+"<url><loc>urn:a</loc></url>"+upLink)), resourcesync.ReaderOptions{})
	h, err := r.Header()
	if err != nil || h.Capability != resourcesync.ResourceList || h.Link(resourcesync.RelUp) != "" {
		t.Errorf("before: %+v, %v", h, err)
	}
	var e resourcesync.Entry
	if err := r.Read(&e); err != nil || e.Loc != "urn:a" {
		t.Errorf("Read = %v, %v", e, err)
	}
	for range 2 {
		if err := r.Read(&e); err != io.EOF {
			t.Errorf("Read at the end = %v", err)
		}
	}
	h, err = r.Header()
	if err != nil || h.Link(resourcesync.RelUp) != "http://example.org/cl.xml" {
		t.Errorf("after: %+v, %v", h, err)
	}
	h.Links[0].Href = "changed"
	if again, _ := r.Header(); again.Link(resourcesync.RelUp) != "http://example.org/cl.xml" {
		t.Error("Header hands out links it keeps")
	}
}

// Open uses until to decide whether a document may grow (RS-MD-09, RS-VER-10).
func TestOpen(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]bool{
		`<rs:md capability="changelist" from="2024"/>`:                       true,
		`<rs:md capability="changelist" from="2024" until="2025"/>`:          false,
		`<rs:md capability="changedump" from="2024"/>`:                       true,
		`<rs:md capability="changedump-manifest" from="2024"/>`:              false,
		`<rs:md capability="resourcelist" at="2024"/>`:                       false,
		`<rs:md capability="changelist" from="2024" until="2025"/>` + legacy: true,
	} {
		if got, err := readAll(inRoot(name), resourcesync.ReaderOptions{}); err != nil || got.header.Open() != want {
			t.Errorf("%s: open %v, %v", name, got.header.Open(), err)
		}
	}
}

const legacy = `<rs:ln rel="resourcesync" href="urn:cl"/>`

// Errors are sticky, and contain the position.
func TestErrorsStick(t *testing.T) {
	t.Parallel()
	r := resourcesync.NewReader(strings.NewReader(openRoot+"\n<url><loc>urn:a</loc></url>\n  <url><loc>urn:b</url>"), resourcesync.ReaderOptions{})
	var e resourcesync.Entry
	if err := r.Read(&e); err != nil {
		t.Fatal(err)
	}
	var first *resourcesync.SyntaxError
	if err := r.Read(&e); !errors.As(err, &first) || first.Line != 3 || first.Column != 18 {
		t.Errorf("error %v, want one at line 3, column 18", err)
	}
	if err := r.Read(&e); !errors.Is(err, first) {
		t.Errorf("error %v, then %v", first, err)
	}
	n := 0
	for _, err := range r.Entries() {
		if n++; !errors.Is(err, first) {
			t.Errorf("Entries yields %v", err)
		}
	}
	if st := r.Stats(); n != 1 || st.Entries != 1 {
		t.Errorf("%d yields, %+v", n, st)
	}
}

// A strict Reader stops at the first deviation, and names it.
func TestStrict(t *testing.T) {
	t.Parallel()
	for doc, rule := range map[string]string{
		`<urlset/>`: "RS-GEN-01",
		inRoot(`<rs:md capability="resourcelist" at="2024"/>`):                                  "RS-AMB-03",
		inRoot(upLink + listMD + "<url><loc>urn:a</loc></url><url></url>"):                      "RS-XML-09",
		inRoot(upLink + listMD + "<url><loc>urn:a</loc><rs:md/></url>" + listMD):                "RS-XML-03",
		inRoot(upLink + changesMD + event("a", "", "2024-05-02") + event("b", "", "2024-05-1")): "RS-DT-02",
	} {
		_, err := readAll(doc, resourcesync.ReaderOptions{Strict: true})
		wantBroken(t, doc, err, rule)
		if !promised(err) {
			t.Errorf("%s: error of type %T", doc, err)
		}
	}
}

// Violations of a rule are reported only a few times, but all are counted;
// quoted text cannot affect a terminal.
func TestWarnings(t *testing.T) {
	t.Parallel()
	got, err := readAll(inRoot(upLink+listMD+strings.Repeat("<url><loc>urn:a</loc><rs:md length='&#x9b;31m&#10;'/></url>", 100)), resourcesync.ReaderOptions{})
	if err != nil || len(got.warnings) != 20 || got.stats.Warnings != 100 {
		t.Fatalf("%d warnings told, %d counted, %v", len(got.warnings), got.stats.Warnings, err)
	}
	if text := got.warnings[0].String(); strings.ContainsAny(text, "\u009b\n") || !strings.Contains(text, "RS-LEN-02") {
		t.Errorf("warning %q", text)
	}
	_, err = readAll("\x1b[31m", resourcesync.ReaderOptions{})
	if err == nil || strings.Contains(err.Error(), "\x1b") {
		t.Errorf("error %q", err)
	}
}

// A base is needed, and must be absolute, only if something is relative.
func TestBase(t *testing.T) {
	t.Parallel()
	relative := inRoot(upLink + listMD + `<url><loc>a</loc></url><url><loc>urn:b</loc><rs:ln rel="duplicate" href="c"/></url>`)
	for base, want := range map[string][]string{
		"":                     {"urn:b"},
		"d/e":                  {"urn:b"},
		"http://example.org/x": {"http://example.org/a", "urn:b"},
	} {
		got, err := readAll(relative, resourcesync.ReaderOptions{Base: base})
		var locs []string
		for _, e := range got.entries {
			locs = append(locs, e.Loc)
		}
		if err != nil || !slices.Equal(locs, want) {
			t.Errorf("base %q: %q, %v, want %q", base, locs, err, want)
		}
	}
	if _, err := readAll(relative, resourcesync.ReaderOptions{Base: ":"}); err == nil {
		t.Error("a base that is no URI is accepted")
	}
}

func TestCapability(t *testing.T) {
	t.Parallel()
	for _, s := range samples {
		c, err := resourcesync.ParseCapability(string(s.header.Capability))
		if err != nil || c != s.header.Capability {
			t.Errorf("ParseCapability(%s) = %v, %v", s.header.Capability, c, err)
		}
	}
	for _, s := range []string{"", "ResourceList", "x-ray"} {
		if c, err := resourcesync.ParseCapability(s); !errors.Is(err, resourcesync.ErrUnknownCapability) {
			t.Errorf("ParseCapability(%q) = %v, %v", s, c, err)
		}
	}
}

func TestMediaType(t *testing.T) {
	t.Parallel()
	for s, want := range map[string]bool{
		"text/plain": true, "application/vnd.x+json": true, "TEXT/html; charset=utf-8": true, `a/b;c="d;\"e"`: true, "a/b ; c=d ;": true,
		"": false, "text": false, "text/": false, "/plain": false, "text/plain/x": false, "text /plain": false, "a/b; c": false, `a/b;c="d`: false, "a/b,c/d": false, `a/b;c="\`: false,
	} {
		if got := resourcesync.ValidMediaType(s); got != want {
			t.Errorf("ValidMediaType(%q) = %v", s, got)
		}
	}
}
