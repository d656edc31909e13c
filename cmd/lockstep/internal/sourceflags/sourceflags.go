// Package sourceflags reads the flags and the configuration that serve and publish share:
// which sets a Source has, from where, and where its state is.
package sourceflags

import (
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"lockstep/cmd/lockstep/internal/config"
	"lockstep/cmd/lockstep/internal/hubflags"
	"lockstep/cmd/lockstep/internal/network"
	"lockstep/cmd/lockstep/internal/origins"
	"lockstep/cmd/lockstep/internal/site"
	"lockstep/cmd/lockstep/internal/stateplace"
	"lockstep/cmd/lockstep/internal/term"
	"lockstep/intake/dir"
)

// Source are the flags serve and publish share.
type Source struct {
	network      network.Options
	BaseURL      string
	title        string
	description  string
	state        string
	State        stateplace.Place // once it is settled
	contents     string
	config       string
	hash         []string
	include      []string
	exclude      []string
	uri          string
	dump         bool
	gzip         bool
	gzipGiven    bool
	apiTokenFile string
	hidden       bool
	allowEmpty   bool
	takeOver     bool
	scanInterval time.Duration
	rehashText   string
	rehash       float64 // share of the files in a day
	watch        bool
	noWatch      bool
	Hubs         hubflags.Hubs
	atom         config.AtomFlags

	Sets []config.Set // from the configuration file, or the one that is the argument
	File config.File
}

// Certificates returns the certificates to trust; nil: those of the system.
func (o *Source) Certificates() (*x509.CertPool, error) { return o.network.Certificates() }

// rehashDefault is how many percent of the files are read again in a day.
const rehashDefault = "1%"

// Declare declares the flags; what differs between the commands is given.
func (o *Source) Declare(flags *pflag.FlagSet, baseURL string, watch bool) {
	flags.StringVar(&o.BaseURL, "base-url", "", baseURL)
	flags.StringVar(&o.title, "title", "", "the title of the collection is `TEXT`, on pages, in feeds and for harvesters")
	flags.StringVar(&o.description, "description", "", "what the collection contains is `TEXT`, or at that URL")
	flags.StringVar(&o.state, "state", "", "keep what is known of the resources in `DIR`, or in a PostgreSQL database, postgres://… (default one per directory below ~/.local/state/lockstep)")
	flags.StringVar(&o.contents, "contents", "", "keep what versions, patches and Change Dumps need of contents in the directory or bucket `PLACE` (default in the state directory; needed if the state is in a database)")
	flags.StringVar(&o.config, "config", "", "read configuration from `FILE` (YAML); flags overrule it")
	flags.StringSliceVar(&o.hash, "hash", []string{"sha-256", "md5"}, "`NAMES` of the hashes to publish; of what is not a file, read it for them")
	flags.StringArrayVar(&o.include, "include", nil, "publish only files and objects that match `GLOB` (repeatable; ** is any number of directories)")
	flags.StringArrayVar(&o.exclude, "exclude", nil, "leave out files, directories and objects that match `GLOB` (repeatable; wins over --include)")
	flags.BoolVar(&o.hidden, "hidden", false, "also publish files and directories whose names begin with a dot; --hidden=false does not (default: as before; a new state leaves them out)")
	flags.StringVar(&o.uri, "uri", "", "the `URL` that the URIs of the resources begin with, if it is not the base URL")
	flags.BoolVar(&o.dump, "dump", false, "also publish dumps: all resources and all changes as ZIP files")
	flags.BoolVar(&o.gzip, "gzip", false, "also write a compressed variant of every document, for web servers that serve those (default when publish writes into a directory)")
	flags.StringVar(&o.apiTokenFile, "api-token-file", "", "clients with the token in `FILE` may write to sets from api:")
	flags.BoolVar(&o.allowEmpty, "allow-empty", false, "accept that a set is suddenly empty: publish the deletion of everything")
	flags.BoolVar(&o.takeOver, "take-over", false, "replace documents that another state directory has published there, and restart their history")
	flags.DurationVar(&o.scanInterval, "scan-interval", dir.DefaultScanInterval, "scan everything again after this `DURATION`, to find changes that were not reported; 0 never; buckets and sitemaps more often by default")
	flags.StringVar(&o.rehashText, "rehash", rehashDefault, "read `PERCENT` of the files again in a day, to find damage of disk and catalog; 0 none")
	flags.BoolVar(&o.watch, "watch", watch, "watch for changes and publish them at once")
	flags.BoolVar(&o.noWatch, "no-watch", false, "do not watch for changes")
	o.Hubs.Declare(flags, watch)
	o.atom.Declare(flags)
	o.network.Declare(flags, "the sitemap's host, or that of the set's URIs")
}

// ConfigFile returns the path of the configuration file; "" if there is none.
func (o *Source) ConfigFile() string { return o.config }

// Watching reports whether the command continues after the first publication.
func (o *Source) Watching() bool { return o.watch && !o.noWatch }

// Settle fills in what flags and environment leave open: from the
// configuration file, then from defaults.
func (o *Source) Settle(flags *pflag.FlagSet, args []string, lookup func(string) (string, bool)) error {
	given := func(name string) bool { return flags.Changed(name) } // by the file, too, once it is read
	typed := config.OnCommandLine(flags, lookup)
	overrule := overruled{hash: given("hash"), include: given("include"), exclude: given("exclude"), dump: given("dump")}
	if o.config != "" {
		var err error
		if o.File, err = config.Read(o.config); err != nil {
			return err
		}
		if err := config.FlagsFromFile(flags, o.config, o.File.FlagValues()); err != nil {
			return err
		}
	}
	if err := config.CheckTitle(o.title, o.description); err != nil {
		return term.Usage(err, term.HintOf(err))
	}
	if err := o.settleSets(args, overrule); err != nil {
		return err
	}
	if given("hidden") {
		o.settleHidden()
	}
	if err := o.settleState(lookup); err != nil {
		return err
	}
	if err := o.Hubs.Settle(); err != nil {
		return err
	}
	if err := config.RefuseUnmet(typed, o.needs(flags)...); err != nil {
		return err
	}
	share, err := config.ParseShare(o.rehashText)
	if err != nil {
		return term.Usage(fmt.Errorf("--rehash %w", err), term.HintOf(err))
	}
	o.rehash = float64(share)
	if o.scanInterval < 0 {
		return term.Usagef("--scan-interval must not be below 0")
	}
	o.gzipGiven = given("gzip")
	if !given("scan-interval") {
		o.scanInterval = 0
	} else {
		o.scanInterval = origins.Interval(o.scanInterval)
	}
	return nil
}

// needs returns what flags need, in order not to do nothing. The flags of serve are those of
// a process that watches by default, and can be a hub itself.
func (o *Source) needs(flags *pflag.FlagSet) []config.Need {
	isAPI := func(c config.Set) bool { return c.Origin.Kind.Scheme == "api" }
	needs := []config.Need{
		{Flags: []string{"hub-token-file"}, Of: "--hub URL", Met: len(o.Hubs.Elsewhere()) > 0},
		{Flags: []string{"api-token-file"}, Of: "an api: set", Met: slices.ContainsFunc(o.Sets, isAPI)},
		{Flags: []string{"watch"}, Not: "--no-watch", Met: !o.watch || !o.noWatch},
	}
	if !o.Hubs.CanEmbed() {
		return append(needs, config.Need{Flags: []string{"scan-interval", "notify-delay"}, Of: "--watch", Met: o.Watching()})
	}
	hub := config.Need{Not: "--hub off", Met: !slices.Contains(o.Hubs.URLs, hubflags.Off)}
	flags.VisitAll(func(f *pflag.Flag) {
		if strings.HasPrefix(f.Name, "hub-") && !strings.HasPrefix(f.Name, "hub-token") {
			hub.Flags = append(hub.Flags, f.Name)
		}
	})
	offersOAI := func(c config.Set) bool { return c.OffersOAI() }
	oai := config.Need{Flags: []string{"oai-name", "oai-admin", "oai-sets"}, Of: "--oai-pmh", Met: flags.Lookup("oai-pmh").Value.String() == "true" || slices.ContainsFunc(o.Sets, offersOAI)}
	return append(append(needs, hub, oai), config.Needs(flags, "access-log-format access-log", "failure-after on-failure ping-url")...)
}

// overruled holds which keys of a set are overridden by a flag or a variable.
type overruled struct{ hash, include, exclude, dump bool }

// settleSets determines the sets, and fills in what they leave open.
func (o *Source) settleSets(args []string, by overruled) error {
	o.Sets = o.File.Sets
	switch {
	case len(args) > 0 && len(o.Sets) > 0:
		return term.Usage(term.Usagef("%s: %s has sets of its own", args[0], o.config), "give either DIR or sets in the configuration")
	case len(o.Sets) > 0 && o.uri != "":
		return term.Usage(term.Usagef("--uri: %s has sets of its own", o.config), "write uri: "+o.uri+" into the set it is for")
	case len(o.Sets) == 0 && len(args) == 0 && len(o.File.Mirrors) > 0:
		return term.Usage(fmt.Errorf("%s has mirrors, and no sets to publish", o.config), "lockstep sync --config "+o.config+" or lockstep follow --config "+o.config+" keeps its mirrors in step; to publish a directory, too, give DIR")
	case len(o.Sets) == 0 && len(args) == 0 && o.config != "":
		return term.Usage(fmt.Errorf("%s has no sets to publish", o.config), "write sets: - from: dir:/srv/files, or give DIR (. for the working directory)")
	case len(o.Sets) == 0:
		place := "."
		if len(args) > 0 {
			place = args[0]
		}
		from, err := config.ParseArgument(place)
		if err != nil {
			return err
		}
		for _, f := range []struct {
			name  string
			given bool
		}{{"hash", by.hash}, {"include", by.include}, {"exclude", by.exclude}} {
			if f.given && !slices.Contains(from.Kind.Keys, f.name) {
				return term.Usagef("--%s does not apply to resources from %s", f.name, from)
			}
		}
		o.Sets = []config.Set{{From: from.String(), URI: o.uri, Origin: from}}
	}
	for i := range o.Sets {
		s := &o.Sets[i]
		s.HashesGiven = by.hash || o.File.Hash != nil || len(s.Hash) > 0
		for _, l := range []struct {
			own    *config.StringList
			common []string
			win    bool
		}{{&s.Hash, o.hash, by.hash}, {&s.Include, o.include, by.include}, {&s.Exclude, o.exclude, by.exclude}} {
			if l.win || len(*l.own) == 0 {
				*l.own = l.common
			}
		}
		s.SettleDumps(o.dump, by.dump)
		if o.atom.Atom && s.AtomPMH == nil {
			s.AtomPMH = &config.Atom{}
		}
		if err := s.CheckArchive(); err != nil && !by.dump {
			return term.Usage(fmt.Errorf("set %s: %w", s.Label(i), err), term.HintOf(err))
		}
	}
	return nil
}

// settleHidden has each directory that does not say whether its hidden files are published
// do as the flag says.
func (o *Source) settleHidden() {
	for i := range o.Sets {
		if s := &o.Sets[i]; s.Hidden == nil && s.Origin.Dir() != "" {
			s.Hidden = &o.hidden
		}
	}
}

// settleState determines where the state is.
func (o *Source) settleState(lookup func(string) (string, bool)) (err error) {
	if o.state == "" {
		if o.state, err = o.defaultState(lookup); err != nil {
			return err
		}
	}
	o.State, err = stateplace.Parse(o.state, lookup)
	return err
}

// defaultState returns the default state directory: one per argument, or per
// configuration file that has sets.
func (o *Source) defaultState(lookup func(string) (string, bool)) (string, error) {
	if len(o.File.Sets) > 0 {
		return config.DefaultState(o.config, true, lookup)
	}
	from := o.Sets[0].Origin
	if dir := from.Dir(); dir != "" {
		return config.DefaultState(dir, true, lookup)
	}
	state, err := config.DefaultState(from.String(), false, lookup)
	if err == nil && from.WithoutUser() != from.Place {
		err = renameState(from, state, lookup)
	}
	return state, err
}

// renameState gives the state of a place whose address has a password the name
// without it: older versions had it in the name.
func renameState(from config.Address, state string, lookup func(string) (string, bool)) error {
	old, err := config.DefaultState(from.Kind.Scheme+":"+from.Kind.After+from.Place, false, lookup)
	if err != nil {
		return err
	}
	if _, err := os.Stat(state); !errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err := os.Rename(old, state); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("rename the state directory: %w", errors.Unwrap(err)) // which does not name it
	}
	return nil
}

// Compresses reports whether to write compressed variants of documents; usual is the
// default.
func (o *Source) Compresses(usual bool) bool {
	if o.gzipGiven {
		return o.gzip
	}
	return usual
}

// Site returns what openSite needs to know.
func (o *Source) Site(command string, out *term.Options, io term.IO) site.Options {
	return site.Options{
		BaseURL: o.BaseURL, Title: o.title, Description: o.description, Sets: o.Sets, State: o.State, Contents: o.contents, AllowEmpty: o.allowEmpty, TakeOver: o.takeOver, ScanInterval: o.scanInterval, Rehash: o.rehash,
		Watching: o.Watching(), Gzip: o.Compresses(false), APITokenFile: o.apiTokenFile, Hubs: o.Hubs, Network: &o.network, IO: io, Command: command, Log: out.Logger(io), Verbose: out.Verbose,
	}
}

// Places names where the resources of a site come from, for people.
func (o *Source) Places() string {
	var names []string
	for _, s := range o.Sets {
		names = append(names, s.Origin.Name())
	}
	return strings.Join(names, ", ")
}
