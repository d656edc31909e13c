// Package syncing brings a mirror into step once. It has the flags of the commands that
// keep mirrors in step, and runs a single synchronization with all that belongs to it:
// events, hooks, progress, the result, and remedies for what went wrong.
package syncing

import (
	"errors"

	"github.com/spf13/pflag"

	"lockstep/cmd/lockstep/internal/help"
	"lockstep/cmd/lockstep/internal/mirror"
	"lockstep/cmd/lockstep/internal/network"
	"lockstep/cmd/lockstep/internal/term"
	"lockstep/destination"
)

// Flags are the flags of one mirror.
type Flags struct {
	mirror.Selection
	Network     network.Options
	Out         *term.Options
	OpenFiles   int // that may be open at a time; 0: as many as the process may have
	Exec        string
	Events      string
	DryRun      bool
	via         string
	allVersions bool
	delete      string
	maxDelete   int
	at          string
	baseline    bool
	askNow      bool
	adopt       bool
	replace     bool
	checkLocal  string
	verify      string
	keep        string

	// Shared says that other processes, of this machine or others, work on the mirror, too.
	Shared bool
}

// Declare declares the flags of commands that bring mirrors into step.
func (o *Flags) Declare(flags *pflag.FlagSet) {
	o.Selection.Declare(flags)
	flags.StringVar(&o.via, "via", "auto", "get contents by this `WAY`: list (a request for each), dump (packages wherever there are any), auto (what costs least)")
	flags.BoolVar(&o.allVersions, "all-versions", false, "apply every version of what changed more than once, in order, where the Source still has it")
	flags.StringVar(&o.delete, "delete", "", "`WHAT` to do about resources the Source no longer has: apply deletes them, keep keeps them (default apply; for plain Sitemaps keep)")
	mirror.DeclareMaxDelete(flags, &o.maxDelete, "stop before deleting more than this `PERCENT` of the mirror; 100 consents")
	flags.BoolVar(&o.baseline, "baseline", false, "ignore saved progress: compare everything")
	flags.BoolVar(&o.adopt, "adopt", false, "adopt existing files whose content is correct: by a hash, or, if the Source states none, by length and time")
	flags.BoolVar(&o.replace, "replace", false, "with --adopt: replace existing files whose content is not correct")
	flags.StringVar(&o.checkLocal, "check-local", "", "look `WHEN` for files of DEST that are missing, or differ in size or time from what was written, and repair them: always, daily, never (default always; daily in mirrors of 100,000 resources and more)")
	mirror.DeclareVerify(flags, &o.verify)
	help.Grouped(flags, help.OutcomeGroup, func(flags *pflag.FlagSet) {
		mirror.DeclareKeep(flags, &o.keep)
		flags.StringVar(&o.Events, "events", "", "append one JSON line for every applied change to `FILE`, or write them to stdout if it is -")
		flags.StringVar(&o.Exec, "exec", "", "run `CMD` by sh for every batch of changes that is durable, with their JSON lines on its stdin; if it fails the run stops, and the next hands them over again")
	})
	o.Network.Declare(flags, network.TheSource)
}

// DeclareShared declares the flag of a command that works on one mirror.
func (o *Flags) DeclareShared(flags *pflag.FlagSet) {
	flags.BoolVar(&o.Shared, "shared", false, "share the work with other processes that run the same command, on any machine: DEST is a bucket, --state a PostgreSQL database")
}

// DeclareOnce declares the flags of a command that ends when the mirror is in step.
func (o *Flags) DeclareOnce(flags *pflag.FlagSet) {
	flags.StringVar(&o.at, "at", "", "restore the collection in DEST as of `TIME`, a date or a time such as 2026-05-01T12:00:00Z, and name what is no longer available")
	flags.BoolVar(&o.askNow, "ask-now", false, "also request what a server asked in an earlier run not to request before a time")
	flags.BoolVarP(&o.DryRun, "dry-run", "n", false, "say what would be done, and do nothing")
}

// Options returns what the flags mean to a Destination.
func (o *Flags) Options() (destination.Options, error) {
	do, err := o.Selection.Options()
	if err != nil {
		return do, err
	}
	switch {
	case o.via != destination.ViaAuto && o.via != destination.ViaList && o.via != destination.ViaDump:
		return do, term.Usagef("--via %q: want auto, list or dump", o.via)
	case o.delete != "" && o.delete != string(destination.DeleteApply) && o.delete != string(destination.DeleteKeep):
		return do, term.Usagef("--delete %q: want apply or keep", o.delete)
	case o.maxDelete < 1 || o.maxDelete > 100:
		return do, term.Usagef("--max-delete %d: want a share of 1 to 100 percent; to delete nothing, --delete keep", o.maxDelete)
	case o.checkLocal != "" && o.checkLocal != string(destination.CheckAlways) && o.checkLocal != string(destination.CheckDaily) && o.checkLocal != string(destination.CheckNever):
		return do, term.Usagef("--check-local %q: want always, daily or never", o.checkLocal)
	case o.replace && !o.adopt:
		return do, term.Usage(errors.New("--replace needs --adopt: it replaces files that --adopt finds"), "give both")
	case o.Events == "-" && o.Out.JSON:
		return do, term.Usage(errors.New("--json and --events - both write to stdout"), "give --events a file")
	}
	if do.VerifyAll, err = mirror.ParseVerify(o.verify); err != nil {
		return do, err
	}
	if do.Keep, err = mirror.ParseKeepVersions(o.keep); err != nil {
		return do, err
	}
	if o.at != "" {
		if do.At, err = o.instant(); err != nil {
			return do, err
		}
	}
	do.Via, do.AllVersions = o.via, o.allVersions
	do.CheckLocal = destination.CheckLocal(o.checkLocal)
	do.Delete, do.MaxDelete = destination.Delete(o.delete), o.maxDelete
	do.OpenFiles = o.OpenFiles
	do.DryRun, do.Baseline, do.Adopt, do.Replace, do.AskNow = o.DryRun, o.baseline, o.adopt, o.replace, o.askNow
	if err := do.Validate(); err != nil {
		return do, term.Usage(err, "")
	}
	return do, nil
}
