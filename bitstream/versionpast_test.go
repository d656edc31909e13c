package bitstream_test

import (
	"context"
	"crypto/sha256"
	"io"
	"io/fs"
	"strings"
	"time"

	"lockstep/bitstream"
	"lockstep/blob"
	"lockstep/catalog"
	"lockstep/memento"
	"lockstep/resourcesync"
	"lockstep/vault"
)

// A past is a set with versions, filled by the test: the content of a resource
// is in files, whatever an update says.
type past struct {
	t      tb
	inner  catalog.Catalog
	cat    catalog.Catalog
	index  memento.Store
	blobs  blob.Store
	vault  *vault.Vault
	keeper *bitstream.Keeper
	files  map[string]string
	now    time.Time // of versions; the catalog has the real one
	opts   bitstream.SetOptions
}

const versionBase = memento.Base("https://example.org/")

func newPast(t tb, change ...func(*past)) *past {
	t.Helper()
	p := &past{t: t, inner: catalog.NewMem(nil), index: memento.NewMem(), blobs: new(blob.Mem), files: make(map[string]string),
		now: time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)}
	p.opts = bitstream.SetOptions{
		Open:     func(_ context.Context, r *catalog.Record) (io.ReadCloser, error) { return p.open(r.URI) },
		Versions: &bitstream.VersionOptions{Base: versionBase, Now: func() time.Time { return p.now }},
	}
	for _, f := range change {
		f(p)
	}
	p.restart()
	return p
}

// restart starts again with the stored state.
func (p *past) restart() {
	p.vault = vault.New(p.blobs, vault.Options{})
	p.keeper = bitstream.New(new(blob.Mem), bitstream.Options{Vault: p.vault, Index: p.index})
	p.cat = p.keeper.Catalog(p.inner, set, p.opts)
}

func (p *past) open(uri string) (io.ReadCloser, error) {
	text, ok := p.files[uri]
	if !ok {
		return nil, fs.ErrNotExist
	}
	return io.NopCloser(strings.NewReader(text)), nil
}

func (p *past) mark() catalog.Mark {
	p.t.Helper()
	m, err := p.cat.Mark(context.Background(), set)
	must(p.t, err)
	return m
}

// put sets the content of a file and returns the update for it.
func (p *past) put(name, text string, lastmod time.Time) catalog.Update {
	uri := base + name
	p.files[uri] = text
	return catalog.Update{Record: catalog.Record{URI: uri, Lastmod: lastmod, Length: int64(len(text)), Type: "text/plain",
		Hashes: resourcesync.Hashes{{Algorithm: resourcesync.SHA256, Digest: digestOf(text)}}, Token: text}}
}

func digestOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return string(sum[:])
}

func (p *past) gone(name string) catalog.Update {
	delete(p.files, base+name)
	return catalog.Update{Record: catalog.Record{URI: base + name}, Deleted: true}
}

func (p *past) apply(us ...catalog.Update) catalog.Applied {
	p.t.Helper()
	a, err := p.cat.Apply(context.Background(), set, us)
	must(p.t, err)
	return a
}

func (p *past) record(name string) *catalog.Record {
	p.t.Helper()
	for r, err := range p.inner.Resources(context.Background(), set, catalog.Range{From: base + name}) {
		must(p.t, err)
		if r.URI == base+name {
			return &r
		}
		break
	}
	return nil
}

// versions returns the index's rows of a resource.
func (p *past) versions(name string) []memento.Version {
	p.t.Helper()
	var all []memento.Version
	for v, err := range p.index.List(context.Background(), base+name, time.Time{}) {
		must(p.t, err)
		all = append(all, v)
	}
	return all
}

// story describes the versions of a resource: the first digit of the digest's
// text, or that it does not exist.
func (p *past) story(name string) string {
	p.t.Helper()
	var words []string
	var before time.Time
	for _, v := range p.versions(name) {
		if !v.At.After(before) {
			p.t.Errorf("%s: version at %v after one at %v", name, v.At, before)
		}
		before = v.At
		switch {
		case v.Gone && v.Length < 0:
			words = append(words, "unkept")
		case v.Gone:
			words = append(words, "gone")
		default:
			words = append(words, p.text(v))
		}
	}
	return strings.Join(words, " ")
}

// text returns the bytes of a version.
func (p *past) text(v memento.Version) string {
	p.t.Helper()
	c, err := p.keeper.OpenVersion(context.Background(), v)
	must(p.t, err)
	defer c.Close()
	data, err := io.ReadAll(c)
	must(p.t, err)
	if sum := sha256.Sum256(data); sum != v.Digest || int64(len(data)) != v.Length {
		p.t.Errorf("version %v of %s has other bytes than its digest", v.At, v.URI)
	}
	return string(data)
}

// check checks the invariants: every version that a record or change names is
// correct and available (ME-RS-02, ME-RS-03).
func (p *past) check() {
	p.t.Helper()
	look := func(r *catalog.Record) {
		l := catalog.Memento(r.Links)
		if l == nil {
			return
		}
		at := l.Modified.Time()
		if l.Href != versionBase.Memento(r.URI, at) || l.Length != r.Length || l.Type != r.Type {
			p.t.Errorf("%s has the link %+v, record %+v", r.URI, l, r)
		}
		for _, v := range p.versions(strings.TrimPrefix(r.URI, base)) {
			if v.At.Equal(at) && !v.Gone {
				if p.text(v); string(v.Digest[:]) != r.Hashes.Get(resourcesync.SHA256) {
					p.t.Errorf("%s names a version with other bytes", r.URI)
				}
				return
			}
		}
		p.t.Errorf("%s names a version that is not there: %v", r.URI, at)
	}
	for r, err := range p.inner.Resources(context.Background(), set, catalog.Range{}) {
		must(p.t, err)
		look(&r)
	}
	for c, err := range p.inner.Changes(context.Background(), set, 0) {
		must(p.t, err)
		if look(&c.Record); c.Change == resourcesync.Deleted && len(c.Links) > 0 { // ME-RS-06
			p.t.Errorf("deletion %d has links", c.Seq)
		}
	}
}
