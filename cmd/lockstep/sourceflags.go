package main

import (
	"os"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"lockstep/intake"
)

// sourceFlags are the flags serve and publish share.
type sourceFlags struct {
	dir          string // the argument
	baseURL      string
	state        string
	config       string
	hash         []string
	include      []string
	exclude      []string
	allowEmpty   bool
	scanInterval time.Duration
	watch        bool
	noWatch      bool

	sets []setConfig // from the configuration file, or the one that is dir
	file fileConfig
}

func (o *sourceFlags) declare(flags *pflag.FlagSet) {
	flags.StringVar(&o.state, "state", "", "keep what is known of the files in `DIR` (default one per directory below ~/.local/state/lockstep)")
	flags.StringVar(&o.config, "config", "", "read configuration from `FILE` (YAML); flags overrule it")
	flags.StringSliceVar(&o.hash, "hash", []string{"sha-256", "md5"}, "`NAMES` of the hashes to publish")
	flags.StringArrayVar(&o.include, "include", nil, "publish only files that match `GLOB` (repeatable; ** is any number of directories)")
	flags.StringArrayVar(&o.exclude, "exclude", nil, "leave out files and directories that match `GLOB` (repeatable; wins over --include)")
	flags.BoolVar(&o.allowEmpty, "allow-empty", false, "believe a directory that is suddenly empty: everything was deleted")
	flags.DurationVar(&o.scanInterval, "scan-interval", intake.DefaultScanInterval, "look at everything again after this `DURATION`, for changes nobody told of; 0 never")
	flags.BoolVar(&o.noWatch, "no-watch", false, "do not watch for changes")
}

// settle fills in what flags and environment leave open: from the
// configuration file, then from defaults.
func (o *sourceFlags) settle(flags *pflag.FlagSet, args []string, lookup func(string) (string, bool)) error {
	if o.config != "" {
		var err error
		if o.file, err = readConfig(o.config); err != nil {
			return err
		}
		if err := flagsFromFile(flags, o.config, o.file.flagValues()); err != nil {
			return err
		}
	}
	o.sets = o.file.Sets
	switch {
	case len(args) > 0 && len(o.sets) > 0:
		return usageError{usagef("%s: %s has sets of its own", args[0], o.config), "give either DIR or sets in the configuration"}
	case len(args) > 0:
		o.dir = args[0]
	case len(o.sets) == 0:
		o.dir = "."
	}
	if o.dir != "" {
		o.sets = []setConfig{{From: "dir:" + o.dir}}
	}
	if strings.Contains(o.state, "://") {
		return usagef("--state %s: this version keeps its state in a directory", o.state)
	}
	if o.state == "" {
		dir := o.dir
		if dir == "" {
			dir = o.config
		}
		var err error
		if o.state, err = defaultState(dir, lookup); err != nil {
			return err
		}
	}
	if o.scanInterval < 0 {
		return usagef("--scan-interval must not be below 0")
	}
	return nil
}

// site returns what openSite needs to know.
func (o *sourceFlags) site() (siteOptions, error) {
	hashes, err := algorithms(o.hash)
	if err != nil {
		return siteOptions{}, err
	}
	interval := o.scanInterval
	if interval == 0 {
		interval = -1
	}
	return siteOptions{
		baseURL: o.baseURL, sets: o.sets, state: o.state, hashes: hashes, include: o.include, exclude: o.exclude,
		allowEmpty: o.allowEmpty, scanInterval: interval,
	}, nil
}

// places names the directories a site is made from, for people.
func (o *sourceFlags) places() string {
	var dirs []string
	for _, s := range o.sets {
		dir := dirOf(s)
		if wd, err := os.Getwd(); dir == "." && err == nil {
			dir = wd
		}
		dirs = append(dirs, dir)
	}
	return strings.Join(dirs, ", ")
}
