package logfile

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// TestAppends: records are appended to what is in the file, whole, and after the file was
// moved away to a new one of the same name.
func TestAppends(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "lockstep.log")
	for range 2 {
		f, err := Open(name, func(err error) { t.Error(err) })
		if err != nil {
			t.Fatal(err)
		}
		var writers sync.WaitGroup
		for range 8 {
			writers.Go(func() {
				for range 100 {
					_, _ = f.Write([]byte("one record\n"))
				}
			})
		}
		writers.Wait()
	}
	if got := read(t, name); got != strings.Repeat("one record\n", 1600) {
		t.Errorf("%d bytes, want 1,600 records", len(got))
	}
	if runtime.GOOS != "windows" {
		if info, err := os.Stat(name); err != nil || info.Mode().Perm()&0o027 != 0 {
			t.Errorf("mode %v, %v, want none for others", info.Mode(), err)
		}
	}
	if _, err := Open(filepath.Dir(name), nil); err == nil {
		t.Error("a directory was opened as a log file")
	}
}

func TestReopen(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("open files cannot be moved")
	}
	name := filepath.Join(t.TempDir(), "lockstep.log")
	f, err := Open(name, func(err error) { t.Error(err) })
	if err != nil {
		t.Fatal(err)
	}
	_, _ = f.Write([]byte("before\n"))
	if err := os.Rename(name, name+".1"); err != nil {
		t.Fatal(err)
	}
	_, _ = f.Write([]byte("moved\n"))
	f.Reopen()
	_, _ = f.Write([]byte("after\n"))
	if got := read(t, name+".1"); got != "before\nmoved\n" {
		t.Errorf("the file that was moved has %q", got)
	}
	if got := read(t, name); got != "after\n" {
		t.Errorf("the new file has %q", got)
	}
}

// A room is a disk with room for some bytes.
type room struct {
	bytes.Buffer
	left int
}

func (r *room) Write(p []byte) (int, error) {
	n := min(len(p), r.left)
	r.left -= n
	r.Buffer.Write(p[:n])
	if n < len(p) {
		return n, syscall.ENOSPC
	}
	return n, nil
}

func (r *room) Close() error { return nil }

// TestFullDisk: the first failure is reported, and no other; once there is room again,
// records begin on lines of their own.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	var errs []error
	disk := &room{left: 12}
	f := &File{name: "x.log", onFailed: func(err error) { errs = append(errs, err) }, out: disk}
	for range 4 {
		if n, err := f.Write([]byte("one record\n")); n != len("one record\n") || err != nil {
			t.Errorf("Write = %d, %v", n, err)
		}
	}
	disk.left = 100
	_, _ = f.Write([]byte("one record\n"))
	if got := disk.String(); got != "one record\no\none record\n" {
		t.Errorf("wrote %q", got)
	}
	if len(errs) != 1 || !errors.Is(errs[0], syscall.ENOSPC) || !strings.Contains(errs[0].Error(), "x.log") {
		t.Errorf("reported %v, want one error about x.log", errs)
	}
}

func read(t *testing.T, name string) string {
	t.Helper()
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	text, err := io.ReadAll(f)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
