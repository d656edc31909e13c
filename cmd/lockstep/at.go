package main

import (
	"errors"
	"time"

	"lockstep/cmd/lockstep/internal/term"
	"lockstep/destination"
)

// instant returns what --at says, if it goes together with the other flags.
func (o *syncOptions) instant() (time.Time, error) {
	if o.allVersions {
		return time.Time{}, term.Usage(errors.New("--all-versions is about changes on the way to the present, --at about one instant"), "give one of them")
	}
	return parseInstant("at", o.at)
}

// pastState is the first line of what a run with --at came to.
func pastState(io term.IO, r *destination.Report, err error) {
	head := ""
	switch {
	case r.DryRun:
		head = "dry run, nothing was done: to be "
	case err != nil:
		head = "not all of "
	}
	io.Printf("%s%s as it was at %s\n", head, r.Source, r.At.Format(time.RFC3339Nano))
	if !r.AsOf.IsZero() && !r.AsOf.Equal(r.At) {
		io.Printf("  it is as of %s: what was there at the instant asked for cannot be told\n", r.AsOf.Format(time.RFC3339Nano))
	}
	if n := r.Failed + r.Refused; n > 0 {
		io.Printf("  %s of that time are missing; what is here of them, if anything, is of another time\n", term.Count(n, "resource"))
	}
}

// explainPast adds ways out to errors of a run with --at.
func (o *syncOptions) explainPast(err error) error {
	none, ok := errors.AsType[*destination.NoPastError](err)
	switch {
	case !ok:
		return err
	case !none.Earliest.IsZero():
		return term.WithHint(err, "give --at "+none.Earliest.UTC().Format(time.RFC3339Nano)+" or later")
	case mirrorAt(o.source):
		return term.WithHint(err, "a mirror remembers what it was from when it is told to: sync --keep-versions")
	}
	return err
}
