package main

import (
	"runtime"

	"github.com/spf13/cobra"

	"lockstep/cmd/lockstep/internal/release"
	"lockstep/cmd/lockstep/internal/term"
)

func newVersion(io term.IO, out *term.Options) *cobra.Command {
	return &cobra.Command{
		Use:   "version [flags]",
		Short: "Print the version",
		Args:  arguments(0, 0),
		RunE:  func(*cobra.Command, []string) error { return runVersion(out, io) },
	}
}

func runVersion(out *term.Options, io term.IO) error {
	if out.JSON {
		return io.PrintJSON(map[string]string{
			"version": release.Version(), "go": runtime.Version(), "platform": runtime.GOOS + "/" + runtime.GOARCH,
		})
	}
	io.Printf("lockstep %s (%s, %s/%s)\n", release.Version(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
	return nil
}
