package main

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/spf13/cobra"

	"lockstep/cmd/lockstep/internal/readers"
	"lockstep/cmd/lockstep/internal/term"
	"lockstep/internal/private"
)

func newReader(io term.IO, out *term.Options) *cobra.Command {
	tokenFile := ""
	cmd := &cobra.Command{
		Use:   "reader NAME [flags]",
		Short: "Make a token for a reader of a private set",
		Long: `Make a random token for NAME, and print it with the line that lets its owner
read a set: the line is an entry of readers in the configuration file of serve, or a
line of a file that readers names. It has a hash of the token only. The token is
what the reader gives as --bearer-token-file, or as the password of NAME.

With --token-file the token is written to that file, and only the line is printed.`,
		Example: `  lockstep reader alice
  lockstep reader alice --token-file alice.token >> internal.readers`,
		Args: arguments(1, 1),
		RunE: func(_ *cobra.Command, args []string) error { return runReader(args[0], tokenFile, out, io) },
	}
	cmd.Flags().StringVar(&tokenFile, "token-file", "", "write the token to `FILE`, which must not exist, and which only you can read")
	return cmd
}

// runReader prints a new token.
func runReader(name, tokenFile string, out *term.Options, io term.IO) error {
	token, line, err := readers.Make(name)
	if err != nil {
		return err
	}
	if tokenFile != "" {
		switch err := private.Create(tokenFile, []byte(token+"\n")); {
		case errors.Is(err, fs.ErrExist):
			return term.Usage(fmt.Errorf("--token-file %s: there is such a file, perhaps with the token of a reader", tokenFile), "choose another name, or remove it")
		case err != nil:
			return fmt.Errorf("write the token: %w", err)
		}
	}
	if out.JSON {
		result := map[string]string{"name": name, "line": line}
		if tokenFile == "" {
			result["token"] = token
		} else {
			result["token_file"] = tokenFile
		}
		return io.PrintJSON(result)
	}
	if tokenFile == "" {
		io.Printf("token  %s\nline   ", token)
	}
	io.Printf("%s\n", line)
	return nil
}
