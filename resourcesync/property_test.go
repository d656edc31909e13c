package resourcesync_test

import (
	"bytes"
	"math"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"lockstep/resourcesync"
)

// Everything the Writer accepts is read back equal, by a strict Reader and by
// encoding/xml, and every refusal states its reason.
func TestRoundTrip(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) { roundTrip(t) })
}

// FuzzRoundTrip is TestRoundTrip, guided by coverage.
func FuzzRoundTrip(f *testing.F) {
	f.Fuzz(rapid.MakeFuzz(roundTrip))
}

func roundTrip(t *rapid.T) {
	s := samples[rapid.IntRange(0, len(samples)-1).Draw(t, "sample")]
	h := s.header
	h.Links = append([]resourcesync.Link(nil), h.Links...)
	for i := range h.Links {
		h.Links[i].Href = genURI.Draw(t, "href")
		h.Links[i].Type = rapid.OneOf(rapid.Just(""), genType).Draw(t, "type")
	}
	var out bytes.Buffer
	w, err := resourcesync.NewWriter(&out, h)
	if err != nil {
		wantRule(t, err)
		return
	}
	var want []resourcesync.Entry
	for range rapid.IntRange(0, 5).Draw(t, "entries") {
		e := genEntry(t, s)
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
}

var (
	// genText draws any text, mostly characters that XML allows.
	genText = rapid.OneOf(rapid.StringN(0, 20, 40), rapid.StringMatching(`[ -~\t\n\r]{0,20}`), rapid.StringMatching(`[&<>"';#x0-9]{0,10}`))
	genURI  = rapid.OneOf(
		rapid.StringMatching(`(http|https|ftp|urn):[!-~]{1,30}`),
		rapid.StringMatching(`https://[a-z]{1,9}\.example/([a-zA-Z0-9&'=?;/._~-]|%[0-9A-Fa-f]{2}){0,30}`),
		genText,
	)
	genType = rapid.OneOf(
		rapid.SampledFrom([]string{"text/plain", "application/x.a+b", "text/html; charset=utf-8", "a/b;c=\"d;\\\"<&>'\""}),
		rapid.StringMatching(`[a-z]{1,3}/[a-z]{1,3}(; ?[a-z]=("[ -~]{0,5}"|[a-z]))?[; ]?`),
	)
	genPath     = rapid.OneOf(rapid.StringMatching(`(/[ -~]{1,8}){1,3}`), rapid.Map(genText, func(s string) string { return "/" + s }), rapid.Just("/../x"))
	genEncoding = rapid.OneOf(rapid.SampledFrom([]string{"gzip", "br, gzip", "x-a,b"}), genText)
)

func genDatetime(t *rapid.T, label string) resourcesync.Datetime {
	sec := rapid.OneOf(rapid.Int64Range(-62135596800, 253402300799), rapid.Int64Range(day1.Time().Unix(), day3.Time().Unix()), rapid.Int64()).Draw(t, label)
	nsec := rapid.OneOf(rapid.Just(int64(0)), rapid.SampledFrom([]int64{1, 1000, 250_000_000, 999_999_999}), rapid.Int64Range(0, 999_999_999)).Draw(t, label)
	return resourcesync.NewDatetime(time.Unix(sec%(1<<40), nsec))
}

func genHashes(t *rapid.T) (hs resourcesync.Hashes) {
	for _, a := range rapid.SliceOfNDistinct(rapid.SampledFrom([]resourcesync.Algorithm{
		resourcesync.MD5, resourcesync.SHA1, resourcesync.SHA256, resourcesync.SHA384, resourcesync.SHA512,
	}), 0, 5, rapid.ID).Draw(t, "algorithms") {
		digest := rapid.SliceOfN(rapid.Byte(), a.Size(), a.Size()).Draw(t, "digest")
		hs = append(hs, resourcesync.Hash{Algorithm: a, Digest: string(digest)})
	}
	return hs
}

// genEntry draws an entry similar to those of the sample, each part of which
// may differ.
func genEntry(t *rapid.T, s sample) resourcesync.Entry {
	var e resourcesync.Entry
	if len(s.entries) > 0 {
		e = s.entries[rapid.IntRange(0, len(s.entries)-1).Draw(t, "like")]
	}
	e.Links = append([]resourcesync.Link(nil), e.Links...)
	change := func(label string) bool { return rapid.IntRange(0, 3).Draw(t, label) == 0 }
	if e.Loc = genURI.Draw(t, "loc"); change("plain loc") {
		e.Loc = loc
	}
	if change("lastmod") {
		e.Lastmod = genDatetime(t, "lastmod")
	}
	if !e.Datetime.IsZero() && change("datetime") {
		e.Datetime = genDatetime(t, "datetime")
	}
	if e.Type != "" {
		e.Type = genType.Draw(t, "type")
	}
	if len(e.Hashes) > 0 {
		e.Hashes = genHashes(t)
	}
	if e.HasLength {
		e.Length = rapid.Int64Range(-1, math.MaxInt64).Draw(t, "length")
	}
	if e.Path != "" {
		e.Path = genPath.Draw(t, "path")
	}
	if e.Encoding != "" {
		e.Encoding = genEncoding.Draw(t, "encoding")
	}
	for i := range e.Links {
		genLink(t, &e.Links[i])
	}
	return e
}

func genLink(t *rapid.T, l *resourcesync.Link) {
	l.Href = genURI.Draw(t, "href")
	if !strings.Contains(l.Rel, "patch") && l.Rel != resourcesync.RelHub {
		l.Rel = rapid.OneOf(rapid.Just(l.Rel), rapid.StringMatching(`[a-z]{1,5}[a-z0-9.-]?|urn:[!-~]{1,9}`), genText).Draw(t, "rel")
	}
	l.Pri = rapid.IntRange(-1, 1_000_000).Draw(t, "pri")
	if l.Type != "" {
		l.Type = genType.Draw(t, "link type")
	}
	if l.Path != "" {
		l.Path = genPath.Draw(t, "link path")
	}
	if len(l.Hashes) > 0 {
		l.Hashes = genHashes(t)
	}
	if !l.Modified.IsZero() {
		l.Modified = genDatetime(t, "modified")
	}
}
