package term

import (
	"bytes"
	"io"
	"log/slog"
	"strings"
	"sync"
)

// Named returns io for what one of several mirrors is about. Each line has its name at the
// beginning; where lines are records, it is an attribute.
func (io IO) Named(name string) IO {
	out, screen := io.Out, io.screen
	io.name = name
	io.Out = &wholeLines{pass: func(text []byte) error {
		_, err := out.Write(prefixed(name, text))
		return err
	}}
	if screen == nil {
		below := io.Err
		io.Err = &wholeLines{pass: func(text []byte) error {
			_, err := below.Write(prefixed(name, text))
			return err
		}}
		return io
	}
	io.Err = &wholeLines{pass: func(text []byte) error { return screen.writeFor(name, text) }}
	return io
}

// prefixed returns the lines of text with a name before each; text itself if there is none.
func prefixed(name string, text []byte) []byte {
	if name == "" {
		return text
	}
	var out []byte
	for line := range bytes.Lines(text) {
		out = append(append(append(out, name...), ": "...), line...)
	}
	return out
}

// attrsFor returns attributes with the name of a mirror, if there is one.
func attrsFor(name string, attrs []slog.Attr) []slog.Attr {
	if name == "" {
		return attrs
	}
	return append([]slog.Attr{slog.String("mirror", name)}, attrs...)
}

// wholeLines passes on whole lines only: those of several writers alternate.
type wholeLines struct {
	pass func(text []byte) error

	mu   sync.Mutex // guards rest
	rest []byte     // of a line that is not whole
}

var _ io.Writer = (*wholeLines)(nil)

// Write implements [io.Writer].
func (w *wholeLines) Write(text []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.rest = append(w.rest, text...)
	end := bytes.LastIndexByte(w.rest, '\n') + 1
	if end == 0 && len(w.rest) > maxLine {
		w.rest = append(w.rest, '\n')
		end = len(w.rest)
	}
	if end == 0 {
		return len(text), nil
	}
	err := w.pass(w.rest[:end])
	w.rest = append(w.rest[:0], w.rest[end:]...)
	if err != nil {
		return 0, err
	}
	return len(text), nil
}

// lineOf returns a line with the name of a mirror before it, if there is one.
func lineOf(name, line string) string {
	return strings.TrimSuffix(string(prefixed(name, []byte(line+"\n"))), "\n")
}
