package term

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
)

// TestMessages: what is written for people is divided into messages, with level and hint.
func TestMessages(t *testing.T) {
	t.Parallel()
	for in, want := range map[string][]message{
		"":                                      nil,
		"one\ntwo\n":                            {{text: "one"}, {text: "two"}},
		"no end":                                {{text: "no end"}},
		"error: a: b\n":                         {{level: slog.LevelError, text: "a: b"}},
		"error: a\n  b\nhint: c\n  d\n":         {{level: slog.LevelError, text: "a\nb", hint: "c\nd"}},
		"warning: a\nhint: b\nwarning: c\n":     {{level: slog.LevelWarn, text: "a", hint: "b"}, {level: slog.LevelWarn, text: "c"}},
		"note: a: b\n":                          {{text: "a: b"}},
		"hint: alone\n":                         {{text: "hint: alone"}},
		"failed: get x: y\n":                    {{level: slog.LevelError, text: "failed: get x: y"}},
		"12:34:56Z  published 1 change\n":       {{text: "published 1 change"}},
		"in step\n  3 created\n\n  1 request\n": {{text: "in step\n3 created\n1 request"}},
	} {
		if got := messagesIn([]byte(in)); !reflect.DeepEqual(got, want) {
			t.Errorf("messagesIn(%q) = %+v, want %+v", in, got, want)
		}
	}
}

// options returns the options that flags describe.
func options(t *testing.T, args ...string) *Options {
	t.Helper()
	o := &Options{}
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	o.Declare(flags)
	if err := errors.Join(flags.Parse(args), o.Check()); err != nil {
		t.Fatal(err)
	}
	return o
}

// TestEveryLineIsJSON: whatever is written to stderr, each line is an object, and safe to be
// shown.
func TestEveryLineIsJSON(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	io := IO{Err: &out, LookupEnv: func(string) (string, bool) { return "", false }}.Safe()
	o := options(t, "--log-format", "json", "--log-level", "info")
	if err := o.Apply(io); err != nil {
		t.Fatal(err)
	}
	o.Logger(io).Info("logged", slog.String("err", "\x7f\u009b\u202e\xff"))
	io.Errorf("warning: %s\n", "\x1b[2J \x7f\u009b\u202e\xff")
	io.Notef("a %s", "note")
	io.screen.progress("half of it")
	io.Resource(Resource{Done: "created", URI: "http://x/a", Length: 5})
	io.Resource(Resource{Done: "failed", URI: "http://x/b", Length: -1, Err: errors.New("lost")})
	ReportError(io, WithHint(errors.New("one\ntwo"), "three"))
	result := io.ResultOnErr()
	result.Printf("in step with %s", "x")
	result.Printf("\n  all\n")
	child := NewLines(io.Err)
	_, _ = fmt.Fprint(child, "error: from a ", "program\nrest")
	child.Flush()
	want := []string{"logged", "\x1b[2J \x7f\u009b\u202e\ufffd", "a note", "half of it", "created", "failed", "one\ntwo", "in step with x\nall", "from a program", "rest"}
	var got []string
	for line := range strings.Lines(out.String()) {
		var record struct{ Time, Level, Msg, Hint string }
		if err := json.Unmarshal([]byte(line), &record); err != nil || record.Time == "" || record.Level == "" {
			t.Errorf("%q: %v", line, err)
		}
		if safe := clean([]byte(line)); string(safe) != line {
			t.Errorf("not safe: %q", line)
		}
		got = append(got, record.Msg)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("messages %q, want %q", got, want)
	}
	for _, part := range []string{`"level":"ERROR","msg":"one\ntwo","hint":"three"`, `"level":"INFO","msg":"created","uri":"http://x/a","bytes":5`, `"level":"ERROR","msg":"failed","uri":"http://x/b","err":"lost"`} {
		if !strings.Contains(out.String(), part) {
			t.Errorf("no %s in\n%s", part, &out)
		}
	}
}

// TestLogFile: the file gets the log and messages, but no progress; stderr gets no log.
func TestLogFile(t *testing.T) {
	t.Parallel()
	for _, format := range []string{"text", "json"} {
		var out bytes.Buffer
		io := IO{Err: &out}.Safe()
		name := filepath.Join(t.TempDir(), "x.log")
		o := options(t, "--log-file", name, "--log-format", format)
		if err := o.Apply(io); err != nil {
			t.Fatal(err)
		}
		o.Logger(io).Warn("logged")
		o.Logger(io).Info("not logged")
		io.Errorf("warning: said\nhint: do this\n")
		io.screen.progress("progress")
		io.Resource(Resource{Done: "deleted", URI: "http://x/a", Length: -1})
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{"logged", "said", "do this", "deleted", "http://x/a"} {
			if !strings.Contains(string(text), want) {
				t.Errorf("%s: no %q in the file:\n%s", format, want, text)
			}
		}
		if strings.Contains(string(text), "progress") || strings.Contains(string(text), "not logged") || strings.Count(string(text), "\n") != 3 {
			t.Errorf("%s: in the file:\n%s", format, text)
		}
		if said := out.String(); strings.Contains(said, "logged") || !strings.Contains(said, "said") || !strings.Contains(said, "progress") {
			t.Errorf("%s: on stderr:\n%s", format, said)
		}
	}
}

func TestQuiet(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	io := IO{Err: &out}.Safe()
	if err := options(t, "-q").Apply(io); err != nil {
		t.Fatal(err)
	}
	io.Notef("a note")
	io.Errorf("warning: a warning\n")
	if got := out.String(); got != "warning: a warning\n" {
		t.Errorf("said %q", got)
	}
}

// TestCommandLine: a command line can be pasted into a shell, unless it may hold a secret.
func TestCommandLine(t *testing.T) {
	t.Parallel()
	for want, args := range map[string][]string{
		"lockstep sync https://x.org/ mirror":               {"sync", "https://x.org/", "mirror"},
		"lockstep sync 'https://x.org/?a&b' 'my mirror' -v": {"sync", "https://x.org/?a&b", "my mirror", "-v"},
		`lockstep sync x 'it'\''s'`:                         {"sync", "x", "it's"},
	} {
		if got := CommandLine(args); got != want {
			t.Errorf("CommandLine(%q) = %s, want %s", args, got, want)
		}
	}
	for _, args := range [][]string{
		nil, {"sync", "https://user:pw@x.org/", "m"}, {"sync", "x", "m", "--header", "X: y"}, {"sync", "x", "m", "--header=X: y"},
		{"sync", "https://x.org/?token=1", "m"}, {"sync", "https://x.org/?a=b&sig=1", "m"}, {"sync", "https://x.org/?X-Amz-Signature=1", "m"},
	} {
		if got := CommandLine(args); got != "" {
			t.Errorf("CommandLine(%q) = %s, want nothing", args, got)
		}
	}
}

// TestWarnings: the log of a command that is not a service reads like its messages, from the level
// of warnings on; that of a service has records.
func TestWarnings(t *testing.T) {
	t.Parallel()
	for _, service := range []bool{false, true} {
		var out bytes.Buffer
		io := IO{Out: &out, Err: &out}.Safe()
		o := &Options{logLevel: "info", logFormat: textFormat, Service: service}
		log := o.Logger(io).With(slog.String("mirror", "a"))
		log.Warn("close the mirror", slog.Any("err", errors.New("one\ntwo")), slog.String("dir", "x"))
		log.Error("not ready", slog.String("hint", "wait"))
		log.Info("seen")
		got := out.String()
		if !strings.Contains(got, "level=INFO msg=seen mirror=a\n") || service == strings.Contains(got, "a: warning: close the mirror: one\na:   two (dir x)\na: error: not ready\na: hint: wait\n") {
			t.Errorf("service %t: %s", service, got)
		}
	}
}

// TestTimesAreUTC: lines for people and records of the log have times in UTC, whatever the
// time zone.
func TestTimesAreUTC(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 5, 2, 1, 30, 0, 0, time.FixedZone("", 2*3600))
	if got := Clock(at); got != "23:30:00Z" {
		t.Errorf("Clock = %s", got)
	}
	for _, format := range []string{textFormat, jsonFormat} {
		var b strings.Builder
		if err := newHandler(format, &b, slog.LevelInfo).Handle(t.Context(), slog.NewRecord(at, slog.LevelInfo, "x", 0)); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(b.String(), "2026-05-01T23:30:00") || !strings.Contains(b.String(), "Z") {
			t.Errorf("record %s", &b)
		}
	}
}
