package term

import (
	"io"
	"os"
	"testing"
)

// observed is a writer that passes on what it is given.
type observed struct{ to io.Writer }

func (o *observed) Write(p []byte) (int, error) { return o.to.Write(p) }
func (o *observed) Unwrap() io.Writer           { return o.to }

// TestColumnsOfAnObservedTerminal: a terminal is as wide if what is written to it is observed.
func TestColumnsOfAnObservedTerminal(t *testing.T) {
	t.Setenv("TERM", "xterm")
	f, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skip(err)
	}
	defer f.Close() // nothing was written
	out := IO{Out: f, Err: io.Discard}.Safe()
	want := out.Columns()
	out.Out = &observed{out.Out}
	if got := out.Columns(); want == 0 || got != want {
		t.Errorf("%d columns, want %d", got, want)
	}
}
