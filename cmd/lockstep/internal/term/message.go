package term

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"regexp"
	"strings"
	"time"
)

// A form says what becomes of messages besides text on stderr. The zero form is that text
// alone.
type form struct {
	quiet   bool         // no notes
	records slog.Handler // of stderr, if its lines are JSON; nil: they are text
	file    slog.Handler // of the log file; nil: there is none
}

// write writes a message as a record.
func (f *form) write(m message) error {
	var errs []error
	for _, h := range []slog.Handler{f.records, f.file} {
		if h != nil {
			errs = append(errs, h.Handle(context.Background(), m.record()))
		}
	}
	return errors.Join(errs...)
}

// A message is what stderr says at a time.
type message struct {
	level slog.Level
	text  string // may have several lines
	hint  string
	attrs []slog.Attr
}

// record returns the message as a record of the log.
func (m message) record() slog.Record {
	r := slog.NewRecord(time.Now(), m.level, m.text, 0)
	if m.hint != "" {
		r.AddAttrs(slog.String("hint", m.hint))
	}
	r.AddAttrs(m.attrs...)
	return r
}

// heads are how lines begin that begin a message, and its level. A word with a colon is not
// part of the text of a record.
var heads = [...]struct {
	head  string
	level slog.Level
}{
	{"error: ", slog.LevelError},
	{"warning: ", slog.LevelWarn},
	{"note: ", slog.LevelInfo},
}

// messagesIn returns the messages that lines of text are: a line that is indented continues
// the one before, and a hint belongs to the message before.
func messagesIn(p []byte) (all []message) {
	inHint := false
	for line := range strings.Lines(string(p)) {
		line = strings.TrimRight(line, "\n")
		hint, isHint := strings.CutPrefix(line, "hint: ")
		rest, indented := strings.CutPrefix(line, "  ")
		switch last := len(all) - 1; {
		case line == "":
		case isHint && last >= 0 && all[last].hint == "":
			all[last].hint, inHint = hint, true
		case indented && last >= 0 && inHint:
			all[last].hint += "\n" + rest
		case indented && last >= 0:
			all[last].text += "\n" + rest
		default:
			all, inHint = append(all, newMessage(line)), false
		}
	}
	return all
}

// Clock returns the time at the beginning of a line for people, in UTC.
func Clock(t time.Time) string { return t.UTC().Format(time.TimeOnly + "Z") }

// clock matches what Clock returns, and the space after it; a record has its own time.
var clock = regexp.MustCompile(`^\d\d:\d\d:\d\dZ  `)

func newMessage(line string) message {
	line = line[len(clock.FindString(line)):]
	for _, h := range heads {
		if text, ok := strings.CutPrefix(line, h.head); ok {
			return message{level: h.level, text: text}
		}
	}
	m := message{text: line}
	if strings.HasPrefix(line, "failed") || strings.HasPrefix(line, "refused") {
		m.level = slog.LevelError
	}
	return m
}

// Notef prints a note on stderr, which users may want to know and need not act on: nothing
// with -q.
func (io IO) Notef(format string, args ...any) {
	if io.screen == nil || !io.screen.form().quiet {
		io.Errorf("note: "+format+"\n", args...)
	}
}

// Record prints a line on stderr. Where lines are records of a log, text and attributes
// are their content.
func (io IO) Record(level slog.Level, line, text string, attrs ...slog.Attr) {
	if io.screen == nil {
		io.Errorf("%s\n", line)
		return
	}
	f := io.screen.form()
	if f.records == nil {
		_ = io.screen.print(clean([]byte(lineOf(io.name, line) + "\n"))) // there is no one left to report to
	}
	_ = f.write(message{level: level, text: text, attrs: attrsFor(io.name, attrs)}) // likewise
}

// A Resource is what --verbose says of a resource.
type Resource struct {
	Done   string // what was done with it, in one or two words
	URI    string
	Length int64 // -1: not known, or of no importance
	Remark string
	Err    error // why it could not be done
}

// Resource prints a line about a resource on stderr.
func (io IO) Resource(r Resource) {
	line, level := r.Done+" "+r.URI, slog.LevelInfo
	attrs := []slog.Attr{slog.String("uri", r.URI)}
	var details []string
	if r.Length >= 0 {
		details, attrs = append(details, Size(r.Length)), append(attrs, slog.Int64("bytes", r.Length))
	}
	if r.Remark != "" {
		details, attrs = append(details, r.Remark), append(attrs, slog.String("remark", r.Remark))
	}
	if len(details) > 0 {
		line += "  (" + strings.Join(details, ", ") + ")"
	}
	if r.Err != nil {
		line, level = line+": "+r.Err.Error(), slog.LevelError
		attrs = append(attrs, slog.String("err", r.Err.Error()))
	}
	io.Record(level, strings.ReplaceAll(line, "\n", " "), r.Done, attrs...)
}

// ResultOnErr returns io with a stdout that is stderr: for results where stdout has
// something else.
func (io IO) ResultOnErr() IO {
	io.Out = NewLines(io.Err)
	return io
}

// Lines is a writer of text that comes in pieces. It passes on whole lines. Each
// goroutine needs its own.
type Lines struct {
	w    io.Writer
	rest []byte // the beginning of a line
}

// NewLines returns Lines that writes to w.
func NewLines(w io.Writer) *Lines { return &Lines{w: w} }

// maxLine is how long a line may be that is waited for.
const maxLine = 64 << 10

// Write implements [io.Writer].
func (l *Lines) Write(p []byte) (int, error) {
	l.rest = append(l.rest, p...)
	end := strings.LastIndexByte(string(l.rest), '\n') + 1
	if end == 0 && len(l.rest) > maxLine {
		end = len(l.rest)
	}
	if end == 0 {
		return len(p), nil
	}
	_, err := l.w.Write(l.rest[:end])
	l.rest = append(l.rest[:0], l.rest[end:]...)
	return len(p), err
}

// Flush passes on a line without an end.
func (l *Lines) Flush() {
	if len(l.rest) > 0 {
		_, _ = l.Write([]byte("\n")) // there is no one left to report to
	}
}
