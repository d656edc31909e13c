package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"lockstep/cmd/lockstep/internal/admin"
	"lockstep/cmd/lockstep/internal/config"
	"lockstep/cmd/lockstep/internal/mirrors"
	"lockstep/cmd/lockstep/internal/term"
	"lockstep/cmd/lockstep/internal/upstreams"
	"lockstep/internal/trust"
)

// statusOptions are the flags of status.
type statusOptions struct {
	out       *term.Options
	state     string
	config    string
	admin     string
	tokenFile string
	cert      string
}

func newStatus(io term.IO, out *term.Options) *cobra.Command {
	o := &statusOptions{out: out}
	cmd := &cobra.Command{
		Use:   "status [DIR] [flags]",
		Short: "Show the state of a running serve or follow, and of the Sources it follows",
		Long: `Show what a running serve or follow of this machine does: a line for each Source
that it follows, with its state, the time since the mirror was known to be in
step, the next attempt, the number of its resources, and the last error.

The process is found by its admin socket: DIR is the argument of serve, the mirror
of follow, or the state directory; or give --state, --config or --admin as for
serve. An age is not an error: an upstream that is polled every hour may be an
hour old.

Exit code 3 if an upstream is failing, 1 if no process answers.`,
		Example: `  lockstep status --config lockstep.yaml
  lockstep status mirror
  lockstep status --state /var/lib/lockstep --json`,
		Args: arguments(0, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return runStatus(cmd.Context(), o, args, io)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&o.state, "state", "", "the process has its state in `DIR`")
	flags.StringVar(&o.config, "config", "", "the process has its configuration in `FILE`")
	flags.StringVar(&o.admin, "admin", "", "the process listens for administration at `ADDRESS`: unix:PATH, or HOST:PORT, which takes the admin token")
	flags.StringVar(&o.cert, "tls-cert", "", "the process has the TLS certificate in `FILE`: at HOST:PORT it is asked by https, and answers with this certificate")
	flags.StringVar(&o.tokenFile, "admin-token-file", "", "the admin token is in `FILE` (default admin-token in the state directory)")
	return cmd
}

// runStatus prints what a process says.
func runStatus(ctx context.Context, o *statusOptions, args []string, io term.IO) error {
	if err := o.find(args, io); err != nil {
		return err
	}
	token, err := o.token()
	if err != nil {
		return err
	}
	r, err := upstreams.Ask(ctx, o.admin, token, o.cert)
	if err != nil {
		return err
	}
	if o.out.JSON {
		return errors.Join(io.PrintJSON(r), r.Check())
	}
	r.Print(io)
	return r.Check()
}

// find determines the address of the process.
func (o *statusOptions) find(args []string, io term.IO) error {
	if o.config != "" {
		file, err := config.Read(o.config)
		if err != nil {
			return err
		}
		if len(file.Mirrors) > 0 && len(file.Sets) == 0 && o.state == "" { // follow runs with it
			if o.state, err = mirrors.StateDir(o.config, io.LookupEnv); err != nil {
				return err
			}
		}
		for _, v := range []struct {
			flag *string
			name string
		}{{&o.state, "state"}, {&o.admin, "admin"}, {&o.tokenFile, "admin-token-file"}, {&o.cert, "tls-cert"}} {
			if given := file.FlagValues()[v.name]; *v.flag == "" && len(given) > 0 {
				*v.flag = given[0]
			}
		}
	}
	if o.state == "" && o.admin == "" || o.state == "" && len(args) > 0 {
		if err := o.findState(args, io); err != nil {
			return err
		}
	}
	switch o.admin {
	case admin.AdminOff:
		return term.Usage(errors.New("the process does not listen for administration: its configuration has admin: off"), "leave admin out, and start it again")
	case "":
		path, err := trust.SocketIn(o.state)
		if err != nil {
			return err
		}
		o.admin = "unix:" + path
	}
	return nil
}

// findState determines the state directory as the process has it.
func (o *statusOptions) findState(args []string, io term.IO) (err error) {
	if o.config != "" {
		o.state, err = config.DefaultState(o.config, true, io.LookupEnv)
		return err
	}
	place := "."
	if len(args) > 0 {
		place = args[0]
	}
	mirror := filepath.Join(place, ".lockstep")
	from, err := config.ParseArgument(place)
	if err != nil {
		return err
	}
	own := ""
	if dir := from.Dir(); dir != "" {
		own, err = config.DefaultState(dir, true, io.LookupEnv)
	} else {
		own, err = config.DefaultState(from.String(), false, io.LookupEnv)
	}
	if err != nil {
		return err
	}
	for _, state := range []string{place, mirror, own} {
		if path, err := trust.SocketIn(state); err == nil && exists(path) {
			o.state = state
			return nil
		}
	}
	switch o.state = own; { // no process runs: the message names what was meant
	case exists(filepath.Join(place, "catalog.db")):
		o.state = place
	case exists(mirror):
		o.state = mirror
	}
	return nil
}

// exists reports whether there is a file.
func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// token returns the admin token; "" if there is none to be read: then only a socket
// answers.
func (o *statusOptions) token() (string, error) {
	file := o.tokenFile
	if file == "" && o.state != "" {
		file = filepath.Join(o.state, admin.TokenName)
	}
	if file == "" {
		return "", nil
	}
	text, err := os.ReadFile(file)
	switch {
	case err != nil && o.tokenFile == "" && (errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission)):
		return "", nil
	case err != nil:
		return "", term.Usage(fmt.Errorf("--admin-token-file: %w", err), "")
	}
	token, _, _ := strings.Cut(strings.TrimSpace(string(text)), "\n")
	return strings.TrimSpace(token), nil
}
