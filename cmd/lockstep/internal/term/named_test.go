package term_test

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"lockstep/cmd/lockstep/internal/term"
)

// TestNamed: each line has the name, however it is written.
func TestNamed(t *testing.T) {
	t.Parallel()
	var out, errs bytes.Buffer
	io := term.IO{Out: &out, Err: &errs}.Safe().Named("a")
	for _, text := range []string{"one\ntw", "o\n", "\nth", "ree", "\n"} {
		io.Printf("%s", text)
		io.Errorf("%s", text)
	}
	const want = "a: one\na: two\na: \na: three\n"
	if out.String() != want || errs.String() != want {
		t.Errorf("wrote %q and %q, want %q", out.String(), errs.String(), want)
	}
	out.Reset()
	if io.Printf("%s", strings.Repeat("x", 200_000)); !strings.HasSuffix(out.String(), "x\n") {
		t.Errorf("a long line was held back: %d bytes written", out.Len())
	}
}

// TestNamedRecords: where lines are records, the name is an attribute, and the level is
// that of the message.
func TestNamedRecords(t *testing.T) {
	t.Parallel()
	var out, errs bytes.Buffer
	io := term.IO{Out: &out, Err: &errs}.Safe()
	var o term.Options
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	o.Declare(flags)
	if err := flags.Parse([]string{"--log-format", "json"}); err != nil {
		t.Fatal(err)
	}
	if err := o.Apply(io); err != nil {
		t.Fatal(err)
	}
	io = io.Named("a")
	io.Errorf("warning: slow\n")
	io.Record(slog.LevelError, "failed x", "failed", slog.String("uri", "x"))
	var got []string
	for line := range strings.Lines(errs.String()) {
		var r map[string]any
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		got = append(got, r["level"].(string)+" "+r["msg"].(string)+" "+r["mirror"].(string))
	}
	if want := "WARN slow a, ERROR failed a"; strings.Join(got, ", ") != want {
		t.Errorf("got %q, want %q", strings.Join(got, ", "), want)
	}
}
