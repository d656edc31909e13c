// Package shell runs the commands that users give to flags.
package shell

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"

	"lockstep/cmd/lockstep/internal/term"
)

// A Command is a command line that sh runs.
type Command struct {
	Text  string
	shell string // path of sh
}

// patience is how long a command may take to end after it was asked to, and how long
// its output is read after it has ended and left child processes behind.
const patience = 2 * time.Second

// Parse returns the command that the flag of that name has, or nil for none.
func Parse(flag, text string) (*Command, error) {
	if text == "" {
		return nil, nil
	}
	if strings.TrimSpace(text) == "" {
		return nil, term.Usagef("--%s %q: want a command", flag, text)
	}
	path, err := exec.LookPath("sh")
	if err != nil {
		return nil, term.Usage(fmt.Errorf("--%s: %w", flag, err), "commands are run by sh -c, which is missing")
	}
	return &Command{text, path}, nil
}

// Run runs the command until it ends, or until ctx does. Its environment is that of
// this process, and env; what it prints goes to out.
func (c *Command) Run(ctx context.Context, stdin io.Reader, out io.Writer, env ...string) error {
	cmd := exec.CommandContext(ctx, c.shell, "-c", c.Text)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, out, out
	cmd.Env = append(os.Environ(), env...)
	cmd.WaitDelay = patience
	defer ownGroup(cmd)()
	err := cmd.Run()
	if errors.Is(err, exec.ErrWaitDelay) && cmd.ProcessState != nil && cmd.ProcessState.Success() {
		err = nil // a child process it left behind holds its output open
	}
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}
