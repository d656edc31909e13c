package site

import (
	"fmt"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"lockstep/bitstream"
	"lockstep/catalog"
	"lockstep/cmd/lockstep/internal/config"
	"lockstep/cmd/lockstep/internal/term"
	"lockstep/intake"
	"lockstep/intake/dir"
	"lockstep/source"
)

// A siteSet is one set of a site.
type siteSet struct {
	name   string
	list   string // URI of its Capability List, and its name in the catalog
	later  bool   // what it comes from may have no end: it is read while we watch
	from   config.Address
	origin origin
	source source.Set

	rehasher *dir.Rehasher // nil: nothing is read again
	damage   atomic.Bool   // was found since it was looked for last

	versions *bitstream.VersionOptions // nil: it keeps none
}

// newSet makes the set a configuration describes, which fills inner, and returns
// the catalog as those after it are to see it.
func (s *Site) newSet(c *config.Set, inner catalog.Catalog) (*siteSet, catalog.Catalog, error) {
	set := &siteSet{name: c.Name, from: c.Origin}
	if set.name == "" {
		set.name = source.DefaultSet
	}
	var err error
	if set.list, err = source.CapabilityListURI(s.opts.BaseURL, set.name); err != nil {
		return nil, nil, term.Usage(err, "")
	}
	set.source = source.Set{
		Name: set.name, Description: c.Description,
		ChangeList: source.ChangeList{
			Rotate: time.Duration(c.ChangeList.Rotate), Entries: int(c.ChangeList.Entries), Keep: time.Duration(c.ChangeList.Keep),
		},
	}
	if d := c.ResourceDump; d != nil {
		set.source.ResourceDump = &source.ResourceDump{
			Every: time.Duration(d.Every), Keep: int(d.Keep), PackageBytes: int64(d.PackageSize), PackageEntries: int(d.PackageCount),
		}
	}
	if d := c.ChangeDump; d != nil {
		set.source.ChangeDump = &source.ChangeDump{
			Every: time.Duration(d.Every), PackageBytes: int64(d.PackageSize), PackageEntries: int(d.PackageCount),
		}
	}
	set.source.Archive, set.source.Atom = c.Archive.Archive(s.opts.Watching), c.AtomPMH.Atom()
	if c.OffersOAI() {
		set.source.OAI = oaiAddress(s.opts.BaseURL)
	}
	set.later = s.opts.Watching && c.Origin.Place == config.Stdin
	uri, err := set.locate(c, s.opts.BaseURL)
	if err != nil {
		return nil, nil, err
	}
	if set.source.Links, err = c.LinkRules(); err != nil {
		return nil, nil, term.Usagef("set %s: %w", set.name, err)
	}
	if err := s.leaveRoom(set, c); err != nil {
		return nil, nil, err
	}
	cat, err := s.keeping(inner, set, c)
	if err != nil {
		return nil, nil, err
	}
	way := &wayIn{
		Address: c.Origin, site: s, config: c, uri: uri, name: set.name, set: set.list, catalog: cat,
		interval: s.opts.ScanInterval, allowEmpty: s.opts.AllowEmpty,
	}
	if c.ScanInterval != nil {
		way.interval = Interval(time.Duration(*c.ScanInterval))
	}
	if way.hashes, err = algorithms(c.Hash); err != nil {
		return nil, nil, err
	}
	way.onEvent = func(e intake.Event) {
		again := s.upstreams.Note(set.name, &e)
		if s.opts.OnEvent != nil && !s.upstreams.IsRepeated(set.name, &e, time.Now()) {
			s.opts.OnEvent(set.name, e)
		}
		if again != "" && s.opts.IO.Err != nil {
			s.opts.IO.Errorf("note: %s\n", again)
		}
	}
	if set.origin, err = openOrigin(way); err != nil {
		return nil, nil, term.Usage(fmt.Errorf("set %s: %w", set.name, err), term.HintOf(err))
	}
	set.rehasher = s.rehasher(set, way)
	return set, cat, s.openBytes(set, way)
}

// locate determines the prefix of the set's URIs, and its path below the base
// URL, if it is there.
func (set *siteSet) locate(c *config.Set, baseURL string) (string, error) {
	base := strings.TrimSuffix(baseURL, "/") + "/"
	uri := base
	if c.URI != "" {
		uri = strings.TrimSuffix(c.URI, "/") + "/"
	}
	rest, below := strings.CutPrefix(uri, base)
	if !below || c.Origin.Kind.Away {
		set.source.Elsewhere, set.source.URI = true, uri
		return uri, nil
	}
	var err error
	if set.source.Path, err = url.PathUnescape(rest); err != nil {
		return "", term.Usagef("set %s: uri %s: %w", set.name, uri, err)
	}
	return uri, nil
}

// Interval converts a time between scans from the notation of flags, where 0
// means never, to that of the intake package.
func Interval(d time.Duration) time.Duration {
	if d == 0 {
		return -1
	}
	return d
}
