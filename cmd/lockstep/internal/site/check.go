package site

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"

	"lockstep/cmd/lockstep/internal/config"
	"lockstep/cmd/lockstep/internal/hubflags"
	"lockstep/cmd/lockstep/internal/hubserver"
	"lockstep/cmd/lockstep/internal/origins"
	"lockstep/cmd/lockstep/internal/term"
	"lockstep/cmd/lockstep/internal/versions"
	"lockstep/internal/statedir"
	"lockstep/internal/trust"
	"lockstep/source"
)

// anyBase is a placeholder for the base URL of a Source whose base URL depends
// on the port that it will listen at.
const anyBase = "http://127.0.0.1/"

// Check reports mistakes in the configuration, and files and directories that are
// missing or cannot be read. It opens no port and creates nothing.
func (o *Options) Check() error {
	if err := checkPlaces(*o); err != nil {
		return err
	}
	if err := o.checkStores(); err != nil {
		return err
	}
	if err := o.checkOAI(); err != nil {
		return err
	}
	if err := o.checkDatabase(); err != nil {
		return err
	}
	if err := o.checkReaders(); err != nil {
		return err
	}
	base := o.BaseURL
	if base == "" {
		base = anyBase
	}
	for i := range o.Sets {
		if err := checkSet(&o.Sets[i], base); err != nil {
			return err
		}
		if err := o.checkStore(&o.Sets[i]); err != nil {
			return err
		}
	}
	if o.APITokenFile != "" && slices.ContainsFunc(o.Sets, func(c config.Set) bool { return c.Origin.Kind.Scheme == "api" }) {
		if _, err := trust.ReadTokens(o.APITokenFile); err != nil {
			return term.Usage(fmt.Errorf("--api-token-file: %w", err), "")
		}
	}
	for _, hub := range o.Hubs.Elsewhere() {
		if _, _, err := o.Hubs.Token(hub); err != nil {
			return err
		}
		if _, err := o.Network.HubClient(o.Log); err != nil {
			return err
		}
	}
	return o.checkEmbedding(base)
}

// checkSet checks the configuration of a set before it is opened.
func checkSet(c *config.Set, base string) error {
	name := c.Name
	if name == "" {
		name = source.DefaultSet
	}
	if _, err := source.CapabilityListURI(base, name); err != nil {
		return term.Usage(err, "")
	}
	if _, err := c.LinkRules(); err != nil {
		return term.Usagef("set %s: %w", name, err)
	}
	_, err := origins.Hashes(c.Hash)
	return err
}

// checkStore rejects, in commands that only write files, an upstream whose resources
// would be stored where no web server finds them.
func (o *Options) checkStore(c *config.Set) error {
	if o.Content || c.Origin.Kind.Scheme != "resourcesync" || c.InPlace() {
		return nil
	}
	if !slices.Contains(c.Stores(), "") {
		return nil
	}
	return term.Usage(fmt.Errorf("%s: where its resources are stored for the web server is not configured", c.Origin),
		"write store: DIR into the configuration file, a directory that the web server serves at the uri of the set; or use lockstep serve")
}

// checkStores checks that no two mirrors have the same store.
func (o *Options) checkStores() error {
	used := map[string]string{}
	check := func(store, upstream string) error {
		if store == "" {
			return nil
		}
		place := strings.TrimRight(store, "/")
		if other, ok := used[place]; ok {
			return term.Usage(fmt.Errorf("store %s is that of two upstreams: %s and %s", store, other, upstream), "give each upstream a store of its own")
		}
		used[place] = upstream
		return nil
	}
	for i := range o.Sets {
		c := &o.Sets[i]
		if len(c.Upstreams) == 0 {
			if err := check(c.Store, c.Origin.String()); err != nil {
				return err
			}
		}
		for j := range c.Upstreams {
			if err := check(c.Upstreams[j].Store, c.Upstreams[j].Origin.String()); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkEmbedding checks the settings of administration, and of the embedded hub.
func (o *Options) checkEmbedding(base string) error {
	if o.Embedding == nil {
		return nil
	}
	if err := o.Embedding.Admin.Check(); err != nil {
		return err
	}
	if _, err := o.Embedding.Hub.Proxies(); err != nil {
		return err
	}
	if !slices.Contains(o.Hubs.URLs, hubflags.Embedded) {
		return nil
	}
	if _, err := o.Embedding.Hub.Options(base + hubserver.Path); err != nil {
		return err
	}
	return o.Embedding.Hub.CheckFiles()
}

// checkVersions rejects sets that keep versions in commands that only write files.
func (o *Options) checkVersions() error {
	if o.Content {
		return nil
	}
	return versions.CheckFiles(o.Sets)
}

// checkReadable reports a directory that cannot be listed.
func checkReadable(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return term.Usage(fmt.Errorf("read %s: %w", dir, errors.Unwrap(err)), "let this user read it")
	}
	return f.Close()
}

// maxShared is how many processes on one machine can share a state.
const maxShared = 100

// Lock creates the state directory and locks it. Of processes that share a state in a database,
// each has a directory of its own: the first that is free. Release may be called repeatedly.
func (o *Options) Lock() error {
	dir := o.State.Dir
	for n := 2; ; n++ {
		if err := statedir.Make(o.State.Dir, o.Log); err != nil {
			return err
		}
		release, err := statedir.Lock(o.State.Dir, o.Command)
		if err == nil {
			o.Release = sync.OnceFunc(release)
		}
		if !o.State.IsShared() || !errors.Is(err, statedir.ErrInUse) || n > maxShared {
			return err
		}
		o.State.Dir = fmt.Sprintf("%s-%d", dir, n)
	}
}
