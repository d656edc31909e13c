package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/pflag"

	"lockstep/cmd/lockstep/internal/config"
	"lockstep/cmd/lockstep/internal/hangup"
	"lockstep/cmd/lockstep/internal/site"
	"lockstep/cmd/lockstep/internal/sourcereport"
	"lockstep/cmd/lockstep/internal/term"
)

// asService runs a command that works until it is stopped: SIGTERM is how that is done, and
// after SIGHUP its log file may be another one. Its log has the time of each record.
func asService(ctx context.Context, out *term.Options, io term.IO, run func(context.Context) error) error {
	out.Service = true
	if out.LogFile != nil {
		defer hangup.Each(out.LogFile.Reopen)()
	}
	return term.EndOfService(ctx, run(ctx), out.Logger(io))
}

// rereadSets reads the configuration file of a running serve again and returns its sets.
// now are the flags of the process, given the values that command line and environment
// gave them. It fails if the file has changed something that requires a restart.
func rereadSets(now *pflag.FlagSet, given map[string][]string, args []string, io term.IO) ([]config.Set, error) {
	o := &serveOptions{}
	flags := pflag.NewFlagSet("serve", pflag.ContinueOnError)
	o.declare(flags)
	if err := config.Give(flags, given); err != nil {
		return nil, err
	}
	if err := o.settle(flags, args, io); err != nil {
		return nil, err
	}
	if keys := config.Differences(now, flags); len(keys) > 0 {
		return nil, term.WithHint(fmt.Errorf("%s: these keys can only change with a restart", strings.Join(keys, ", ")),
			"restart lockstep serve, or write the values that they had")
	}
	return o.Sets, nil
}

// reloadAt has s publish the sets of its configuration file as it is at each signal,
// until ctx ends.
func reloadAt(ctx context.Context, signals <-chan os.Signal, s *site.Site, reread func() ([]config.Set, error), n *sourcereport.Reporter) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-signals:
		}
		sets, err := reread()
		if err == nil {
			err = s.Reload(ctx, sets)
		}
		switch {
		case ctx.Err() != nil:
			return
		case errors.Is(err, site.ErrUnchanged):
			n.IO.Notef("the configuration was read again: it is the one in use")
		case err != nil:
			n.Warn(term.WithHint(fmt.Errorf("the configuration stays as it was: %w", err), term.HintOf(err)))
		}
	}
}
