package resourcesync_test

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"lockstep/resourcesync"
)

// sampleOf returns a copy of the sample called name.
func sampleOf(t *testing.T, name string) (resourcesync.Header, []resourcesync.Entry) {
	t.Helper()
	for _, s := range samples {
		if s.name == name {
			h, entries := s.header, append([]resourcesync.Entry(nil), s.entries...)
			h.Links = append([]resourcesync.Link(nil), h.Links...)
			for i := range entries {
				entries[i].Links = append([]resourcesync.Link(nil), entries[i].Links...)
			}
			return h, entries
		}
	}
	t.Fatalf("no sample %q", name)
	return resourcesync.Header{}, nil
}

func wantBroken(t *testing.T, name string, err error, rule string) {
	t.Helper()
	var broken *resourcesync.RuleError
	if !errors.As(err, &broken) || broken.Rule != rule {
		t.Errorf("%s: error %v, want one of %s", name, err, rule)
	}
}

// What table 25.1 forbids or requires at the root.
func TestWriterRefusesHeader(t *testing.T) {
	t.Parallel()
	type header = resourcesync.Header
	ancient := resourcesync.NewDatetime(time.Date(-1, 1, 1, 0, 0, 0, 0, time.UTC))
	link := func(rel, href string) resourcesync.Link { return resourcesync.Link{Rel: rel, Href: href} }
	tests := []struct {
		name, sample, rule string
		change             func(*header)
	}{
		{"no capability", "resource list", "RS-MD-01", func(h *header) { h.Capability = "" }},
		{"unknown capability", "resource list", "RS-MD-01", func(h *header) { h.Capability = "x-ray" }},
		{"index of manifests", "resource dump manifest", "RS-GEN-04", func(h *header) { h.Index = true }},
		{"index of capability lists", "capability list", "RS-GEN-04", func(h *header) { h.Index = true }},
		{"no at", "resource list", "RS-MD-01", func(h *header) { h.At = resourcesync.Datetime{} }},
		{"no from", "change list", "RS-MD-01", func(h *header) { h.From = resourcesync.Datetime{} }},
		{"no up", "resource list", "RS-MD-01", func(h *header) { h.Links = nil }},
		{"from of a list", "resource list", "RS-MD-12", func(h *header) { h.From = day1 }},
		{"at of changes", "change list", "RS-MD-12", func(h *header) { h.At = day1 }},
		{"at of a description", "description", "RS-MD-12", func(h *header) { h.At = day1 }},
		{"up of a description", "description", "RS-MD-12", func(h *header) { h.Links = append(h.Links, up) }},
		{"index of an index", "resource list index", "RS-MD-12", func(h *header) { h.Links = append(h.Links, toIndex) }},
		{"archives of a manifest", "resource dump manifest", "RS-MD-12", func(h *header) { h.Links = append(h.Links, past) }},
		{"contents at the root", "resource dump", "RS-MD-12", func(h *header) { h.Links = append(h.Links, link("contents", "urn:1")) }},
		{"completed before at", "resource list", "RS-MD-05", func(h *header) { h.At, h.Completed = day2, day1 }},
		{"until before from", "change list", "RS-MD-10", func(h *header) { h.From, h.Until = day3, day1 }},
		{"year before 0", "resource list", "RS-DT-01", func(h *header) { h.At, h.Completed = ancient, resourcesync.Datetime{} }},
		{"relation in upper case", "resource list", "RS-LN-03", func(h *header) { h.Links = append(h.Links, link("Index", "urn:1")) }},
		{"two relations", "resource list", "RS-LN-03", func(h *header) { h.Links = append(h.Links, link("index up", "urn:1")) }},
		{"link top", "resource list", "RS-VER-04", func(h *header) { h.Links = append(h.Links, link("top", "urn:1")) }},
		{"link resourcesync", "resource list", "RS-VER-04", func(h *header) { h.Links = append(h.Links, link("resourcesync", "urn:1")) }},
		{"relative href", "resource list", "RS-LN-01", func(h *header) { h.Links[0].Href = "/cl.xml" }},
		{"href with blanks", "resource list", "RS-LN-01", func(h *header) { h.Links[0].Href = "urn:a b" }},
		{"no href", "resource list", "RS-LN-01", func(h *header) { h.Links[0].Href = "" }},
		{"pri at the root", "resource list", "RS-LN-02", func(h *header) { h.Links[0].Pri = 1 }},
		{"type that is none", "resource list", "RS-TYPE-01", func(h *header) { h.Links[0].Type = "text" }},
	}
	for _, tt := range tests {
		h, _ := sampleOf(t, tt.sample)
		tt.change(&h)
		_, err := resourcesync.NewWriter(io.Discard, h)
		wantBroken(t, tt.name, err, tt.rule)
	}
}

// What table 25.1 and the rules on single values forbid or require of entries.
// A refused entry does not change the document.
func TestWriterRefusesEntry(t *testing.T) {
	t.Parallel()
	type entry = resourcesync.Entry
	var none resourcesync.Datetime
	link := func(l resourcesync.Link) func(*entry) { return func(e *entry) { e.Links = append(e.Links, l) } }
	tests := []struct {
		name, sample, rule string
		change             func(*entry)
	}{
		{"no loc", "resource list", "RS-XML-09", func(e *entry) { e.Loc = "" }},
		{"relative loc", "resource list", "RS-XML-09", func(e *entry) { e.Loc = "/a" }},
		{"scheme alone", "resource list", "RS-XML-09", func(e *entry) { e.Loc = "http:" }},
		{"blank in loc", "resource list", "RS-XML-09", func(e *entry) { e.Loc = "http://example.org/a b" }},
		{"blank behind loc", "resource list", "RS-XML-09", func(e *entry) { e.Loc += " " }},
		{"IRI", "resource list", "RS-XML-09", func(e *entry) { e.Loc = "http://example.org/é" }},
		{"percent without digits", "resource list", "RS-XML-09", func(e *entry) { e.Loc = "http://example.org/%4" }},
		{"control in loc", "resource list", "RS-XML-09", func(e *entry) { e.Loc = "http://example.org/\x00" }},
		{"change in a list", "resource list", "RS-MD-12", func(e *entry) { e.Change = resourcesync.Created }},
		{"datetime in a list", "resource list", "RS-MD-12", func(e *entry) { e.Datetime = day1 }},
		{"path in a list", "resource list", "RS-MD-12", func(e *entry) { e.Path = "/a" }},
		{"capability in a list", "resource list", "RS-MD-12", func(e *entry) { e.Capability = "resourcelist" }},
		{"at in a list", "resource list", "RS-MD-12", func(e *entry) { e.At = day1 }},
		{"patch in a list", "resource list", "RS-REL-30", link(patch(""))},
		{"up in an entry", "resource list", "RS-MD-12", link(up)},
		{"contents in a list", "resource list", "RS-MD-12", link(resourcesync.Link{Rel: "contents", Href: "urn:1"})},
		{"hub in a list", "resource list", "RS-LN-04", link(resourcesync.Link{Rel: "hub", Href: "urn:1"})},
		{"path of a link in a list", "resource list", "RS-PATH-01", link(resourcesync.Link{Rel: "duplicate", Href: "urn:1", Path: "/a"})},
		{"pri too high", "resource list", "RS-PRI-01", link(resourcesync.Link{Rel: "duplicate", Href: "urn:1", Pri: 1_000_000})},
		{"negative pri", "resource list", "RS-PRI-01", link(resourcesync.Link{Rel: "duplicate", Href: "urn:1", Pri: -1})},
		{"relative href", "resource list", "RS-LN-01", link(resourcesync.Link{Rel: "duplicate", Href: "a"})},
		{"patch in another case", "change list", "RS-LN-03", link(resourcesync.Link{Rel: strings.ToUpper(resourcesync.RelPatch), Href: "urn:1"})},
		{"changefreq", "resource list", "RS-XML-14", func(e *entry) { e.ChangeFreq = "sometimes" }},
		{"changefreq in an index", "resource list index", "RS-MD-12", func(e *entry) { e.ChangeFreq = "daily" }},
		{"length in an index", "resource list index", "RS-MD-12", func(e *entry) { e.HasLength = true }},
		{"negative length", "resource list", "RS-LEN-01", func(e *entry) { e.Length, e.HasLength = -1, true }},
		{"short digest", "resource list", "RS-HASH-02", func(e *entry) { e.Hashes = resourcesync.Hashes{{Algorithm: resourcesync.MD5, Digest: "x"}} }},
		{"no algorithm", "resource list", "RS-HASH-02", func(e *entry) { e.Hashes = resourcesync.Hashes{{}} }},
		{"two digests", "resource list", "RS-HASH-02", func(e *entry) { e.Hashes = append(hashes(testMD5), hashes(testMD5)...) }},
		{"type", "resource list", "RS-TYPE-01", func(e *entry) { e.Type = "text" }},
		{"type with a blank behind", "resource list", "RS-TYPE-01", func(e *entry) { e.Type = "text/plain; " }},
		{"type with a control", "resource list", "RS-TYPE-01", func(e *entry) { e.Type = "text/plain;a=\"\x01\"" }},
		{"encoding", "resource list", "RS-ENC-01", func(e *entry) { e.Encoding = "g zip" }},
		{"encoding with a blank in front", "resource list", "RS-ENC-01", func(e *entry) { e.Encoding = " gzip" }},
		{"encoding with a blank behind", "resource list", "RS-ENC-01", func(e *entry) { e.Encoding = "gzip " }},
		{"encoding with a comma too many", "resource list", "RS-ENC-01", func(e *entry) { e.Encoding = "gzip, " }},
		{"lastmod without a year", "resource list", "RS-DT-01", func(e *entry) {
			e.Lastmod = resourcesync.NewDatetime(time.Date(10_000, 1, 1, 0, 0, 0, 0, time.UTC))
		}},
		{"completed before at", "resource list index", "RS-MD-05", func(e *entry) { e.At, e.Completed = day3, day2 }},
		{"part older than its index", "resource list index", "RS-RLI-03", func(e *entry) { e.At = date("2024") }},
		{"part newer than its index", "resource list index", "RS-RLI-03", func(e *entry) { e.At, e.Completed = day3, date("2025") }},
		{"no path", "resource dump manifest", "RS-MD-01", func(e *entry) { e.Path = "" }},
		{"relative path", "resource dump manifest", "RS-PATH-01", func(e *entry) { e.Path = "a" }},
		{"path that leads out", "resource dump manifest", "RS-PATH-01", func(e *entry) { e.Path = "/a/../../b" }},
		{"path with an empty segment", "resource dump manifest", "RS-PATH-01", func(e *entry) { e.Path = "/a//b" }},
		{"path with a control", "resource dump manifest", "RS-PATH-01", func(e *entry) { e.Path = "/a\x01" }},
		{"path of invalid UTF-8", "resource dump manifest", "RS-PATH-01", func(e *entry) { e.Path = "/\xff" }},
		{"no change", "change list", "RS-MD-01", func(e *entry) { e.Change = 0 }},
		{"no such change", "change list", "RS-EM-02", func(e *entry) { e.Change = 9 }},
		{"no datetime", "change list", "RS-CHL-04", func(e *entry) { e.Datetime = none }},
		{"older than the one in front", "change list", "RS-CHL-03", func(e *entry) { e.Datetime = day2 }},
		{"after until", "change list", "RS-EM-04", func(e *entry) { e.Datetime = date("2025") }},
		{"at in changes", "change list", "RS-MD-12", func(e *entry) { e.At = day1 }},
		{"deleted with a length", "change list", "RS-CHL-08", func(e *entry) { e.Datetime, e.Change, e.HasLength = day3, resourcesync.Deleted, true }},
		{"patch of a creation", "change list", "RS-REL-30", func(e *entry) {
			e.Datetime, e.Change, e.Links = day3, resourcesync.Created, []resourcesync.Link{patch("")}
		}},
		{"patch without type", "change list", "RS-REL-31", func(e *entry) {
			e.Datetime, e.Change, e.Links = day3, resourcesync.Updated, []resourcesync.Link{{Rel: resourcesync.RelPatch, Href: "urn:1"}}
		}},
		{"patch without path", "change dump manifest", "RS-CDM-06", link(patch(""))},
		{"change without path", "change dump manifest", "RS-PATH-01", func(e *entry) { e.Path = "" }},
		{"part behind the open one", "change list index", "RS-CHI-05", func(e *entry) { e.From, e.Until = day3, none }},
		{"part without times behind the open one", "change list index", "RS-CHI-05", func(e *entry) { e.From, e.Until = none, none }},
		{"package before the dump", "change dump", "RS-CHI-05", func(e *entry) { e.From = date("2024") }},
		{"package after the dump", "change dump", "RS-CHI-05", func(e *entry) { e.Until = date("2025") }},
		{"no capability", "capability list", "RS-MD-01", func(e *entry) { e.Capability = "" }},
		{"manifest listed", "capability list", "RS-CL-12", func(e *entry) { e.Capability = resourcesync.ResourceDumpManifest }},
		{"list of lists listed", "capability list", "RS-CL-12", func(e *entry) { e.Capability = resourcesync.CapabilityList }},
		{"unknown capability listed", "capability list", "RS-CL-06", func(e *entry) { e.Capability = "x-ray" }},
		{"listed twice", "capability list", "RS-CL-02", func(e *entry) { e.Capability = resourcesync.ResourceList }},
		{"another capability described", "description", "RS-SD-06", func(e *entry) { e.Capability = resourcesync.ResourceList }},
		{"another capability indexed", "description index", "RS-IDX-10", func(e *entry) { e.Capability = resourcesync.ResourceList }},
	}
	for _, tt := range tests {
		h, entries := sampleOf(t, tt.sample)
		var out bytes.Buffer
		w, err := resourcesync.NewWriter(&out, h)
		if err != nil {
			t.Fatal(err)
		}
		for i := range entries {
			if err := w.Write(&entries[i]); err != nil {
				t.Fatal(err)
			}
		}
		before := w.Bytes()
		e := entries[0]
		e.Links = append([]resourcesync.Link(nil), e.Links...)
		tt.change(&e)
		wantBroken(t, tt.name, w.Write(&e), tt.rule)
		if w.Bytes() != before || w.Entries() != len(entries) {
			t.Errorf("%s: %d bytes and %d entries, before %d and %d", tt.name, w.Bytes(), w.Entries(), before, len(entries))
		}
		if err := w.Close(); err != nil || int64(out.Len()) != before {
			t.Errorf("%s: closed with %v at %d bytes, want %d", tt.name, err, out.Len(), before)
		}
		wantDocument(t, out.Bytes(), h, entries)
	}
}

// A capability that needs a hub, and parts that are not consecutive.
func TestWriterRefusesSequence(t *testing.T) {
	t.Parallel()
	h, _ := sampleOf(t, "capability list")
	w, err := resourcesync.NewWriter(io.Discard, h)
	if err != nil {
		t.Fatal(err)
	}
	wantBroken(t, "no hub", w.Write(&resourcesync.Entry{Loc: loc, Metadata: resourcesync.Metadata{Capability: resourcesync.ChangeNotification}}), "RS-CL-06")

	h, _ = sampleOf(t, "change list index")
	part := func(from, until resourcesync.Datetime) *resourcesync.Entry {
		return &resourcesync.Entry{Loc: loc, Metadata: resourcesync.Metadata{From: from, Until: until}}
	}
	if w, err = resourcesync.NewWriter(io.Discard, h); err != nil {
		t.Fatal(err)
	}
	if err := w.Write(part(day1, day2)); err != nil {
		t.Fatal(err)
	}
	wantBroken(t, "a gap", w.Write(part(day3, resourcesync.Datetime{})), "RS-CHI-05")
	wantBroken(t, "until before from", w.Write(part(day2, day1)), "RS-MD-10")
	h.Until = day3
	if w, err = resourcesync.NewWriter(io.Discard, h); err != nil {
		t.Fatal(err)
	}
	wantBroken(t, "open part of a closed index", w.Write(part(day1, resourcesync.Datetime{})), "RS-CHI-05")
}

// RS-IDX-01: the 50,001st entry and an excess byte are refused, and the
// document remains valid.
func TestWriterLimits(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	w, err := resourcesync.NewWriter(&out, listHeader)
	if err != nil {
		t.Fatal(err)
	}
	for e := range numbered(resourcesync.MaxEntries, 0) {
		if err := w.Write(&e); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Write(&resourcesync.Entry{Loc: loc}); !errors.Is(err, resourcesync.ErrTooLarge) {
		t.Errorf("entry 50,001: error %v", err)
	}
	if err := w.Close(); err != nil || w.Bytes() != int64(out.Len()) {
		t.Errorf("Close = %v, Bytes = %d, written %d", err, w.Bytes(), out.Len())
	}

	var sized bytes.Buffer
	if w, err = resourcesync.NewWriter(&sized, listHeader); err != nil {
		t.Fatal(err)
	}
	frame := int64(len("<url><loc></loc></url>\n"))
	big := resourcesync.Entry{Loc: "http://example.org/" + strings.Repeat("x", 1<<19)}
	for w.Bytes()+frame+int64(len(big.Loc)) <= resourcesync.MaxBytes {
		if err := w.Write(&big); err != nil {
			t.Fatal(err)
		}
	}
	rest := resourcesync.MaxBytes - w.Bytes() - frame
	last := resourcesync.Entry{Loc: big.Loc[:rest]}
	over := resourcesync.Entry{Loc: big.Loc[:rest+1]}
	n := w.Entries()
	for range 2 {
		if err := w.Write(&over); !errors.Is(err, resourcesync.ErrTooLarge) || w.Entries() != n {
			t.Fatalf("a byte too many: error %v", err)
		}
	}
	if err := w.Write(&last); err != nil {
		t.Fatalf("the last byte: %v", err)
	}
	if err := w.Close(); err != nil || sized.Len() != resourcesync.MaxBytes {
		t.Fatalf("Close = %v at %d bytes, want %d", err, sized.Len(), resourcesync.MaxBytes)
	}
	got, err := readFrom(&sized, resourcesync.ReaderOptions{Strict: true})
	if err != nil || len(got.entries) != w.Entries() || got.entries[n].Loc != last.Loc {
		t.Errorf("read %d entries, want %d, %v", len(got.entries), w.Entries(), err)
	}
}

// Errors of the underlying writer are sticky; a closed document accepts no
// entries.
func TestWriterErrors(t *testing.T) {
	t.Parallel()
	full := errors.New("no space left")
	h, entries := sampleOf(t, "resource list")
	w, err := resourcesync.NewWriter(failing{full}, h)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := w.Close(); !errors.Is(err, full) {
			t.Errorf("Close: error %v", err)
		}
	}
	if err := w.Write(&entries[0]); !errors.Is(err, full) {
		t.Errorf("Write after an error: %v", err)
	}
	if w, err = resourcesync.NewWriter(failing{nil}, h); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); !errors.Is(err, io.ErrShortWrite) {
		t.Errorf("short write: error %v", err)
	}
	if w, err = resourcesync.NewWriter(io.Discard, h); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(w.Close(), w.Close()); err != nil {
		t.Errorf("closing twice: %v", err)
	}
	if err := w.Write(&entries[0]); err == nil {
		t.Error("a closed document takes an entry")
	}
}

type failing struct{ err error }

func (f failing) Write(p []byte) (int, error) { return len(p) / 2, f.err }

// RS-XML-09, RS-LN-01: what the Writer accepts as an address, a strict Reader reads back;
// user names and passwords, which Readers ignore, it refuses.
func TestWriterRefusesUserNames(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		uri     string
		refused bool
	}{
		{"http://a.example@?a=1&b=2", true},
		{"https://user:pw@a.example/", true},
		{"https://user@a.example/b@c", true},
		{"https://@a.example/", true},
		{"https://:@a.example", true},
		{"ftp://user@a.example/b", true},
		{"https://user:pw/word@a.example/", true},
		{"https://a.example/b@c", false},
		{"https://a.example/b?c=@d", false},
		{"https://a.example/#b@c", false},
		{"https://a.example?b@c", false},
		{"urn:a@b", false},
		{"mailto:a@b.example", false},
	} {
		for _, field := range []string{"loc", "href"} {
			h, entries := sampleOf(t, "resource list")
			var out bytes.Buffer
			w, err := resourcesync.NewWriter(&out, h)
			if err != nil {
				t.Fatal(err)
			}
			e := entries[0]
			if e.Loc = tt.uri; field == "href" {
				e.Loc, e.Links = "https://a.example/", []resourcesync.Link{{Rel: "via", Href: tt.uri}}
			}
			err = w.Write(&e)
			if (err != nil) != tt.refused {
				t.Errorf("Write of %s %s: %v, want refused %v", field, tt.uri, err, tt.refused)
			}
			if err != nil {
				wantRule(t, err)
				continue
			}
			if err := w.Close(); err != nil {
				t.Fatal(err)
			}
			wantDocument(t, out.Bytes(), h, []resourcesync.Entry{e})
		}
	}
}
