package mirror

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"lockstep/cmd/lockstep/internal/term"
	"lockstep/destination"
)

// An ExecHook runs the command of --exec for the changes of a batch.
type ExecHook struct {
	command      string
	shell        string // path of sh
	source, dest string
	out          *term.Lines // for what the command says on stdout and stderr
}

// execPatience is how long a command may take to end after it was asked to, and
// how long its output is read after it has ended and left child processes
// behind.
const execPatience = 2 * time.Second

// NewExecHook returns the hook for a command line, or nil for none.
func NewExecHook(command, source, dest string, io term.IO) (*ExecHook, error) {
	if command == "" {
		return nil, nil
	}
	if strings.TrimSpace(command) == "" {
		return nil, term.Usagef("--exec %q: want a command", command)
	}
	shell, err := exec.LookPath("sh")
	if err != nil {
		return nil, term.Usage(fmt.Errorf("--exec: %w", err), "commands are run by sh -c, which is missing")
	}
	if !IsBucket(dest) {
		if dest, err = filepath.Abs(dest); err != nil {
			return nil, term.Usagef("--exec: %w", err)
		}
	}
	return &ExecHook{command, shell, source, dest, term.NewLines(io.Err)}, nil
}

// Deliver is a Destination's Deliver: one run of the command for the changes
// of each set in the batch.
func (h *ExecHook) Deliver(ctx context.Context, batch []destination.Change) error {
	for len(batch) > 0 {
		n := 1
		for n < len(batch) && batch[n].Set == batch[0].Set {
			n++
		}
		if err := h.run(ctx, batch[:n]); err != nil {
			return err
		}
		batch = batch[n:]
	}
	return nil
}

// run runs the command with the changes as JSON lines on its stdin.
func (h *ExecHook) run(ctx context.Context, changes []destination.Change) error {
	var lines bytes.Buffer
	enc := json.NewEncoder(&lines)
	enc.SetEscapeHTML(false)
	for _, c := range changes {
		if err := enc.Encode(c); err != nil {
			return err // unreachable: strings and numbers
		}
	}
	cmd := exec.CommandContext(ctx, h.shell, "-c", h.command)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = &lines, h.out, h.out
	cmd.Env = append(os.Environ(), "LOCKSTEP_SOURCE="+h.source, "LOCKSTEP_DEST="+h.dest,
		"LOCKSTEP_SET="+changes[0].Set, "LOCKSTEP_CHANGES="+strconv.Itoa(len(changes)))
	cmd.WaitDelay = execPatience
	defer ownGroup(cmd)()
	err := cmd.Run()
	h.out.Flush()
	if errors.Is(err, exec.ErrWaitDelay) && cmd.ProcessState != nil && cmd.ProcessState.Success() {
		err = nil // a child process it left behind holds its output open
	}
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return term.WithHint(fmt.Errorf("--exec %q, given %s: %w", h.command, term.Count(len(changes), "change"), err),
		"the mirror keeps what it has; the next run with --exec hands over these changes again, then goes on")

}
