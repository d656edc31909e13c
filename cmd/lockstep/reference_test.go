package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"lockstep/cmd/lockstep/internal/help"
	"lockstep/cmd/lockstep/internal/term"
)

// TestReference: docs/reference has a page for each command, with its help.
// go test ./cmd/lockstep -run TestReference -update writes them.
func TestReference(t *testing.T) {
	t.Parallel()
	dir := filepath.Join("..", "..", "docs", "reference")
	pages := referencePages(t)
	if *update {
		for name, text := range pages {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	there, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(there) != len(pages) {
		t.Errorf("%d files in docs/reference, want %d: remove those of commands that are gone (%v)", len(there), len(pages), err)
	}
	for name, want := range pages {
		if got, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(got) != want {
			t.Errorf("docs/reference/%s is not the help of the command (%v): run this test with -update", name, err)
		}
	}
}

// referencePages returns the pages by name.
func referencePages(t *testing.T) map[string]string {
	t.Helper()
	var out bytes.Buffer
	root := newRoot(term.IO{Out: &out, Err: &out, LookupEnv: func(string) (string, bool) { return "", false }}, nil)
	root.InitDefaultHelpCmd()
	pages := map[string]string{}
	index := "# Commands\n\nEach page is what `--help` prints.\n\n| command | |\n|---|---|\n"
	for _, cmd := range root.Commands() {
		if !cmd.IsAvailableCommand() {
			continue
		}
		name := cmd.Name() + ".md"
		index += "| [lockstep " + cmd.Name() + "](" + name + ") | " + cmd.Short + " |\n"
		page := "# lockstep " + cmd.Name() + "\n\n" + cmd.Short + ".\n\n```text\n" + helpOf(t, cmd, &out) + "```\n"
		for _, below := range help.Commands(cmd) {
			page += "\n## " + below.CommandPath() + "\n\n" + below.Short + ".\n\n```text\n" + helpOf(t, below, &out) + "```\n"
		}
		pages[name] = page
	}
	pages["README.md"] = index
	return pages
}

// helpOf returns what --help prints.
func helpOf(t *testing.T, cmd *cobra.Command, out *bytes.Buffer) string {
	t.Helper()
	cmd.InitDefaultHelpFlag()
	out.Reset()
	if err := cmd.Help(); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(out.String(), "```") {
		t.Errorf("the help of %s cannot be shown in a block", cmd.Name())
	}
	return out.String()
}
