// Command lockstep keeps collections of web resources in step: it publishes a
// directory as a ResourceSync Source, and keeps and checks copies of Sources.
//
// This package is the front door: flags, configuration, wiring, output. What
// the commands do is done by the packages below it.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	goio "io"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"lockstep/cmd/lockstep/internal/auditing"
	"lockstep/cmd/lockstep/internal/completion"
	"lockstep/cmd/lockstep/internal/config"
	"lockstep/cmd/lockstep/internal/hangup"
	"lockstep/cmd/lockstep/internal/health"
	"lockstep/cmd/lockstep/internal/help"
	"lockstep/cmd/lockstep/internal/report"
	"lockstep/cmd/lockstep/internal/sdnotify"
	"lockstep/cmd/lockstep/internal/states"
	"lockstep/cmd/lockstep/internal/suggest"
	"lockstep/cmd/lockstep/internal/term"
	"lockstep/cmd/lockstep/internal/tracing"
	"lockstep/cmd/lockstep/internal/validation"
	"lockstep/destination"
	"lockstep/intake"
	"lockstep/internal/newerstate"
	"lockstep/storage/sqlite"
)

func main() {
	os.Exit(run(os.Args[1:], term.IO{
		Args: os.Args[1:], Environ: os.Environ(), In: os.Stdin, Out: os.Stdout, Err: os.Stderr, LookupEnv: os.LookupEnv,
	}))
}

// shutdownLimit is how long a command may take to end in good order after a
// signal; then it is left as after a kill, which loses nothing either.
const shutdownLimit = 9 * time.Second

// sameSignal is how soon after the first a signal is the same one: timeout(1)
// sends it to the process and to its group, a terminal to all of a pipeline.
const sameSignal = 300 * time.Millisecond

// run executes one command line and returns the exit code.
func run(args []string, io term.IO) int {
	signals := hangup.Receive()
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	io = io.Safe()
	stdout := &observed{to: io.Out}
	io.Out = stdout
	term.ApplyFormat(io, args)
	defer watchSignals(cancel, io)()

	root := newRoot(io, signals)
	root.SetArgs(args)
	cmd, err := root.ExecuteContextC(ctx)
	if err != nil && errors.Is(context.Cause(ctx), term.ErrInterrupted) && !errors.Is(err, term.ErrInterrupted) {
		err = term.ErrInterrupted // whatever broke, it broke because of the signal
	}
	if status := report.DeniedStatus(err); status != 0 {
		err = term.ReplaceHint(err, report.DeniedHint(status))
	}
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		err = term.WithHint(err, "free space there, and run the same command again")
	case errors.Is(err, sqlite.ErrDamaged):
		err = term.WithHint(err, "restore it from a backup: lockstep state restore FILE DIR")
	case errors.Is(err, newerstate.Err):
		err = term.WithHint(err, "use that version, or restore the backup from before the upgrade")
	}
	if !stdout.written.Load() {
		printFailure(cmd, io, err)
	}
	term.ReportError(io, err)
	return exitCode(err)
}

// An observed is a writer that knows whether anything was written to it.
type observed struct {
	to      goio.Writer
	written atomic.Bool
}

// Unwrap returns the writer that is observed.
func (o *observed) Unwrap() goio.Writer { return o.to }

func (o *observed) Write(p []byte) (int, error) {
	o.written.Store(true)
	return o.to.Write(p)
}

// printFailure prints, with --json, the result of a command that failed before it had one.
// There is none for wrong usage, and none among the events of --events -.
func printFailure(cmd *cobra.Command, io term.IO, err error) {
	asked, _ := cmd.Flags().GetBool("json")      // where there is no such flag, it is false
	events, _ := cmd.Flags().GetString("events") // or empty
	if !asked || events == "-" || err == nil || exitCode(err) == exitUsage {
		return
	}
	failure := map[string]string{"error": report.ErrorText(err)}
	if hint := term.HintOf(err); hint != "" {
		failure["hint"] = hint
	}
	if cmd.Name() == "status" {
		failure["state"] = string(health.Failing)
	}
	_ = io.PrintJSON(failure) // err is what is reported
}

// watchSignals ends the command at the first SIGINT or SIGTERM: in good order
// if it can within shutdownLimit, at once at the second signal. The function
// returned stops the watching.
func watchSignals(cancel context.CancelCauseFunc, io term.IO) (stop func()) {
	signals := make(chan os.Signal, 2)
	done := make(chan struct{})
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		select {
		case <-done:
			return
		case s := <-signals:
			cause := term.ErrInterrupted
			if s == syscall.SIGTERM {
				cause = term.ErrTerminated
			}
			sdnotify.Send(io.LookupEnv, sdnotify.Stopping)
			cancel(cause)
		}
		timer := time.NewTimer(shutdownLimit)
		defer timer.Stop()
		for first := time.Now(); ; {
			select {
			case <-done:
				return
			case <-signals:
				if time.Since(first) < sameSignal {
					continue
				}
			case <-timer.C:
				io.Errorf("error: still busy; stopping as after a kill, which loses nothing\n")
			}
			os.Exit(exitInterrupted)
		}
	}()
	return func() {
		signal.Stop(signals)
		close(done)
	}
}

// The exit codes of every command.
const (
	exitOK          = 0
	exitFailed      = 1
	exitUsage       = 2
	exitDifferences = 3
	exitRefused     = 4
	exitInterrupted = 130
)

// exitCode is the one place where an error becomes an exit code.
func exitCode(err error) int {
	_, usage := errors.AsType[term.UsageError](err)
	switch {
	case err == nil:
		return exitOK
	case errors.Is(err, term.ErrInterrupted):
		return exitInterrupted
	case usage && !errors.Is(err, sqlite.ErrDamaged): // which opening a set may find
		return exitUsage
	case errors.Is(err, auditing.ErrDifferences), errors.Is(err, validation.ErrFindings), errors.Is(err, tracing.ErrAltered), errors.Is(err, states.ErrDamaged):
		return exitDifferences
	case errors.Is(err, destination.ErrRefused), errors.Is(err, intake.ErrEmpty):
		return exitRefused
	}
	return exitFailed
}

// newRoot returns the command tree; serve and follow get the SIGHUP signals.
func newRoot(io term.IO, signals hangup.Signals) *cobra.Command {
	out, version := &term.Options{}, false
	root := &cobra.Command{
		Use:   "lockstep",
		Short: "Keep collections of web resources in step",
		Long: `Lockstep publishes a collection of resources (files, objects in a bucket, records
of an application) so that others can keep an exact copy of it, and keeps and
checks such copies. It speaks ResourceSync (ANSI/NISO Z39.99-2017), Atom-PMH and
OAI-PMH, both ways, and reads plain Sitemaps too.

See all of it in a few seconds:  lockstep demo`,
		Args:                       cobra.ArbitraryArgs,
		SilenceErrors:              true,
		SilenceUsage:               true,
		SuggestionsMinimumDistance: 2,
		CompletionOptions:          cobra.CompletionOptions{DisableDefaultCmd: true},
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case len(args) > 0:
				return unknownCommand(cmd, args[0])
			case version:
				return runVersion(out, io)
			}
			return cmd.Help()
		},
	}
	root.SetOut(io.Out)
	root.SetErr(io.Err)
	help.Declare(root, io.Columns())
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return term.Usage(config.PlainFlagError(err), suggest.Flag(cmd, io.Args, err))
	})
	out.Declare(root.PersistentFlags())
	root.Flags().BoolVar(&version, "version", false, "print the version")
	serve, follow := newServe(io, out, signals), newFollow(io, out, signals)
	root.PersistentPreRunE = func(cmd *cobra.Command, args []string) error {
		if completion.Asked(cmd) {
			completion.DropQuotes(root)
			return nil // the arguments are a command line that is not finished
		}
		for i, arg := range args {
			if strings.TrimSpace(arg) == "" {
				return term.Usage(fmt.Errorf("%s: argument %d is empty", cmd.Name(), i+1), "usage: "+cmd.UseLine()+"; is a variable of your script unset?")
			}
		}
		if err := config.RefuseEmptyFlags(cmd.Flags()); err != nil {
			return err
		}
		if err := config.FlagsFromEnvironment(cmd.Flags(), io.LookupEnv); err != nil {
			return err
		}
		if err := out.Check(); err != nil {
			return err
		}
		if err := out.Apply(io); err != nil {
			return err
		}
		if cmd != serve && cmd != follow { // these decide for themselves
			signals.Release()
		}
		config.WarnOfUnknown(root, io.Environ, io.Errorf)
		// net/http reports mistakes of peers to the standard logger
		// ("Unsolicited response…"): nothing people must act on, and where it
		// matters the request fails with an error.
		slog.SetLogLoggerLevel(slog.LevelDebug)
		slog.SetDefault(out.Logger(io))
		return nil
	}
	root.AddCommand(
		serve,
		newPublish(io, out),
		newSync(io, out),
		follow,
		newAudit(io, out),
		newDiff(io, out),
		newExplore(io, out),
		newValidate(io, out),
		newSimulate(io, out),
		newDemo(io, out),
		newHub(io, out),
		newMap(io, out),
		newSnippet(io, out),
		newReader(io, out),
		newState(io, out),
		newStatus(io, out),
		newVersion(io, out),
		newCompletion(io, out),
		newMan(io, out),
	)
	completion.Declare(root)
	refuseUnknownTopics(root)
	return root
}

// refuseUnknownTopics has the help command refuse the name of a command that does not exist.
func refuseUnknownTopics(root *cobra.Command) {
	root.InitDefaultHelpCmd()
	topics, _, err := root.Find([]string{"help"})
	if err != nil {
		return // unreachable: it was just made
	}
	topics.Run, topics.RunE = nil, func(_ *cobra.Command, args []string) error {
		cmd, rest, err := root.Find(args)
		if err != nil || len(rest) > 0 {
			return unknownCommand(root, append(rest, args...)[0])
		}
		cmd.InitDefaultHelpFlag()
		return cmd.Help()
	}
}

// unknownCommand is the error for a first word that is no command.
func unknownCommand(parent *cobra.Command, word string) error {
	hint := parent.CommandPath() + " --help lists the commands"
	if near := parent.SuggestionsFor(word); len(near) > 0 {
		hint = "did you mean " + parent.CommandPath() + " " + near[0] + "?"
	}
	return term.Usage(fmt.Errorf("unknown command %q", word), hint)
}

// arguments returns a check that there are between min and max arguments; use
// is said when there are not.
func arguments(min, max int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		name := strings.TrimPrefix(cmd.CommandPath(), cmd.Root().Name()+" ")
		switch {
		case len(args) < min:
			return term.Usage(fmt.Errorf("%s: too few arguments", name), "usage: "+cmd.UseLine())
		case len(args) > max:
			return term.Usage(fmt.Errorf("%s: too many arguments, from %q on", name, args[max]), cmp.Or(suggest.Value(cmd.Flags(), args), "usage: "+cmd.UseLine()))
		}
		return nil
	}
}
