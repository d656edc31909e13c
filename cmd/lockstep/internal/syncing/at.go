package syncing

import (
	"errors"
	"time"

	"lockstep/cmd/lockstep/internal/mirror"
	"lockstep/cmd/lockstep/internal/term"
	"lockstep/destination"
)

// instant returns what --at says, if it goes together with the other flags.
func (o *Flags) instant() (time.Time, error) {
	if o.allVersions {
		return time.Time{}, term.Usage(errors.New("--all-versions and --at exclude each other: all changes up to the present, or the state at one instant"), "give one of them")
	}
	if o.HasAges() {
		return time.Time{}, term.Usage(errors.New("--min-age and --max-age are about the present, --at is about the past"), "leave them out")
	}
	return mirror.ParseInstant("at", o.at)
}

// explainAt adds remedies to errors of a run with --at.
func (o *Flags) explainAt(err error) error {
	none, ok := errors.AsType[*destination.NoPastError](err)
	switch {
	case !ok:
		return err
	case !none.Earliest.IsZero():
		return term.WithHint(err, "give --at "+none.Earliest.UTC().Format(time.RFC3339Nano)+" or later")
	case mirror.IsMirror(o.Source):
		return term.WithHint(err, "a mirror has earlier states only from the time at which it was given --keep-versions")
	}
	return err
}
