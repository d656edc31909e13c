package main

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"

	"lockstep/cmd/lockstep/internal/config"
	"lockstep/cmd/lockstep/internal/hubflags"
	"lockstep/cmd/lockstep/internal/hubserver"
	"lockstep/cmd/lockstep/internal/term"
	"lockstep/internal/statedir"
	"lockstep/internal/trust"
	"lockstep/source"
)

// anyBase stands for the base URL of a Source that takes it from the port it will
// listen at.
const anyBase = "http://127.0.0.1/"

// check reports mistakes in the configuration, and files and directories that are
// missing or cannot be read. It opens no port and creates nothing.
func (o *siteOptions) check() error {
	if err := checkPlaces(*o); err != nil {
		return err
	}
	if err := o.checkOAI(); err != nil {
		return err
	}
	base := o.baseURL
	if base == "" {
		base = anyBase
	}
	for i := range o.sets {
		if err := checkSet(&o.sets[i], base); err != nil {
			return err
		}
	}
	if o.apiTokenFile != "" && slices.ContainsFunc(o.sets, func(c config.Set) bool { return c.Origin.Kind.Scheme == "api" }) {
		if _, err := trust.ReadTokens(o.apiTokenFile); err != nil {
			return term.Usage(fmt.Errorf("--api-token-file: %w", err), "")
		}
	}
	for _, hub := range o.hubs.Elsewhere() {
		if _, _, err := o.hubs.Token(hub); err != nil {
			return err
		}
		if _, err := o.network.HubClient(); err != nil {
			return err
		}
	}
	return o.checkEmbedding(base)
}

// checkSet checks what can be known of a set before it is opened.
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
	_, err := algorithms(c.Hash)
	return err
}

// checkEmbedding checks the settings of administration, and of the embedded hub.
func (o *siteOptions) checkEmbedding(base string) error {
	if o.embedding == nil {
		return nil
	}
	if err := o.embedding.Flags.Check(); err != nil {
		return err
	}
	if !slices.Contains(o.hubs.URLs, hubflags.Embedded) {
		return nil
	}
	if _, err := o.embedding.hub.Options(base + hubserver.Path); err != nil {
		return err
	}
	return o.embedding.hub.CheckFiles()
}

// checkReadable reports a directory that cannot be listed.
func checkReadable(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return term.Usage(fmt.Errorf("read %s: %w", dir, errors.Unwrap(err)), "let this user read it")
	}
	return f.Close()
}

// lock creates the state directory and locks it. release may be called repeatedly.
func (o *siteOptions) lock() error {
	if err := statedir.Make(o.state, o.log); err != nil {
		return err
	}
	release, err := statedir.Lock(o.state, o.command)
	if err == nil {
		o.release = sync.OnceFunc(release)
	}
	return err
}
