package manual

import (
	"fmt"
	"strings"
)

// A document is text in the language of man(7).
type document struct{ b strings.Builder }

// String returns what was written.
func (d *document) String() string { return d.b.String() }

// macro writes a line with a macro and its arguments, which are plain text.
func (d *document) macro(name string, args ...string) {
	d.b.WriteString("." + name)
	for _, a := range args {
		d.b.WriteString(` "` + strings.ReplaceAll(escape(a), `"`, `\(dq`) + `"`)
	}
	d.b.WriteByte('\n')
}

// line writes a line of text, which is already escaped.
func (d *document) line(text string) { d.b.WriteString(text + "\n") }

// item writes a tagged paragraph. The tag is already escaped, the text is plain.
func (d *document) item(tag, text string) {
	d.macro("TP")
	d.line(tag)
	d.line(escape(text))
}

// paragraphs writes plain text, in which empty lines separate paragraphs; other if
// there is none.
func (d *document) paragraphs(text, other string) {
	if text == "" {
		text = other + "."
	}
	for i, p := range strings.Split(text, "\n\n") {
		if i > 0 {
			d.macro("PP")
		}
		for line := range strings.SplitSeq(p, "\n") {
			d.line(escape(line))
		}
	}
}

// escape returns plain text as text for man: hyphens are minus signs, which can be
// copied to a command line, no line begins with the character of a macro, and all
// characters are ASCII.
func escape(text string) string {
	var b strings.Builder
	start := true
	for _, r := range text {
		switch {
		case start && (r == '.' || r == '\''):
			b.WriteString(`\&` + string(r))
		case r == '\\':
			b.WriteString(`\e`)
		case r == '-':
			b.WriteString(`\-`)
		case r == '\'':
			b.WriteString(`\(aq`)
		case r == '`':
			b.WriteString(`\(ga`)
		case r == '~':
			b.WriteString(`\(ti`)
		case r == '^':
			b.WriteString(`\(ha`)
		case r > '~':
			fmt.Fprintf(&b, `\[u%04X]`, r)
		default:
			b.WriteRune(r)
		}
		start = r == '\n'
	}
	return b.String()
}
