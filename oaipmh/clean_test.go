package oaipmh_test

import (
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"lockstep/oaipmh"
)

func TestClean(t *testing.T) {
	t.Parallel()
	const utf8, latin = `<?xml version="1.0" encoding="utf-8"?>`, `<?xml version="1.0" encoding="ISO-8859-1"?>`
	for name, tt := range map[string]struct {
		in, want string
	}{
		"clean":          {"<a b='&amp;&#65;&#x1F600;'>ä\t\r\n</a>", "<a b='&amp;&#65;&#x1F600;'>ä\t\r\n</a>"},
		"controls":       {"<a>\x00\x0b\x1f\x7f</a>", "<a>\uFFFD\uFFFD\uFFFD\x7f</a>"},
		"references":     {"<a>&#0;&#11;&#xFFFE;&#x110000;&#99999999999999999999;</a>", "<a>" + strings.Repeat("\uFFFD", 5) + "</a>"},
		"no references":  {"<a>&#;&#x;&#xZ;&;& &&amp;&ampx;&amp</a>", "<a>&amp;#;&amp;#x;&amp;#xZ;&amp;;&amp; &amp;&amp;&amp;ampx;&amp;amp</a>"},
		"entities":       {"<a>&nbsp;&AMP;&LT;&Auml;&nosuch;</a>", "<a>\u00a0&#38;&#60;Ä&amp;nosuch;</a>"},
		"invalid UTF-8":  {utf8 + "<a>\xe9\xc3(\xed\xa0\x80\xef\xbf\xbe</a>", utf8 + "<a>\uFFFD\uFFFD(\uFFFD\uFFFD\uFFFD\uFFFD</a>"},
		"latin-1":        {latin + "<a>\xe9\x01&nbsp;</a>", latin + "<a>\xe9?&#160;</a>"},
		"CDATA":          {"<a><![CDATA[a & b &nbsp; \x02]] > ]]>&</a>", "<a><![CDATA[a & b &nbsp; \uFFFD]] > ]]>&amp;</a>"},
		"comment":        {"<!-- & \x01 --><a>&</a>", "<!-- & \uFFFD --><a>&amp;</a>"},
		"instruction":    {"<?php a & b ? > ?><a>&</a>", "<?php a & b ? > ?><a>&amp;</a>"},
		"cut off":        {"<a>&am", "<a>&amp;am"},
		"cut character":  {"<a>\xe2\x82", "<a>\uFFFD\uFFFD"},
		"blanks":         {" \r\n\t<?xml version='1.0'?> <a/>\n", "<?xml version='1.0'?> <a/>\n"},
		"only blanks":    {" \n ", ""},
		"UTF-16":         {"\xff\xfe<\x00a\x00/\x00>\x00", "\xff\xfe<\x00a\x00/\x00>\x00"},
		"warnings":       {"<br />\n<b>Warning</b>: a & b in <b>oai.php</b> <?xml version='1.0'?><OAI-PMH >&</OAI-PMH>", "<?xml version='1.0'?><OAI-PMH >&amp;</OAI-PMH>"},
		"marks":          {"\xef\xbb\xbf\xef\xbb\xbf\n" + utf8 + "<x:OAI-PMH>", utf8 + "<x:OAI-PMH>"},
		"one mark":       {"\xef\xbb\xbf" + utf8 + "<OAI-PMH>", "\xef\xbb\xbf" + utf8 + "<OAI-PMH>"},
		"comment first":  {"<!-- x -->\n" + utf8 + "<OAI-PMH>", utf8 + "<OAI-PMH>"},
		"stylesheet":     {utf8 + "<?xml-stylesheet href='a'?><!-- y --><OAI-PMH>", utf8 + "<?xml-stylesheet href='a'?><!-- y --><OAI-PMH>"},
		"no declaration": {"Notice: x\n<OAI-PMH>", "<OAI-PMH>"},
		"a page":         {"<html><body>Log in</body></html>", "<html><body>Log in</body></html>"},
		"gzip":           {"\x1f\x8b\x08&\x01", "\x1f\x8b\x08&\x01"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, r := range []io.Reader{strings.NewReader(tt.in), iotest.OneByteReader(strings.NewReader(tt.in)), iotest.DataErrReader(strings.NewReader(tt.in))} {
				got, err := io.ReadAll(oaipmh.Clean(r))
				if err != nil || string(got) != tt.want {
					t.Errorf("%q, error %v; want %q", got, err, tt.want)
				}
			}
		})
	}
	if _, err := io.ReadAll(oaipmh.Clean(iotest.TimeoutReader(iotest.OneByteReader(strings.NewReader("<a/>"))))); err == nil {
		t.Error("the error of the reader below is lost")
	}
}

// FuzzClean: well-formed input passes unchanged, and other input becomes well
// formed.
func FuzzClean(f *testing.F) {
	for _, s := range []string{"", "<a>&nbsp;\x01\xff</a>", "<?xml encoding='latin1'?>\xe9&", "<![CDATA[&]]>&<!-- --", " \n<a"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		once := cleaned(t, string(b), func(r io.Reader) io.Reader { return r })
		if slow := cleaned(t, string(b), iotest.OneByteReader); slow != once {
			t.Fatalf("%q at once, %q by the byte", once, slow)
		}
		if twice := cleaned(t, once, iotest.HalfReader); twice != once {
			t.Fatalf("%q becomes %q", once, twice)
		}
	})
}

func cleaned(t *testing.T, s string, by func(io.Reader) io.Reader) string {
	t.Helper()
	b, err := io.ReadAll(oaipmh.Clean(by(strings.NewReader(s))))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
