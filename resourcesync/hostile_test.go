package resourcesync_test

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"io"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"
	"unicode/utf16"

	"lockstep/resourcesync"
)

// endless returns a stream of prefix, then body repeated for total bytes, then
// suffix.
func endless(prefix, body string, total int64, suffix string) io.Reader {
	return io.MultiReader(strings.NewReader(prefix), io.LimitReader(&repeater{text: body}, total), strings.NewReader(suffix))
}

type repeater struct {
	text string
	at   int
}

func (r *repeater) Read(p []byte) (n int, err error) {
	for n < len(p) {
		c := copy(p[n:], r.text[r.at:])
		n, r.at = n+c, (r.at+c)%len(r.text)
	}
	return n, nil
}

// Streams that try to fill the memory or to run forever fail with an error that
// names the limit, long before their end (RS-XML-13).
func TestHostileStreams(t *testing.T) {
	t.Parallel()
	const total = 64 << 20
	inEntry := openRoot + upLink + listMD + "<url><loc>http://example.org/a</loc>"
	tests := map[string]io.Reader{
		"a million elements deep":   endless(openRoot, "<a>", 3_000_000, ""),
		"nested long names":         endless(openRoot, "<"+strings.Repeat("a", 500_000)+">", total, ""),
		"an endless name":           endless("<", "a", total, ""),
		"an endless comment":        endless(openRoot+"<!--", " x -", total, ""),
		"an endless instruction":    endless(openRoot+"<?a ", "?", total, ""),
		"an endless attribute":      endless(inEntry+`<rs:md type="`, "a", total, ""),
		"an endless attribute name": endless(inEntry+`<rs:md `, "a", total, ""),
		"endless attributes":        endless(inEntry+`<rs:md `, "a='' ", total, ""),
		"endless blanks in a tag":   endless(inEntry+`<rs:md `, " ", total, ""),
		"endless declarations":      endless(openRoot, "<a xmlns:a='u' xmlns:b='u' xmlns:c='u' xmlns:d='u' xmlns:e='u'>", total, ""),
		"an endless text":           endless(inEntry, "text ", total, ""),
		"an endless loc":            endless(openRoot+"<url><loc>", "text ", total, ""),
		"an endless loc in pieces":  endless(openRoot+"<url><loc>", "text<!-- -->", total, ""),
		"an endless CDATA section":  endless(openRoot+"<url><loc><![CDATA[", "]] ", total, ""),
		"endless CDATA sections":    endless(openRoot+"<url><loc>", "<![CDATA["+strings.Repeat("x", 1000)+"]]>", total, ""),
		"an endless reference":      endless(openRoot+"<url><loc>&", "a", total, ""),
		"an endless document type":  endless("<!DOCTYPE urlset SYSTEM '", "a", total, ""),
		"an entry of endless paths": endless(inEntry, `<rs:ln rel="a" href="urn:1" path="/`+strings.Repeat("x", 5000)+`"/>`, total, ""),
		"an endless document":       endless(openRoot, "<a/>\n", total, ""),
		"an endless prolog":         endless("", "\n", total, ""),
		"endless comments":          endless("", "<!-- -->", total, ""),
	}
	for name, in := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			counted := &counter{r: in}
			r := resourcesync.NewReader(counted, resourcesync.ReaderOptions{MaxBytes: 6 << 20})
			var err error
			for _, err = range r.Entries() {
				if err != nil {
					break
				}
			}
			if !errors.Is(err, resourcesync.ErrLimit) && name != "endless attributes" || !promised(err) {
				t.Errorf("error %v, want ErrLimit", err)
			}
			total := name == "an endless document" || name == "endless comments"
			if reported := strings.Contains(err.Error(), "a document of more than"); reported != total {
				t.Errorf("error %v, which is of another limit", err)
			}
			if counted.n > 7<<20 {
				t.Errorf("%d bytes were read", counted.n)
			}
			if _, err := r.Header(); err == nil && name != "an entry of endless paths" {
				t.Error("Header gives no error after one")
			}
		})
	}
}

type counter struct {
	r io.Reader
	n int64
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += int64(n)
	return n, err
}

// Entries with very many links, hashes and relations stay within limits, and
// are read.
func TestManyLinks(t *testing.T) {
	t.Parallel()
	doc := openRoot + upLink + listMD + "<url><loc>urn:a</loc>" + strings.Repeat(`<rs:ln rel="a b c" href="urn:1" hash="`+testHashes+`"/>`, 5000) +
		"</url>" + closeRoot
	got, err := readAll(doc, resourcesync.ReaderOptions{})
	if err != nil || len(got.entries) != 1 || len(got.entries[0].Links) != 1000 {
		t.Fatalf("%d entries, %v", len(got.entries), err)
	}
	for _, l := range got.entries[0].Links {
		if l.Hashes.String() != testHashes {
			t.Fatalf("a link with hashes %v", l.Hashes)
		}
	}
	if n := len(got.warnings); n > 2*20 {
		t.Errorf("%d warnings were told", n)
	}
	root := openRoot + strings.Repeat(upLink, 5000) + listMD + closeRoot
	if got, err = readAll(root, resourcesync.ReaderOptions{}); err != nil || len(got.header.Links) != 1000 {
		t.Errorf("%d links at the root, %v", len(got.header.Links), err)
	}
}

// All texts of an entry count toward its limit, and all that a Reader stores of
// the root's links toward that of the root. Links beyond the thousandth are not
// stored, and do not count.
func TestLongTexts(t *testing.T) {
	t.Parallel()
	link := func(attrs string) string { return "<rs:ln " + attrs + "/>" }
	long := func(i int) string { return strconv.Itoa(i) + strings.Repeat("x", 50_000) }
	tests := map[string]struct {
		text func(i int) string
		want error // nil: one entry
	}{
		"href":     {func(i int) string { return link(`rel="a" href="urn:` + long(i) + `"`) }, resourcesync.ErrLimit},
		"type":     {func(i int) string { return link(`rel="a" href="urn:1" type="a/b` + long(i) + `"`) }, resourcesync.ErrLimit},
		"encoding": {func(i int) string { return link(`rel="a" href="urn:1" encoding="` + long(i) + `"`) }, resourcesync.ErrLimit},
		"rel":      {func(i int) string { return link(`href="urn:1" rel="` + long(i) + `"`) }, resourcesync.ErrLimit},
		"rels":     {func(i int) string { return link(`href="urn:1" rel="a ` + long(i) + ` b"`) }, resourcesync.ErrLimit},
		"one type": {func(int) string { return link(`rel="a" href="urn:1" type="a/b` + long(0) + `"`) }, nil},
		"ignored":  {func(int) string { return strings.Repeat(link(`rel="a" href="urn:`+strings.Repeat("x", 1000)+`"`), 50) }, nil},
	}
	for name, tt := range tests {
		var links strings.Builder
		for i := range 100 {
			links.WriteString(tt.text(i))
		}
		for where, doc := range map[string]string{
			"an entry": inRoot(upLink + listMD + "<url><loc>urn:a</loc>" + links.String() + "</url>"),
			"the root": inRoot(upLink + listMD + links.String() + "<url><loc>urn:a</loc></url>"),
		} {
			got, err := readAll(doc, resourcesync.ReaderOptions{})
			if !errors.Is(err, tt.want) || err == nil && len(got.entries) != 1 {
				t.Errorf("%s of %s: %d entries, %v, want %v", name, where, len(got.entries), err, tt.want)
			}
		}
	}
}

// A decompression bomb: a gigabyte that compresses to a megabyte.
func TestGzipBomb(t *testing.T) {
	t.Parallel()
	pr, pw := io.Pipe()
	defer pr.Close()
	go func() {
		zw := gzip.NewWriter(pw)
		_, err := io.Copy(zw, endless(openRoot, "<a/>                       ", 1<<40, ""))
		_ = pw.CloseWithError(err) // the reader has stopped
	}()
	_, err := readFrom(pr, resourcesync.ReaderOptions{MaxBytes: 4 << 20})
	if !errors.Is(err, resourcesync.ErrLimit) {
		t.Errorf("error %v, want ErrLimit", err)
	}
}

// whole is a document with every construct that can be truncated.
var whole = xmlDecl + "<!DOCTYPE urlset SYSTEM 'a'><!-- c --><?p i?>\n" + inRoot(upLink+"\n"+listMD+
	"<url><loc>http://example.org/é&amp;&#x20AC;<![CDATA[a]]></loc><lastmod>2024-05-01</lastmod><!-- c -->"+
	`<rs:md hash="`+testHashes+`" length="4"/><rs:ln rel="a" href='urn:1'/></url><?p i?>`+"<url><loc>urn:b</loc></url>")

// A document that is truncated anywhere is an error, never a shorter document.
func TestTruncated(t *testing.T) {
	t.Parallel()
	for name, doc := range map[string][]byte{
		"UTF-8": []byte(whole), "UTF-16": utf16Text(strings.Replace(whole, "UTF-8", "UTF-16", 1), binary.LittleEndian), "gzip": compressed([]byte(whole)),
	} {
		if got, err := readFrom(bytes.NewReader(doc), resourcesync.ReaderOptions{}); err != nil || len(got.entries) != 2 {
			t.Fatalf("%s: %d entries, %v", name, len(got.entries), err)
		}
		for n := range doc {
			_, err := readFrom(bytes.NewReader(doc[:n]), resourcesync.ReaderOptions{})
			if !promised(err) {
				t.Errorf("%s: cut off at byte %d of %d: error %v", name, n, len(doc), err)
			}
			if !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, resourcesync.ErrNotDocument) && n > 1 {
				t.Errorf("%s: cut off at byte %d of %d: error %v, want io.ErrUnexpectedEOF", name, n, len(doc), err)
			}
			broken := errors.New("connection reset")
			if _, err := readFrom(io.MultiReader(bytes.NewReader(doc[:n]), iotest.ErrReader(broken)), resourcesync.ReaderOptions{}); !errors.Is(err, broken) {
				t.Errorf("%s: connection lost at byte %d of %d: error %v", name, n, len(doc), err)
			}
		}
	}
}

// How a document is split into reads makes no difference.
func TestReads(t *testing.T) {
	t.Parallel()
	in := func() io.Reader { return strings.NewReader(whole) }
	for name, r := range map[string]io.Reader{
		"byte by byte": iotest.OneByteReader(in()), "halves": iotest.HalfReader(in()), "end with data": iotest.DataErrReader(in()),
	} {
		if got, err := readFrom(r, resourcesync.ReaderOptions{}); err != nil || len(got.entries) != 2 || got.stats.Bytes != int64(len(whole)) {
			t.Errorf("%s: %+v, %v", name, got.stats, err)
		}
	}
	if _, err := readFrom(neverReader{}, resourcesync.ReaderOptions{}); !errors.Is(err, io.ErrNoProgress) {
		t.Errorf("a reader that gives nothing: error %v", err)
	}
}

type neverReader struct{}

func (neverReader) Read([]byte) (int, error) { return 0, nil }

// Documents longer than the window, whose pieces do not fall on its edges, in
// every encoding.
func TestEncodings(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	const n = 600
	for i := range n {
		b.WriteString("<url><loc>http://example.org/" + strings.Repeat("a\u00e9", i%7) + "</loc><!-- \u00ff" + strings.Repeat("\u00e9", i%977) + " --></url>\r\n")
	}
	doc := func(encoding string) string {
		return `<?xml version="1.0" encoding="` + encoding + `"?>` + inRoot(b.String())
	}
	latin1 := func(s string) []byte {
		var out []byte
		for _, r := range s {
			out = append(out, byte(r))
		}
		return out
	}
	want, err := readAll(doc("utf-8"), resourcesync.ReaderOptions{})
	if err != nil || len(want.entries) != n {
		t.Fatalf("%d entries, %v", len(want.entries), err)
	}
	mark := func(order binary.AppendByteOrder) []byte { return order.AppendUint16(nil, 0xfeff) }
	for name, in := range map[string][]byte{
		"UTF-8 with mark":   []byte("\ufeff" + doc("UTF-8")),
		"ISO-8859-1":        latin1(doc("ISO-8859-1")),
		"latin1":            latin1(doc("Latin1")),
		"UTF-16LE":          utf16Text(doc("UTF-16LE"), binary.LittleEndian),
		"UTF-16BE":          utf16Text(doc("utf-16be"), binary.BigEndian),
		"UTF-16LE and mark": append(mark(binary.LittleEndian), utf16Text(doc("UTF-16"), binary.LittleEndian)...),
		"UTF-16BE and mark": append(mark(binary.BigEndian), utf16Text(doc("UTF-16"), binary.BigEndian)...),
		"gzip":              compressed([]byte(doc("UTF-8"))),
		"gzip of UTF-16":    compressed(append(mark(binary.BigEndian), utf16Text(doc("UTF-16"), binary.BigEndian)...)),
	} {
		for _, r := range []io.Reader{bytes.NewReader(in), iotest.OneByteReader(bytes.NewReader(in))} {
			got, err := readFrom(r, resourcesync.ReaderOptions{})
			if err != nil || len(got.entries) != n || got.entries[n-1].Loc != want.entries[n-1].Loc {
				t.Errorf("%s: %d entries, %v", name, len(got.entries), err)
			}
		}
	}
	for name, in := range map[string][]byte{
		"ASCII that is none":   latin1(doc("US-ASCII")),
		"UTF-16 as UTF-8":      []byte(doc("UTF-16")),
		"mark and declaration": append([]byte("\ufeff"), latin1(doc("ISO-8859-1"))...),
		"UTF-32":               {0, 0, 0xfe, 0xff, 0, 0, 0, '<'},
		"half a pair":          append(utf16Text(openRoot, binary.BigEndian), 0xd8, 0, 0, '<'),
		"NUL in UTF-16":        utf16Text(inRoot("\x00"), binary.LittleEndian),
		"an odd byte":          append(utf16Text(inRoot(""), binary.LittleEndian), 0),
	} {
		if _, err := readFrom(bytes.NewReader(in), resourcesync.ReaderOptions{}); !promised(err) {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

func utf16Text(s string, order binary.AppendByteOrder) (b []byte) {
	for _, u := range utf16.Encode([]rune(s)) {
		b = order.AppendUint16(b, u)
	}
	return b
}

func compressed(b []byte) []byte {
	var buf bytes.Buffer
	zw := gzip.NewWriter(&buf)
	_, _ = zw.Write(b) // to a buffer
	_ = zw.Close()
	return buf.Bytes()
}
