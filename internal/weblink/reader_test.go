package weblink_test

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"lockstep/internal/weblink"
)

// Link format is read as other programs write it (ME-TM-06).
func TestReader(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, text string
		want       []string // relations, target and datetime of each link
		err        error
	}{
		{"none", "", nil, io.EOF},
		{"white space", " \r\n\t\v\f,, ,\n", nil, io.EOF},
		{"one", `<http://a/>;rel="original"`, []string{"original|http://a/|"}, io.EOF},
		{"lines", "<http://a/>\r\n ;rel=\"first\r\nmemento\"\n;\n datetime=\"Thu, 02 May 2024 06:00:01 GMT\"\n,\n<b>; rel=self\n", []string{"first memento|http://a/|Thu, 02 May 2024 06:00:01 GMT", "self|b|"}, io.EOF},
		{"commas within", `<http://a/x,y;z?q="a">; rel="memento"; title="a, <b>; rel=\"c\""; datetime="Thu, 02", <b,c>; rel=x`, []string{`memento|http://a/x,y;z?q="a"|Thu, 02`, "x|b,c|"}, io.EOF},
		{"no comma", `<a>; rel="timegate" <b>; rel=x <c>;rel=y`, []string{"timegate|a|", "x|b|", "y|c|"}, io.EOF},
		{"no comma, on lines", "<a>; rel=x\n<b>; rel=y", []string{"x|a|", "y|b|"}, io.EOF},
		{"names in any case", `<a>; REL="X"; DateTime="d"`, []string{"x|a|d"}, io.EOF},
		{"unknown parameters", `<a>; foo; bar=baz; ; rel=x; *=1; rel=y`, []string{"x|a|"}, io.EOF},
		{"blanks around =", `<a> ; rel = "x"`, []string{"x|a|"}, io.EOF},
		{"text before", `a, <b>; rel=x`, nil, weblink.ErrSyntax},
		{"HTML", "<!DOCTYPE html>\n<html>\n<p>A page, or so</p>", []string{"|!DOCTYPE html|", "|html|", "|p|"}, weblink.ErrSyntax},
		{"not closed", `<a>; rel=x, <b`, []string{"x|a|"}, weblink.ErrSyntax},
		{"quotes not closed", `<a>; rel="x`, nil, weblink.ErrSyntax},
		{"too long", `<` + strings.Repeat("a", 100_000) + `>`, nil, weblink.ErrSyntax},
		{"too long a parameter", `<a>; x="` + strings.Repeat(`\"`, 50_000) + `"`, nil, weblink.ErrSyntax},
	}
	for _, tt := range tests {
		for _, r := range []io.Reader{strings.NewReader(tt.text), iotest.OneByteReader(strings.NewReader(tt.text))} {
			var got []string
			links := weblink.NewReader(r)
			l, err := links.Next()
			for ; err == nil; l, err = links.Next() {
				got = append(got, fmt.Sprintf("%s|%s|%s", strings.Join(l.Rels, " "), l.Target, l.Param("datetime")))
			}
			if !slices.Equal(got, tt.want) || !errors.Is(err, tt.err) {
				t.Errorf("%s: %q, %v; want %q, %v", tt.name, got, err, tt.want, tt.err)
			}
			if _, again := links.Next(); !errors.Is(again, err) {
				t.Errorf("%s: then %v", tt.name, again)
			}
		}
	}
	broken := weblink.NewReader(io.MultiReader(strings.NewReader("<a>; rel=x"), iotest.ErrReader(io.ErrClosedPipe)))
	if _, err := broken.Next(); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("a reader that breaks: %v", err)
	}
}

// Written links are read back, whatever targets and values contain.
func FuzzAppend(f *testing.F) {
	f.Add("http://h/a,b;c?q=1#x", "first memento", "Thu, 02 May 2024 06:00:01 GMT")
	f.Add("http://h/<ü>\"\\", `a"b\`, "\r\nX: y, <z>")
	f.Fuzz(func(t *testing.T, target, rel, value string) {
		text := weblink.Append(weblink.Append(nil, target, "rel", rel, "title", value), "http://next/", "rel", "next")
		for _, c := range text {
			if c < ' ' || c == 0x7f {
				t.Fatalf("%q has the control character %x", text, c)
			}
		}
		var read []weblink.Link
		r := weblink.NewReader(strings.NewReader(string(text)))
		for l, err := r.Next(); err != io.EOF; l, err = r.Next() {
			if err != nil {
				if len(text) > 60_000 {
					return // too long a link
				}
				t.Fatalf("%q: %v", text, err)
			}
			read = append(read, l)
		}
		if len(read) != 2 || read[1].Target != "http://next/" || !read[1].Has("next") {
			t.Fatalf("%q is read as %+v", text, read)
		}
		if parsed := weblink.Parse([]string{string(text)}, nil); len(parsed) != 2 || parsed[0].Target != read[0].Target || parsed[0].Param("title") != read[0].Param("title") {
			t.Errorf("%q is parsed as %+v, read as %+v", text, parsed, read)
		}
		printed := slices.DeleteFunc([]byte(value), func(c byte) bool { return c < ' ' || c == 0x7f })
		if got := read[0].Param("title"); got != string(printed) {
			t.Errorf("title %q, want %q", got, printed)
		}
	})
}

// Reading any input terminates, and returns nothing too large.
func FuzzReader(f *testing.F) {
	f.Add("<a>; rel=x\n,<b>; rel=\"y, <z>\"; datetime=\"d\" <c>")
	f.Add("<a>;;=;\"<\\")
	f.Fuzz(func(t *testing.T, s string) {
		r := weblink.NewReader(strings.NewReader(s))
		for n := 0; ; n++ {
			l, err := r.Next()
			if err != nil {
				if err != io.EOF && !errors.Is(err, weblink.ErrSyntax) {
					t.Errorf("%q: %v", s, err)
				}
				return
			}
			if n > len(s) || len(l.Target) > len(s) {
				t.Fatalf("%q: link %d to %q", s, n, l.Target)
			}
		}
	})
}
