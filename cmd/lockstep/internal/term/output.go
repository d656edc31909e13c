// Package term is how commands speak to people: streams that are safe to show
// on a terminal, numbers and durations as text, progress, and errors with a hint
// that says what to do next.
package term

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"lockstep/cmd/lockstep/internal/logfile"
)

// IO is what a command knows of the world outside besides its arguments.
type IO struct {
	Args      []string // the command line, without the program; may be nil
	In        io.Reader
	Out, Err  io.Writer
	LookupEnv func(string) (string, bool)
	Environ   []string // lines NAME=VALUE; may be nil

	screen *screen // what Err is once safe
	name   string  // of the mirror that it is for; see Named
}

// Safe returns io with writers through which nothing a stranger sent can reach
// a terminal as a command to it.
func (io IO) Safe() IO {
	io.screen = newScreen(io.Err)
	io.Out, io.Err = cleaner{io.Out}, io.screen
	return io
}

// Silent returns an IO that discards all output.
func Silent() IO { return IO{Out: io.Discard, Err: io.Discard} }

// Printf prints text for people, without the secrets of addresses in it. What programs need
// whole is written to Out.
func (io IO) Printf(format string, args ...any) {
	_, _ = fmt.Fprintf(discreet{io.Out}, format, args...) // there is no one left to report to
}

func (io IO) Errorf(format string, args ...any) { _, _ = fmt.Fprintf(io.Err, format, args...) } // there is no one left to report to

// Options are the flags of every command.
type Options struct {
	Quiet   bool
	Verbose bool
	JSON    bool

	logLevel  string
	logFormat string
	logName   string

	LogFile *logfile.File // nil: none
	Service bool          // it works until it is stopped: its log has records with their times
}

func (o *Options) Declare(flags *pflag.FlagSet) {
	flags.BoolVarP(&o.Quiet, "quiet", "q", false, "print only failures, warnings, findings, the line \"ready:\" and what --json asks for")
	flags.BoolVarP(&o.Verbose, "verbose", "v", false, "name each resource that is created, updated, deleted or refused, or has failed, on stderr; with -n, what would be done")
	flags.BoolVar(&o.JSON, "json", false, "the result as exactly one JSON object on stdout")
	flags.StringVar(&o.logLevel, "log-level", "warn", "log from this `LEVEL` on: debug (each request), info, warn, error")
	flags.StringVar(&o.logFormat, "log-format", textFormat, "`FORM` of the log: text, or json, which makes every line on stderr a JSON object")
	flags.StringVar(&o.logName, "log-file", "", "append the log to `FILE` instead of stderr, and messages to both; SIGHUP has services open FILE again")
}

// Formats of the log.
const (
	textFormat = "text"
	jsonFormat = "json"
)

// Check reports flags that cannot be used.
func (o *Options) Check() error {
	var level slog.Level
	if err := level.UnmarshalText([]byte(o.logLevel)); err != nil {
		return Usagef("--log-level %q: want debug, info, warn or error", o.logLevel)
	}
	if o.logFormat != textFormat && o.logFormat != jsonFormat {
		return Usagef("--log-format %q: want text or json", o.logFormat)
	}
	if o.Quiet && o.Verbose {
		return Usage(errors.New("--quiet and --verbose exclude each other"), "give one of them")
	}
	return nil
}

// Apply gives messages the form that the flags say, and opens the log file.
func (o *Options) Apply(io IO) error {
	f := &form{quiet: o.Quiet}
	if o.logFormat == jsonFormat {
		f.records = newHandler(jsonFormat, printer{io.screen}, slog.LevelDebug)
	}
	io.screen.shape.Store(f)
	if o.logName == "" {
		return nil
	}
	file, err := logfile.Open(o.logName, func(err error) {
		io.Errorf("warning: %v; records are missing from it\n", err)
	})
	if err != nil {
		return Usagef("open --log-file: %w", err)
	}
	withFile := *f
	withFile.file = newHandler(o.logFormat, file, slog.LevelDebug)
	o.LogFile = file
	io.screen.shape.Store(&withFile)
	return nil
}

// ApplyFormat gives messages the form that the arguments or the environment say, for errors
// about the arguments.
func ApplyFormat(io IO, args []string) {
	format, _ := io.LookupEnv("LOCKSTEP_LOG_FORMAT")
	for i, arg := range args {
		if value, ok := strings.CutPrefix(arg, "--log-format="); ok {
			format = value
		} else if arg == "--log-format" && i+1 < len(args) {
			format = args[i+1]
		}
	}
	if format == jsonFormat {
		io.screen.shape.Store(&form{records: newHandler(jsonFormat, printer{io.screen}, slog.LevelDebug)})
	}
}

// Logger returns the log of a command, which is written to the log file or to stderr.
func (o *Options) Logger(io IO) *slog.Logger {
	var level slog.Level
	_ = level.UnmarshalText([]byte(o.logLevel)) // check has seen it
	switch {
	case o.LogFile != nil:
		return slog.New(newHandler(o.logFormat, o.LogFile, level))
	case o.logFormat == jsonFormat && io.screen != nil:
		return slog.New(newHandler(o.logFormat, printer{io.screen}, level))
	}
	h := newHandler(o.logFormat, io.Err, level)
	if !o.Service && o.logFormat == textFormat && io.screen != nil {
		h = &warnings{below: h, to: io.Err}
	}
	return slog.New(h)
}

func newHandler(format string, w io.Writer, level slog.Level) slog.Handler {
	w = discreet{w}
	opts := &slog.HandlerOptions{Level: level, ReplaceAttr: func(groups []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey && len(groups) == 0 && a.Value.Kind() == slog.KindTime {
			a.Value = slog.TimeValue(a.Value.Time().UTC())
		}
		return a
	}}
	if format == jsonFormat {
		return slog.NewJSONHandler(jsonCleaner{w}, opts)
	}
	return slog.NewTextHandler(w, opts)
}

// PrintJSON writes v as one JSON object on one line.
func (io IO) PrintJSON(v any) error {
	enc := json.NewEncoder(io.Out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return fmt.Errorf("write result: %w", err)
	}
	return nil
}

// Count writes n with separators and its noun, in the plural unless n is 1.
func Count[N int | int64](n N, noun string) string {
	s := Thousands(int64(n)) + " " + noun
	if n == 1 {
		return s
	}
	if stem, ok := strings.CutSuffix(s, "y"); ok {
		return stem + "ies"
	}
	if strings.HasSuffix(s, "s") {
		return s + "es"
	}
	return s + "s"
}

// Thousands writes n with a comma between groups of three digits.
func Thousands(n int64) string {
	s := strconv.FormatInt(n, 10)
	start := len(s) % 3
	if n < 0 {
		start = 1 + (len(s)-1)%3
	}
	var b strings.Builder
	b.WriteString(s[:start])
	for i := start; i < len(s); i += 3 {
		if i > 0 && s[i-1] != '-' {
			b.WriteByte(',')
		}
		b.WriteString(s[i : i+3])
	}
	return b.String()
}

// Size writes a number of bytes for people.
func Size(n int64) string {
	if n < 1000 {
		return strconv.FormatInt(n, 10) + " B"
	}
	f, unit := float64(n)/1000, 0
	for f >= 999.95 && unit < 4 {
		f, unit = f/1000, unit+1
	}
	return strconv.FormatFloat(f, 'f', 1, 64) + " " + string("kMGTP"[unit]) + "B"
}

// Elapsed writes how long something took for people.
func Elapsed(d time.Duration) string {
	switch {
	case d < 10*time.Second:
		return strconv.FormatFloat(d.Seconds(), 'f', 2, 64) + " s"
	case d < 2*time.Minute:
		return strconv.FormatFloat(d.Seconds(), 'f', 0, 64) + " s"
	}
	return d.Round(time.Second).String()
}

// isTerminal reports whether w is a terminal that understands cursor movement.
func isTerminal(w io.Writer) (*os.File, bool) {
	f, ok := w.(*os.File)
	if !ok || !termIs(f) || os.Getenv("TERM") == "dumb" {
		return nil, false
	}
	return f, true
}

// Brief writes a duration as people do: 1m, not 1m0s.
func Brief(d time.Duration) string {
	s := d.String()
	for _, zero := range []string{"m0s", "h0m"} {
		if strings.HasSuffix(s, zero) {
			s = s[:len(s)-len("0s")]
		}
	}
	return s
}
