package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/pflag"

	"lockstep/cmd/lockstep/internal/config"
	"lockstep/cmd/lockstep/internal/site"
	"lockstep/cmd/lockstep/internal/sourcereport"
	"lockstep/cmd/lockstep/internal/term"
)

// hangups returns a channel of the SIGHUP signals that ask to read the configuration
// file again, and a function that ends receiving them. Without a file the signal ends
// the process, as usual.
func (o *serveOptions) hangups() (hangups <-chan os.Signal, ignore func()) {
	if o.ConfigFile() == "" {
		return nil, func() {}
	}
	signals := make(chan os.Signal, 1) // one that comes meanwhile is about the same file
	signal.Notify(signals, syscall.SIGHUP)
	return signals, func() { signal.Stop(signals) }
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
			n.IO.Errorf("note: the configuration was read again: it is the one in use\n")
		case err != nil:
			n.Warn(term.WithHint(fmt.Errorf("the configuration stays as it was: %w", err), term.HintOf(err)))
		}
	}
}
