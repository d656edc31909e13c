package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestGuidePerl runs the example for HTTP::OAI that the guide to OAI-PMH gives, as
// it is there but for the address, against the repository the guide starts.
func TestGuidePerl(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "guide", "oai-pmh.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "\n```\nuse HTTP::OAI;\n")
	example, _, found := strings.Cut(rest, "```\n")
	if !found || strings.Count(example, docsListen) != 1 {
		t.Fatalf("the guide has no example that begins with use HTTP::OAI and reads %s: %q", docsListen, example)
	}
	if err := exec.CommandContext(t.Context(), "perl", "-MHTTP::OAI", "-e", "1").Run(); err != nil {
		t.Skip("HTTP::OAI is not installed: on Debian, apt-get install libhttp-oai-perl")
	}
	dir := t.TempDir()
	write(t, dir, "map.xml", sheet)
	write(t, dir, "one.txt", "one\n")
	p, err := startReady(exec.Command("lockstep", "serve", dir, "--oai-pmh", "--listen", "127.0.0.1:0", "--state", t.TempDir()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.kill)
	script := "use HTTP::OAI;\n" + strings.Replace(example, "http://"+docsListen+"/", p.address, 1)
	cmd := exec.CommandContext(t.Context(), "perl")
	cmd.Stdin = strings.NewReader(script)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s\n%s", err, script, out)
	}
	got := strings.Fields(string(out))
	slices.Sort(got)
	want := []string{p.address + "map.xml", p.address + "one.txt"}
	if !slices.Equal(got, want) {
		t.Errorf("the example prints %q, want %q", got, want)
	}
}
