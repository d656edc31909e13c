package accesslog

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"lockstep/cmd/lockstep/internal/term"
)

// A disk is a file on a disk with some room.
type disk struct {
	bytes.Buffer
	room int
}

func (d *disk) Write(p []byte) (int, error) {
	n, _ := d.Buffer.Write(p[:min(len(p), d.room)]) // to memory
	if d.room -= n; n < len(p) {
		return n, errors.New("no space left on device")
	}
	return n, nil
}

// TestTornLine: a line of which a full disk has only the beginning does not run into the next
// one, and those that are lost are counted.
func TestTornLine(t *testing.T) {
	t.Parallel()
	d := &disk{room: 12}
	f := &file{path: "-", io: term.IO{Err: &bytes.Buffer{}}, out: d}
	write := func(lines ...string) {
		for _, line := range lines {
			f.write(func(b []byte) []byte { return append(b, line+"\n"...) })
		}
		f.refresh(time.Minute)
	}
	write("one 567", "two 567", "three")
	write("four")
	d.room = 100
	write("five", "six")
	write("seven")
	if got, want := d.String(), "one 567\ntwo \nfive\nsix\nseven\n"; got != want {
		t.Errorf("the file has %q, want %q", got, want)
	}
	if f.lost() != 3 {
		t.Errorf("%d lines are lost, want 3", f.lost())
	}
}

// TestTornBefore: neither does a line of which an earlier process wrote only the beginning.
func TestTornBefore(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "log")
	for before, want := range map[string]string{"": "one\n", "zero\n": "zero\none\n", "zer": "zer\none\n"} {
		if err := os.WriteFile(path, []byte(before), 0o600); err != nil {
			t.Fatal(err)
		}
		f, err := openFile(path, term.IO{Err: &bytes.Buffer{}})
		if err != nil {
			t.Fatal(err)
		}
		f.write(func(b []byte) []byte { return append(b, "one\n"...) })
		f.close()
		if got, _ := os.ReadFile(path); string(got) != want {
			t.Errorf("after %q, the file has %q, want %q", before, got, want)
		}
	}
}

// TestNothingToWrite: a file that cannot be written is not reported as written again while
// there is nothing to write.
func TestNothingToWrite(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	d := &disk{}
	f := &file{path: "-", io: term.IO{Err: &out}, out: d}
	f.write(func(b []byte) []byte { return append(b, "one\n"...) })
	f.refresh(time.Minute)
	f.refresh(time.Minute)
	if got := out.String(); strings.Count(got, "\n") != 1 || !strings.HasPrefix(got, "warning: ") {
		t.Errorf("reported %q, want one warning", got)
	}
	d.room = 100
	f.write(func(b []byte) []byte { return append(b, "two\n"...) })
	f.refresh(time.Minute)
	if got := out.String(); strings.Count(got, "\n") != 2 || !strings.Contains(got, "\nnote: ") {
		t.Errorf("reported %q, want a note after the warning", got)
	}
}
