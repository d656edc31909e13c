package site

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"lockstep/bitstream"
	"lockstep/blob"
	"lockstep/catalog"
	"lockstep/cmd/lockstep/internal/config"
	"lockstep/intake"
	"lockstep/internal/fetch"
)

// keepBytes opens the store for the bytes of past representations, if a set
// needs it, or one did and its bytes are to be removed.
func (s *Site) keepBytes() error {
	path := filepath.Join(s.opts.State, "bitstreams")
	_, err := os.Stat(path)
	if err != nil && s.versions.blobs == nil && !slices.ContainsFunc(s.opts.Sets, func(c config.Set) bool { return c.KeepsBytes() }) {
		return nil
	}
	dir, err := blob.NewDir(path, blob.DirOptions{Private: true})
	if err != nil {
		return fmt.Errorf("open the place for bytes of changes: %w", err)
	}
	s.bytes, s.keeper = dir, bitstream.New(dir, bitstream.Options{Logger: s.log, Vault: s.vault(), Index: s.versions.index})
	return nil
}

// keeping returns the catalog to fill set from: cat, or if the bytes of its
// changes are needed, one that keeps them.
func (s *Site) keeping(cat catalog.Catalog, set *siteSet, c *config.Set) (catalog.Catalog, error) {
	versions, err := s.keepVersions(set, c)
	if err != nil || !c.KeepsBytes() && versions == nil {
		return cat, err
	}
	o := bitstream.SetOptions{
		Versions: versions,
		Open: func(ctx context.Context, r *catalog.Record) (io.ReadCloser, error) {
			return set.source.Bitstream(ctx, r)
		},
		Rescans: c.Origin.Kind.Rescans,
		Past:    c.ChangeDump != nil,
	}
	if c.Patches {
		o.Patches = &bitstream.PatchOptions{Put: func(ctx context.Context, mediaType string, patch []byte) (string, error) {
			return s.src.PutPatch(ctx, set.name, mediaType, patch)
		}}
	}
	if o.Past {
		set.source.Past = s.keeper.Open
	}
	return s.keeper.Catalog(cat, set.list, o), nil
}

// openBytes determines how representations of the set are opened: from the
// set's origin if that has them, otherwise with requests to the server that
// does. Such requests are made only to build dumps and patches, never because a
// client of ours asks for a resource.
func (s *Site) openBytes(set *siteSet, way *wayIn) error {
	b, ok := set.origin.(bitstreams)
	if way.Kind.Away && !way.config.OpensBytes() {
		return nil
	}
	if ok {
		set.source.Bitstream, set.source.Serve = b.Bitstream, !way.Kind.Away
		return nil
	}
	client, err := s.client(way.uri)
	if err != nil {
		return err
	}
	set.source.Bitstream = intake.NewWeb(client).Bitstream
	return nil
}

// client returns a client for what is at home, as the network flags describe
// it. It is closed with the site.
func (s *Site) client(home string) (*fetch.Client, error) {
	c, err := s.opts.Network.Client(home, s.opts.IO.LookupEnv, s.log)
	if err == nil {
		s.clients = append(s.clients, c)
	}
	return c, err
}
