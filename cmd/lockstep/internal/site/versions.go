package site

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"lockstep/bitstream"
	"lockstep/blob"
	"lockstep/catalog"
	"lockstep/cmd/lockstep/internal/config"
	"lockstep/cmd/lockstep/internal/sourcereport"
	"lockstep/cmd/lockstep/internal/term"
	"lockstep/memento"
	"lockstep/source"
	"lockstep/vault"
)

// Where prior versions are stored, in the state directory: their bytes, and a
// file that lists the sets that keep versions, or did. The database lists the
// versions, next to the catalog.
const (
	versionsPlace = "versions"
	versionsFile  = "versions.json"
)

// A versionsMark is what is remembered of the versions of a set, under its name
// in the catalog.
type versionsMark struct {
	Complete bool        `json:"complete,omitempty"` // each resource had one when that was looked at last
	Ended    *time.Time  `json:"ended,omitempty"`    // since when none are kept any more
	EndedSeq catalog.Seq `json:"ended_seq,omitempty"`
}

// A versionsKeeping is the part of a site that keeps prior versions.
type versionsKeeping struct {
	blobs *blob.Dir // their bytes; nil: no set keeps any, and none did
	index memento.Store
	path  string
	marks map[string]versionsMark
	tally versionsTally
}

// keepsVersions reports whether a set keeps prior versions.
func (o *Options) keepsVersions() bool {
	return slices.ContainsFunc(o.Sets, func(c config.Set) bool { return c.Versions != nil })
}

// openVersions opens the place of prior versions, if a set keeps some, or did.
func (s *Site) openVersions() error {
	if err := s.opts.checkVersions(); err != nil {
		return err
	}
	v := &s.versions
	v.path = filepath.Join(s.opts.State, versionsFile)
	text, err := os.ReadFile(v.path)
	if err == nil {
		err = json.Unmarshal(text, &v.marks)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read %s: %w", v.path, err)
	}
	if len(v.marks) == 0 && !s.opts.keepsVersions() {
		return nil
	}
	if v.blobs, err = blob.NewDir(filepath.Join(s.opts.State, versionsPlace), blob.DirOptions{Private: true}); err != nil {
		return fmt.Errorf("open the place for prior versions: %w", err)
	}
	v.index = s.db.Versions()
	return nil
}

// vault returns what keeps the bytes of versions, or nil.
func (s *Site) vault() *vault.Vault {
	if s.versions.blobs == nil {
		return nil
	}
	compress := slices.ContainsFunc(s.opts.Sets, func(c config.Set) bool { return c.Versions != nil && c.Versions.Compress })
	return vault.New(s.versions.blobs, vault.Options{Compress: compress, Logger: s.log})
}

// keepVersions says how versions of a set are kept, and has its Source offer them;
// nil: it keeps none, and did not.
func (s *Site) keepVersions(set *siteSet, c *config.Set) (*bitstream.VersionOptions, error) {
	_, did := s.versions.marks[set.list]
	if c.Versions == nil && !did {
		return nil, nil
	}
	base, err := source.BaseURL(s.opts.BaseURL)
	if err != nil {
		return nil, term.Usage(err, "")
	}
	o := &bitstream.VersionOptions{Base: memento.Base(base), Ending: c.Versions == nil}
	set.versions = o
	if s.opts.Content {
		set.source.Versions = &source.Versions{Store: s.versions.index, Open: s.keeper.OpenVersion, Ending: o.Ending}
	}
	return o, nil
}

// leaveRoom has a set leave out what lies where prior versions are offered.
func (s *Site) leaveRoom(set *siteSet, c *config.Set) error {
	if s.versions.blobs == nil || set.source.Elsewhere || c.Origin.Kind.Away {
		return nil
	}
	names, err := versionPlaces(set.source.Path)
	if err != nil {
		return term.Usage(fmt.Errorf("set %s: %w", set.name, err), term.HintOf(err))
	}
	for _, name := range names {
		if _, err := os.Lstat(filepath.Join(c.Origin.Dir(), name)); err == nil && c.Origin.Dir() != "" {
			s.opts.IO.Errorf("note: %s is passed over: prior versions are found below that address\n", filepath.Join(c.Origin.Dir(), name))
		}
	}
	c.Exclude = append(slices.Clone(c.Exclude), names...)
	return nil
}

// mark remembers something of the versions of a set; nil: nothing.
func (v *versionsKeeping) mark(set string, m *versionsMark) error {
	if v.marks == nil {
		v.marks = make(map[string]versionsMark)
	}
	if m == nil {
		delete(v.marks, set)
	} else {
		v.marks[set] = *m
	}
	text, err := json.MarshalIndent(v.marks, "", "\t")
	if err == nil {
		err = writeDurably(v.path, append(text, '\n'))
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", v.path, err)
	}
	return nil
}

// beginVersions notes which sets keep versions, before any is kept, and takes back
// the links to those of sets that keep none any more.
func (s *Site) beginVersions(ctx context.Context) error {
	for _, set := range s.sets {
		if set.versions == nil {
			continue
		}
		m, known := s.versions.marks[set.list]
		switch {
		case !set.versions.Ending && (!known || m.Ended != nil):
			if err := s.versions.mark(set.list, &versionsMark{}); err != nil {
				return err
			}
		case set.versions.Ending && m.Ended == nil:
			if err := s.withdrawVersions(ctx, set); err != nil {
				return err
			}
		}
	}
	return nil
}

// withdrawVersions takes back the links to the versions of a set.
func (s *Site) withdrawVersions(ctx context.Context, set *siteSet) error {
	a, err := s.keeper.Withdraw(ctx, set.list, nil)
	if err != nil {
		return fmt.Errorf("withdraw the prior versions of set %s: %w", set.name, err)
	}
	st, err := s.db.Catalog().Status(ctx, set.list)
	if err != nil {
		return err
	}
	s.log.InfoContext(ctx, "prior versions are kept no more", slog.String("set", set.name), slog.Int64("entries", a.Changed))
	now := time.Now().UTC()
	return s.versions.mark(set.list, &versionsMark{Ended: &now, EndedSeq: st.Last})
}

// adoptVersions keeps a version of every resource that was there before versions
// were kept. What cannot be kept now is tried again later, and no reason not to
// publish.
func (s *Site) adoptVersions(ctx context.Context, n *sourcereport.Reporter) {
	for _, set := range s.sets {
		if set.versions == nil || set.versions.Ending || s.versions.marks[set.list].Complete && !s.keeper.Missing(set.list) {
			continue
		}
		a, err := s.keeper.Adopt(ctx, set.list, func(a bitstream.Adoption) { n.Adopting(a.Changed) })
		n.Adopting(0)
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			err = s.versions.mark(set.list, &versionsMark{Complete: a.Missing == 0})
		}
		if err == nil && a.Missing > 0 {
			err = fmt.Errorf("set %s: of %s no version can be kept now; it is tried again", set.name, term.Count(a.Missing, "resource"))
		}
		if err != nil {
			n.Warn(err)
		}
	}
}

// checkVersions refuses versions that could not be served.
func (o *Options) checkVersions() error {
	for i := range o.Sets {
		if c := &o.Sets[i]; c.Versions != nil && !o.Content {
			return term.Usage(fmt.Errorf("set %s: versions: files cannot offer prior versions, only a program that answers", c.Label(i)),
				"use lockstep serve, or leave versions out")

		}
	}
	return nil
}

// versionPlaces returns what a set below the base URL must leave out: names at
// which versions are offered.
func versionPlaces(path string) ([]string, error) {
	if memento.Contains(path) {
		return nil, term.WithHint(fmt.Errorf("below %s there are prior versions", strings.SplitAfterN(path, "/", 2)[0]), "give the set another uri")
	}
	if path != "" {
		return nil, nil
	}
	var names []string
	for _, prefix := range []string{memento.VersionsPrefix, memento.TimeGatePrefix, memento.TimeMapPrefix} {
		names = append(names, "/"+strings.TrimSuffix(prefix, "/"))
	}
	return names, nil
}
