package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"lockstep/cmd/lockstep/internal/manual"
	"lockstep/cmd/lockstep/internal/release"
	"lockstep/cmd/lockstep/internal/term"
)

func newMan(io term.IO, out *term.Options) *cobra.Command {
	return &cobra.Command{
		Use:   "man [DIR] [flags]",
		Short: "Print the manual page, or write those of all commands into DIR",
		Long: `Print the manual page lockstep(1) for man, or write it and a page for each command,
such as lockstep-sync(1), into the directory DIR. The .deb and .rpm packages install
them. With SOURCE_DATE_EPOCH in the environment the pages have that date, otherwise
none.`,
		Example: `  lockstep man | man -l -
  lockstep man ~/.local/share/man/man1`,
		Args: arguments(0, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			date, err := sourceDate(io.LookupEnv)
			if err != nil {
				return err
			}
			pages := manual.Pages(cmd.Root(), release.Version(), date)
			if len(args) == 0 {
				return printPage(&pages[0], out, io)
			}
			return writePages(pages, args[0], out, io)
		},
	}
}

// sourceDate returns the time that SOURCE_DATE_EPOCH states, the zero time if it is
// not set.
func sourceDate(lookup func(string) (string, bool)) (time.Time, error) {
	text, ok := lookup("SOURCE_DATE_EPOCH")
	if !ok || text == "" {
		return time.Time{}, nil
	}
	seconds, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return time.Time{}, term.Usage(fmt.Errorf("SOURCE_DATE_EPOCH=%s: not a number of seconds", text), "it is the date of the pages; unset it for pages without one")
	}
	return time.Unix(seconds, 0).UTC(), nil
}

func printPage(page *manual.Page, out *term.Options, io term.IO) error {
	if out.JSON {
		return io.PrintJSON(map[string]string{"name": page.Name, "page": page.Text})
	}
	io.Printf("%s", page.Text)
	return nil
}

// writePages writes pages into dir, which it creates.
func writePages(pages []manual.Page, dir string, out *term.Options, io term.IO) error {
	err := os.MkdirAll(dir, 0o755)
	names := make([]string, len(pages))
	for i := range pages {
		names[i] = pages[i].Name
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, pages[i].Name), []byte(pages[i].Text), 0o644)
		}
	}
	if err != nil {
		return fmt.Errorf("write manual pages: %w", err)
	}
	if out.JSON {
		return io.PrintJSON(map[string]any{"directory": dir, "pages": names})
	}
	io.Printf("wrote %s to %s\n", term.Count(len(pages), "page"), dir)
	return nil
}
