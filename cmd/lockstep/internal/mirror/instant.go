package mirror

import (
	"time"

	"github.com/spf13/pflag"

	"lockstep/cmd/lockstep/internal/term"
	"lockstep/resourcesync"
)

// instantSlack is how far an instant may be ahead of our clock: the clock of
// the Source, from which people take instants, may be ahead of ours.
const instantSlack = time.Minute

// ParseInstant reads the value of a flag that names an instant in the past, in
// any form of the W3C Datetime profile (RS-DT-02); a date means its first
// instant in UTC. It rejects an instant in the future, whose state cannot be
// known yet.
func ParseInstant(flag, value string) (time.Time, error) {
	d, err := resourcesync.ParseDatetime(value)
	if err != nil {
		return time.Time{}, term.Usagef("--%s %q: want a date, as 2026-05-01 (its first instant in UTC), or a time, as 2026-05-01T12:00:00Z or 2026-05-01T12:00:00+02:00", flag, value)
	}
	t := d.Time()
	if t.After(time.Now().Add(instantSlack)) {
		return time.Time{}, term.Usagef("--%s %s: is in the future", flag, value)
	}
	return t, nil
}

// RefuseEmptyInstant refuses an instant that was given and is empty: a script whose
// variable is not set does not mean the present.
func RefuseEmptyInstant(flags *pflag.FlagSet, flag string) error {
	f := flags.Lookup(flag)
	if !f.Changed || f.Value.String() != "" {
		return nil
	}
	_, err := ParseInstant(flag, "")
	return err
}
