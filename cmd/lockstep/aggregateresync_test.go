package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestResyncMirrorsAnAggregator has Python's resync-sync mirror an Aggregator of an
// Aggregator, and keep it in step: links that it does not know do no harm.
func TestResyncMirrorsAnAggregator(t *testing.T) {
	t.Parallel()
	_ = resyncSync(t) // skips where it is missing
	files, work := t.TempDir(), t.TempDir()
	for name, text := range map[string]string{"one.txt": "1\n", "sub/two.txt": "2\n", "sub/three.txt": "3\n"} {
		write(t, files, name, text)
	}
	var last *process
	from := files
	for range 3 {
		var err error
		if last, err = startReady(exec.CommandContext(t.Context(), "lockstep", "serve", from, "--listen", "127.0.0.1:0", "--state", t.TempDir())); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(last.kill)
		for _, name := range []string{"/one.txt</loc>", "/two.txt</loc>", "/three.txt</loc>"} {
			waitForListed(t, last.address, "main", name)
		}
		from = "resourcesync:" + last.address
	}
	resync := func(args ...string) {
		t.Helper()
		cmd := resyncSync(t, append(args, "-v", strings.TrimSuffix(last.address, "/")+"=py")...)
		cmd.Dir = work
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %v\n%s", cmd.Args, err, out)
		}
		want, err := contents(files)
		if err != nil {
			t.Fatal(err)
		}
		got, err := contents(filepath.Join(work, "py"))
		if err != nil {
			t.Fatal(err)
		}
		if diff := difference(got, want); diff != "" {
			t.Fatalf("%v: %s\n%s", cmd.Args, diff, out)
		}
	}
	resync("--baseline")
	write(t, files, "one.txt", "1, changed\n")
	write(t, files, "new.txt", "new\n")
	if err := os.Remove(filepath.Join(files, "sub", "two.txt")); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the changes", func() bool {
		text, err := get(last.address + "resourcesync/main/changelist.xml")
		return err == nil && strings.Contains(text, `change="deleted"`) && strings.Contains(text, "/new.txt") && strings.Contains(text, `length="11"`)
	})
	resync("--incremental", "--delete", "--changelist-uri", last.address+"resourcesync/main/changelist.xml")
	resync("--audit")
}
