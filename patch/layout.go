package patch

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// A layout is a format of JSON: the text between its tokens.
type layout struct {
	lines   bool   // each member on a separate line, ...
	indent  string // ... with this before it for each level
	comma   string // else, text after a comma
	colon   string // text after a colon
	newline bool   // at the end of the document
}

// layouts are the common formats of JSON: without any blanks; as written by
// Python; in lines, indented by two blanks, four, or a tab.
var layouts = [...]layout{
	{},
	{comma: " ", colon: " "},
	{lines: true, indent: "  ", colon: " "},
	{lines: true, indent: "    ", colon: " "},
	{lines: true, indent: "\t", colon: " "},
}

// readJSON returns a document without blanks between tokens, and its layout.
func readJSON(doc []byte) (compact []byte, _ layout, err error) {
	body, newline := bytes.CutSuffix(doc, []byte("\n"))
	var buf bytes.Buffer
	buf.Grow(len(body))
	if err := json.Compact(&buf, body); err != nil {
		return nil, layout{}, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	for _, l := range layouts {
		if got, ok := l.render(buf.Bytes(), len(body)); ok && bytes.Equal(got, body) {
			l.newline = newline
			return buf.Bytes(), l, nil
		}
	}
	return nil, layout{}, fmt.Errorf("%w: the document is in no common layout", ErrInvalid)
}

// render writes a compact JSON document in the layout, unless the result
// exceeds limit bytes. Indentation can enlarge a document greatly, so render
// never writes much more than limit.
func (l layout) render(compact []byte, limit int) (_ []byte, ok bool) {
	if len(compact) > limit {
		return nil, false
	}
	out := make([]byte, 0, min(limit, len(compact)+len(compact)/2)+1)
	depth := 0
	line := func() {
		if l.lines {
			out = append(out, '\n')
			for range depth { // at most maxDepth
				out = append(out, l.indent...)
			}
		}
	}
	for i := 0; i < len(compact) && len(out) <= limit; i++ {
		switch c := compact[i]; c {
		case '"':
			end := i + stringLen(compact[i:])
			out = append(out, compact[i:end]...)
			i = end - 1
		case '{', '[':
			out = append(out, c)
			if next := compact[i+1]; next == '}' || next == ']' { // empty
				out = append(out, next)
				i++
				continue
			}
			depth++
			line()
		case '}', ']':
			depth--
			line()
			out = append(out, c)
		case ',':
			out = append(out, c)
			out = append(out, l.comma...)
			line()
		case ':':
			out = append(out, c)
			out = append(out, l.colon...)
		default:
			out = append(out, c)
		}
	}
	if l.newline {
		out = append(out, '\n')
	}
	return out, len(out) <= limit
}

// stringLen returns the length of the JSON string at the beginning of valid
// JSON.
func stringLen(b []byte) int {
	for i := 1; ; i++ {
		switch b[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
}
