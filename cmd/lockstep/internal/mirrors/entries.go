// Package mirrors keeps the mirrors of a configuration file in step, all in one process:
// once for sync, and for as long as it runs for follow. They take turns, share the limits
// of the hosts that they request resources from, and do not delay each other; each has a
// result of its own.
package mirrors

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"lockstep/cmd/lockstep/internal/config"
	"lockstep/cmd/lockstep/internal/following"
	"lockstep/cmd/lockstep/internal/syncing"
	"lockstep/cmd/lockstep/internal/term"
	"lockstep/internal/fetch"
)

// DefaultParallel is how many mirrors are worked on at a time: enough to use a connection
// while servers compute, few enough for the memory of a small machine.
const DefaultParallel = 4

// Flags are the flags of a command that can work on the mirrors of a configuration file.
type Flags struct {
	Parallel int
	config   string
	given    map[string][]string // what the command line says, by flag name
}

// Declare declares the flags.
func (f *Flags) Declare(flags *pflag.FlagSet) {
	flags.StringVar(&f.config, "config", "", "work on the mirrors that `FILE` (YAML) describes, or on those of them that are named, in place of SOURCE and DEST")
	flags.IntVar(&f.Parallel, "parallel", DefaultParallel, "with --config: work on at most `N` mirrors at a time, not counting those that take long or wait for their servers")
}

// Note takes note of what the command line says, before anything else sets flags, and
// reports whether the mirrors of a configuration file are meant. The environment does not
// decide that: the variable may be for serve.
func (f *Flags) Note(flags *pflag.FlagSet) bool {
	f.given = config.Given(flags)
	return f.Are()
}

// Are reports whether the mirrors of a configuration file are meant.
func (f *Flags) Are() bool { return len(f.given["config"]) > 0 }

// Check refuses flags that do nothing without a configuration file, or without another flag, each given
// as that flag and the other one.
func (f *Flags) Check(flags *pflag.FlagSet, lookup func(string) (string, bool), needed ...string) error {
	return config.RefuseWithout(flags, lookup, append(needed, "parallel config"))
}

// Config returns the path of the configuration file.
func (f *Flags) Config() string { return f.config }

// An entry is one mirror of a configuration file.
type entry struct {
	name   string
	flags  following.Flags // those of sync are among them
	values map[string][]string
}

// sync returns the flags that sync has, too.
func (e *entry) sync() *syncing.Flags { return &e.flags.Sync }

// A Place says what a mirror of a configuration file is, and where.
type Place struct {
	Name   string
	Source string // without user and password
	Dest   string
	State  string // of a mirror in a bucket
}

// Places returns the mirrors that a configuration file describes.
func Places(file string) ([]Place, error) {
	c, err := config.Read(file)
	if err != nil {
		return nil, err
	}
	var places []Place
	for i := range c.Mirrors {
		m := &c.Mirrors[i]
		places = append(places, Place{Name: m.Name, Source: fetch.WithoutUser(m.Source), Dest: m.Dest, State: string(m.State)})
	}
	return places, nil
}

// ofOne are the flags that describe one mirror: neither the command line nor the environment
// says for all mirrors of a file which resources they have, or sends the credentials for one
// server to others.
func ofOne(flag string) bool {
	return slices.Contains([]string{"state", "set", "include", "exclude", "type", "filter-from", "min-size", "max-size", "min-age", "max-age", "since", "prefer", "with", "map", "allow-host", "header", "bearer-token-file", "events", "exec", "keep-versions", "at"}, flag)
}

// ofProcess are the flags that are not those of a mirror.
func ofProcess(flag string) bool {
	return slices.Contains([]string{"config", "parallel", "bandwidth", "callback", "listen", "admin", "admin-token-file", "unsubscribe", "tls-cert", "tls-key", "access-log", "access-log-format", "on-failure", "ping-url", "failure-after", "metrics-file"}, flag)
}

// read returns the mirrors of the configuration file, or those that are named, with the
// values that command line, environment and file give their flags. flags are those of the
// command; the file gives values to those that are about the process. options checks the
// values of a mirror. The error names all that is wrong.
func (f *Flags) read(flags *pflag.FlagSet, names []string, out *term.Options, options func(*entry) error) ([]*entry, error) {
	for flag := range f.given {
		if ofOne(flag) {
			return nil, term.Usage(fmt.Errorf("--%s and --config: it is not the same for all mirrors of a file", flag), "write "+strings.ReplaceAll(flag, "-", "_")+" into the mirror that it is for, or at the top of "+f.config)
		}
	}
	c, err := config.Read(f.config)
	if err != nil {
		return nil, err
	}
	if len(c.Mirrors) == 0 {
		return nil, term.Usage(fmt.Errorf("%s describes no mirrors", f.config), "write mirrors as mirrors: [{source: https://example.org/, dest: mirror}]")
	}
	if err := config.FlagsFromFile(flags, f.config, c.ProcessValues()); err != nil {
		return nil, err
	}
	if f.Parallel < 1 {
		return nil, term.Usagef("--parallel %d: want at least 1", f.Parallel)
	}
	given := config.Given(flags)
	for flag := range given {
		if ofOne(flag) || ofProcess(flag) {
			delete(given, flag)
		}
	}
	var entries []*entry
	var wrong []error
	for i := range c.Mirrors {
		e, err := newEntry(&c, &c.Mirrors[i], given, out)
		if err == nil {
			err = check(e, options)
		}
		if err != nil {
			wrong = append(wrong, fmt.Errorf("mirror %s: %w", c.Mirrors[i].Name, err))
		}
		entries = append(entries, e)
	}
	if wrong == nil {
		wrong = overlaps(entries)
	}
	if len(wrong) > 0 {
		err := errors.Join(wrong...)
		return nil, term.Usage(fmt.Errorf("read configuration %s: %w", f.config, err), term.HintOf(err))
	}
	return choose(entries, names, f.config)
}

// newEntry returns the mirror that m describes. given are values of flags that prevail.
func newEntry(c *config.File, m *config.Mirror, given map[string][]string, out *term.Options) (*entry, error) {
	e := &entry{name: m.Name, values: c.MirrorValues(m)}
	e.flags.Sync = syncing.Flags{Out: out}
	flags := pflag.NewFlagSet(m.Name, pflag.ContinueOnError)
	e.flags.DeclareOne(flags)
	e.sync().DeclareOnce(flags)
	if err := config.Give(flags, given); err != nil {
		return nil, err
	}
	if err := config.FlagsFromKeys(flags, e.values); err != nil {
		return nil, err
	}
	e.sync().Source, e.sync().Dest = m.Source, m.Dest
	e.values["source"], e.values["dest"] = []string{m.Source}, []string{m.Dest}
	if text, err := os.ReadFile(strings.Join(e.values["filter-from"], "")); err == nil { // a file that cannot be read is refused later
		e.values["rules"] = []string{string(text)}
	}
	return e, nil
}

// choose returns the mirrors that are named, or all.
func choose(entries []*entry, names []string, file string) ([]*entry, error) {
	if len(names) == 0 {
		return entries, nil
	}
	var all, unknown []string
	for _, e := range entries {
		all = append(all, e.name)
	}
	for _, name := range names {
		if !slices.Contains(all, name) {
			unknown = append(unknown, fmt.Sprintf("%q", name))
		}
	}
	if len(unknown) > 0 {
		return nil, term.Usage(fmt.Errorf("%s describes no mirror %s", file, strings.Join(unknown, ", ")), "its mirrors are "+strings.Join(all, ", "))
	}
	return slices.DeleteFunc(entries, func(e *entry) bool { return !slices.Contains(names, e.name) }), nil
}

// check refuses what a mirror cannot be brought into step with, whatever the state of the
// world.
func check(e *entry, options func(*entry) error) error {
	if err := options(e); err != nil {
		return err
	}
	if err := e.sync().Network.Check(e.sync().Source); err != nil {
		return err
	}
	if err := e.sync().CheckPlace(func(string) (string, bool) { return "", false }); err != nil { // the environment has no state of a mirror
		return err
	}
	err := e.sync().CheckSource(false)
	if _, wrong := errors.AsType[term.UsageError](err); wrong {
		return err
	}
	return nil // a file that does not exist keeps no other mirror from being brought into step
}
