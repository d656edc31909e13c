package mirror

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strconv"

	"lockstep/cmd/lockstep/internal/shell"
	"lockstep/cmd/lockstep/internal/term"
	"lockstep/destination"
)

// An ExecHook runs the command of --exec for the changes of a batch.
type ExecHook struct {
	command      *shell.Command
	source, dest string
	out          *term.Lines // for what the command says on stdout and stderr
}

// NewExecHook returns the hook for a command line, or nil for none.
func NewExecHook(command, source, dest string, io term.IO) (*ExecHook, error) {
	c, err := shell.Parse("exec", command)
	if c == nil {
		return nil, err
	}
	if !IsBucket(dest) {
		if dest, err = filepath.Abs(dest); err != nil {
			return nil, term.Usagef("--exec: %w", err)
		}
	}
	return &ExecHook{c, source, dest, term.NewLines(io.Err)}, nil
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
	err := h.command.Run(ctx, &lines, h.out, "LOCKSTEP_SOURCE="+h.source, "LOCKSTEP_DEST="+h.dest,
		"LOCKSTEP_SET="+changes[0].Set, "LOCKSTEP_CHANGES="+strconv.Itoa(len(changes)))
	h.out.Flush()
	if err == nil || ctx.Err() != nil {
		return err
	}
	return term.WithHint(fmt.Errorf("--exec %q, given %s: %w", h.command.Text, term.Count(len(changes), "change"), err),
		"the mirror keeps what it has; the next run with --exec hands over these changes again, then goes on")
}
