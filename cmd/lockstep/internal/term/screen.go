package term

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"unicode"
	"unicode/utf8"

	"golang.org/x/term"

	"lockstep/internal/fetch/shown"
)

// A cleaner passes text on with every control character but newline and tab
// spelt out (\x1b), so that names and messages from the network cannot move
// the cursor, recolour or retitle a terminal, or hide what they say.
type cleaner struct{ w io.Writer }

func (c cleaner) Write(p []byte) (int, error) {
	if _, err := c.w.Write(clean(p)); err != nil {
		return 0, err
	}
	return len(p), nil
}

// withoutSecrets returns p as [shown.WithoutSecrets] does. All messages pass through it.
func withoutSecrets(p []byte) []byte {
	if !bytes.ContainsAny(p, "=@") {
		return p
	}
	return []byte(shown.WithoutSecrets(string(p)))
}

// A discreet writer passes text on without the secrets of addresses in it.
type discreet struct{ w io.Writer }

func (d discreet) Write(p []byte) (int, error) {
	if _, err := d.w.Write(withoutSecrets(p)); err != nil {
		return 0, err
	}
	return len(p), nil
}

// clean returns p with control characters spelt out, or p itself.
func clean(p []byte) []byte { return cleanWith(p, `\x%02x`) }

// cleanJSON is clean for text that is JSON, and stays JSON of the same meaning.
func cleanJSON(p []byte) []byte { return cleanWith(p, `\u%04x`) }

// cleanWith is clean, with short as the format of bytes and of characters below 0x100.
func cleanWith(p []byte, short string) []byte {
	var out []byte // nil as long as nothing had to be replaced
	for i := 0; i < len(p); {
		r, n := utf8.DecodeRune(p[i:])
		bad := r == utf8.RuneError && n == 1 || r != '\n' && r != '\t' && unsafeRune(r)
		if bad && out == nil {
			out = append(make([]byte, 0, len(p)+16), p[:i]...)
		}
		switch {
		case bad && (n == 1 || r < 0x100):
			out = fmt.Appendf(out, short, byteOf(p[i], r, n))
		case bad:
			out = fmt.Appendf(out, `\u%04x`, r)
		case out != nil:
			out = append(out, p[i:i+n]...)
		}
		i += n
	}
	if out == nil {
		return p
	}
	return out
}

// byteOf returns what to show of a rune below 0x100 or of a byte that is none.
func byteOf(b byte, r rune, n int) rune {
	if n == 1 {
		return rune(b)
	}
	return r
}

// unsafeRune reports runes that command a terminal or reorder the text around
// them: controls, line separators, and the bidirectional controls.
func unsafeRune(r rune) bool {
	return unicode.IsControl(r) || r == 0x2028 || r == 0x2029 || unicode.Is(unicode.Bidi_Control, r)
}

// An observer passes on what it is given.
type observer interface{ Unwrap() io.Writer }

// Columns returns how wide the terminal is that stdout is; 0 if it is none.
func (io IO) Columns() int {
	w := io.Out
	if o, ok := w.(observer); ok {
		w = o.Unwrap()
	}
	if c, ok := w.(cleaner); ok {
		w = c.w
	}
	f, ok := isTerminal(w)
	if !ok {
		return 0
	}
	return (&screen{terminal: f}).columns()
}

// A screen is stderr: lines, and below them on a terminal one live bar. The lines are also
// appended to a log file, if there is one.
type screen struct {
	terminal *os.File // nil when w is none
	shape    atomic.Pointer[form]

	mu  sync.Mutex // guards w, bar
	w   io.Writer
	bar string // shown now
}

func newScreen(w io.Writer) *screen {
	s := &screen{w: w}
	if f, ok := isTerminal(w); ok {
		s.terminal = f
	}
	return s
}

// form returns the form of messages.
func (s *screen) form() *form {
	if f := s.shape.Load(); f != nil {
		return f
	}
	return &form{}
}

// live reports whether the screen can show a bar.
func (s *screen) live() bool { return s.terminal != nil && s.form().records == nil }

const (
	eraseLine = "\r\x1b[K"
	fallback  = 80 // columns, when the terminal does not report its width
)

// Write writes whole lines above the bar, and to the log file.
func (s *screen) Write(p []byte) (int, error) {
	if err := s.writeFor("", p); err != nil {
		return 0, err
	}
	return len(p), nil
}

// writeFor is Write for the mirror of that name, if it is not empty.
func (s *screen) writeFor(name string, p []byte) error {
	var err error
	f := s.form()
	if f.records == nil {
		err = s.print(clean(prefixed(name, p)))
	}
	if f.records != nil || f.file != nil {
		for _, m := range messagesIn(p) {
			m.attrs = attrsFor(name, m.attrs)
			err = errors.Join(err, f.write(m))
		}
	}
	return err
}

// print prints text above the bar, without the secrets of addresses in it.
func (s *screen) print(text []byte) error {
	text = withoutSecrets(text)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.bar != "" {
		text = append(append([]byte(eraseLine), text...), s.bar...)
	}
	_, err := s.w.Write(text)
	return err
}

// A printer writes above the bar, and nothing to the log file.
type printer struct{ s *screen }

func (p printer) Write(text []byte) (int, error) { return len(text), p.s.print(text) }

// A jsonCleaner passes JSON on that is safe to show.
type jsonCleaner struct{ w io.Writer }

func (c jsonCleaner) Write(p []byte) (int, error) {
	if _, err := c.w.Write(cleanJSON(p)); err != nil {
		return 0, err
	}
	return len(p), nil
}

// progress prints a line about progress, which no log file has.
func (s *screen) progress(line string) {
	if records := s.form().records; records != nil {
		_ = records.Handle(context.Background(), message{text: line}.record()) // there is no one left to report to
		return
	}
	_ = s.print(clean([]byte(line + "\n"))) // likewise
}

// columns is how wide the terminal is now.
func (s *screen) columns() int {
	columns, _, err := term.GetSize(int(s.terminal.Fd()))
	if err != nil || columns <= 0 {
		return fallback
	}
	return columns
}

// show replaces the bar; an empty one removes it.
func (s *screen) show(bar string) {
	bar = string(clean(withoutSecrets([]byte(bar))))
	columns := s.columns()
	if runes := []rune(bar); len(runes) >= columns {
		bar = string(runes[:columns-1])
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if bar == s.bar {
		return
	}
	s.bar = bar
	_, _ = io.WriteString(s.w, eraseLine+bar) // a bar that cannot be drawn is not missed
}

func termIs(f *os.File) bool { return term.IsTerminal(int(f.Fd())) }
