package source_test

import (
	"archive/zip"
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"lockstep/catalog"
	"lockstep/resourcesync"
	"lockstep/source"
)

// A dumpWorld is a world whose resources have bitstreams: those of now, which
// may be other than is catalogued, and those of the past.
type dumpWorld struct {
	*world
	mu     sync.Mutex        // guards what follows
	now    map[string]string // by URI
	past   map[string]string // by URI and hash
	broken map[string]error  // by URI
	opened int
	onOpen func(uri string)
}

func newDumpWorld(t testing.TB, o source.Options, set source.Set) *dumpWorld {
	t.Helper()
	d := &dumpWorld{now: make(map[string]string), past: make(map[string]string), broken: make(map[string]error)}
	set.Bitstream = d.bitstream
	set.Past = d.kept
	o.Sets = []source.Set{set}
	if o.Temp == "" {
		o.Temp = t.TempDir()
	}
	d.world = newWorld(t, o)
	return d
}

func (d *dumpWorld) bitstream(_ context.Context, r *catalog.Record) (io.ReadCloser, error) {
	d.mu.Lock()
	d.opened++
	hook := d.onOpen
	d.mu.Unlock()
	if hook != nil {
		hook(r.URI)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.broken[r.URI]; err != nil {
		return nil, err
	}
	text, ok := d.now[r.URI]
	if !ok {
		return nil, fmt.Errorf("open %s: %w", r.URI, fs.ErrNotExist)
	}
	return io.NopCloser(strings.NewReader(text)), nil
}

func (d *dumpWorld) kept(_ context.Context, c *catalog.Change) (io.ReadCloser, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	text, ok := d.past[c.URI+" "+c.Hashes.Get(resourcesync.SHA256)]
	if !ok {
		return nil, fs.ErrNotExist
	}
	return io.NopCloser(strings.NewReader(text)), nil
}

// put is world.put, of catalog and bitstreams.
func (d *dumpWorld) put(words ...string) {
	d.Helper()
	for _, word := range words {
		name, content, put := strings.Cut(word, "=")
		d.write(d.opts.BaseURL+name, content, put)
		d.world.put(word)
	}
}

// write changes bitstreams behind the catalog's back.
func (d *dumpWorld) write(uri, content string, put bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.now, uri)
	if put {
		d.now[uri] = content
		sum := sha256.Sum256([]byte(content))
		d.past[uri+" "+string(sum[:])] = content
	}
}

func (d *dumpWorld) dump(s *source.Source) source.SetDumpReport {
	d.Helper()
	r, err := s.PublishDumps(context.Background())
	if err != nil {
		d.Fatal(err)
	}
	return r.Sets[0]
}

// A dumpCrawl is what a reader finds in a set's dumps.
type dumpCrawl struct {
	*crawl
	at, from time.Time
	until    time.Time         // of the last package of the Change Dump
	state    map[string]string // content by URI, as of the Resource Dump
	changes  []dumpChange
	packages []string // names, of both dumps
	lists    int      // parts of indexes
}

type dumpChange struct {
	uri, content string
	change       resourcesync.Change
	at           time.Time
	patch        string
}

// crawlDumps reads dumps as a strict reader does, and fails on everything that
// must never be: documents, packages and manifests that do not agree.
func crawlDumps(read func(name string) ([]byte, error)) (*dumpCrawl, error) {
	d := &dumpCrawl{crawl: &crawl{read: read}, state: make(map[string]string)}
	_, entries, err := d.document("resourcesync/main/capabilitylist.xml", resourcesync.CapabilityList)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		switch e.Capability {
		case resourcesync.ResourceDump:
			err = d.resourceDump(name(e.Loc))
		case resourcesync.ChangeDump:
			err = d.changeDump(name(e.Loc))
		}
		if err != nil {
			return nil, err
		}
	}
	return d, nil
}

func (d *dumpCrawl) resourceDump(doc string) error {
	h, entries, err := d.document(doc, resourcesync.ResourceDump)
	if err != nil {
		return err
	}
	d.at = h.At.Time()
	for _, part := range d.parts(h, entries) {
		ph := h
		pe := entries
		if part != nil {
			if ph, pe, err = d.document(name(part.Loc), resourcesync.ResourceDump); err != nil {
				return err
			}
			copied := part.Loc[:strings.LastIndex(part.Loc, "-list-")] + ".xml" // where the dump is archived
			if index := ph.Link("index"); ph.At != h.At || part.At != h.At || index != baseURL+doc && index != copied {
				return fmt.Errorf("%s: at %s, entry %s, index %s", part.Loc, ph.At, part.At, h.At)
			}
		}
		for _, e := range pe {
			mh, items, files, err := d.pkg(e, resourcesync.ResourceDumpManifest)
			if err != nil {
				return err
			}
			if mh.At.Compare(h.At) > 0 {
				return fmt.Errorf("%s: at %s, the dump's is %s", e.Loc, mh.At, h.At)
			}
			for _, it := range items {
				if _, twice := d.state[it.Loc]; twice {
					return fmt.Errorf("%s: %s is in a package already", e.Loc, it.Loc)
				}
				d.state[it.Loc] = files[it.Path]
			}
		}
	}
	return nil
}

// parts returns the parts of an index; nil stands for the document itself.
func (d *dumpCrawl) parts(h resourcesync.Header, entries []resourcesync.Entry) []*resourcesync.Entry {
	if !h.Index {
		return []*resourcesync.Entry{nil}
	}
	var parts []*resourcesync.Entry
	for i := range entries {
		parts = append(parts, &entries[i])
	}
	d.lists += len(parts)
	return parts
}

func (d *dumpCrawl) changeDump(doc string) error {
	h, entries, err := d.document(doc, resourcesync.ChangeDump)
	if err != nil {
		return err
	}
	if !h.Until.IsZero() {
		return fmt.Errorf("%s is closed", doc)
	}
	d.from = h.From.Time()
	until := h.From
	parts := d.parts(h, entries)
	for i, part := range parts {
		pe := entries
		if part != nil {
			var ph resourcesync.Header
			if ph, pe, err = d.document(name(part.Loc), resourcesync.ChangeDump); err != nil {
				return err
			}
			last := i == len(parts)-1
			if ph.From != until || part.From != until || part.Until.IsZero() != last || !last && part.Until != ph.Until || ph.Link("index") != baseURL+doc {
				return fmt.Errorf("%s: [%s, %s), entry says [%s, %s), want from %s", part.Loc, ph.From, ph.Until, part.From, part.Until, until)
			}
			if last && !ph.Until.IsZero() { // it was just closed; who follows it must find the next (RS-CHI-06)
				next := "resourcesync/main/changedump-list-" + ph.Until.Time().Format("20060102T150405.0000000Z") + ".xml"
				if _, err := d.read(next); err != nil {
					return fmt.Errorf("%s ends, and the next: %w", part.Loc, err)
				}
			}
		}
		for _, e := range pe {
			mh, items, files, err := d.pkg(e, resourcesync.ChangeDumpManifest)
			if err != nil {
				return err
			}
			if mh.From != e.From || mh.Until != e.Until || e.From != until {
				return fmt.Errorf("%s: [%s, %s), entry says [%s, %s), want from %s", e.Loc, mh.From, mh.Until, e.From, e.Until, until)
			}
			until = e.Until
			for _, it := range items {
				c := dumpChange{uri: it.Loc, change: it.Change, at: it.Datetime.Time()}
				if it.Change != resourcesync.Deleted {
					c.content = files[it.Path]
				}
				for _, l := range it.Links {
					if l.Rel == resourcesync.RelPatch {
						c.patch = files[l.Path]
					}
				}
				d.changes = append(d.changes, c)
			}
		}
	}
	d.until = until.Time()
	return nil
}

// pkg reads a package and holds it to its entry and its manifest.
func (d *dumpCrawl) pkg(e resourcesync.Entry, capability resourcesync.Capability) (h resourcesync.Header, items []resourcesync.Entry, files map[string]string, err error) {
	pkg := name(e.Loc)
	data, err := d.read(pkg)
	if err != nil {
		return h, nil, nil, fmt.Errorf("%s: %w", pkg, err)
	}
	d.packages = append(d.packages, pkg)
	sum := sha256.Sum256(data)
	if e.Length != int64(len(data)) || e.Hashes.Get(resourcesync.SHA256) != string(sum[:]) || e.Type != "application/zip" {
		return h, nil, nil, fmt.Errorf("%s: the entry says %d bytes of %s, or another hash", pkg, e.Length, e.Type)
	}
	contents := name(e.Link(resourcesync.RelContents))
	h, items, err = d.document(contents, capability)
	if err != nil {
		return h, nil, nil, err
	}
	if h.Link("up") != baseURL+"resourcesync/main/capabilitylist.xml" {
		return h, nil, nil, fmt.Errorf("%s: up %s", pkg, h.Link("up"))
	}
	copied, err := d.read(contents)
	if err != nil {
		return h, nil, nil, err
	}
	files, err = unpack(data, string(copied))
	if err != nil {
		return h, nil, nil, fmt.Errorf("%s: %w", pkg, err)
	}
	return h, items, files, manifestTrue(pkg, items, files)
}

// unpack returns the files of a package by path, but for the manifest, which
// must come first and be want.
func unpack(data []byte, want string) (map[string]string, error) {
	z, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		return nil, err
	}
	files := make(map[string]string)
	for i, f := range z.File {
		r, err := f.Open()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f.Name, err)
		}
		text, err := io.ReadAll(r)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f.Name, err)
		}
		if i == 0 {
			if f.Name != "manifest.xml" || want != "" && string(text) != want {
				return nil, fmt.Errorf("first is %s, or not the copy", f.Name)
			}
			files[""] = string(text)
			continue
		}
		if _, twice := files["/"+f.Name]; twice {
			return nil, fmt.Errorf("%s is there twice", f.Name)
		}
		files["/"+f.Name] = string(text)
	}
	return files, nil
}

// manifestTrue holds that a manifest names all files there are, no others, and
// says of each what is true (RS-ZIP-04).
func manifestTrue(pkg string, items []resourcesync.Entry, files map[string]string) error {
	rest := maps.Clone(files)
	delete(rest, "")
	check := func(path string, length int64, hs resourcesync.Hashes, plain bool) error {
		text, ok := rest[path]
		if !ok {
			return fmt.Errorf("%s: no file, or a second entry for %q", pkg, path)
		}
		delete(rest, path)
		h := hs.NewHasher()
		_, _ = io.WriteString(h, text)
		if common, differs := h.Sum().Compare(hs); common == 0 && !plain || differs != 0 || length != int64(len(text)) {
			return fmt.Errorf("%s: %s is not what the manifest says", pkg, path)
		}
		return nil
	}
	for _, e := range items {
		if e.Change == resourcesync.Deleted {
			continue
		}
		if err := check(e.Path, e.Length, e.Hashes, e.Type == ""); err != nil {
			return err
		}
		for _, l := range e.Links {
			if l.Rel == resourcesync.RelPatch {
				if err := check(l.Path, l.Length, l.Hashes, false); err != nil {
					return err
				}
			}
		}
	}
	if len(rest) > 0 {
		return fmt.Errorf("%s: the manifest does not name %q", pkg, slices.Collect(maps.Keys(rest)))
	}
	return nil
}

// dumps reads all that is published.
func (d *dumpWorld) dumps() *dumpCrawl {
	d.Helper()
	c, err := crawlDumps(reader(d.docs))
	if err != nil {
		d.Fatal(err)
	}
	return c
}

// apply returns the state a Resource Dump and the changes after it come to.
func (c *dumpCrawl) apply() map[string]string {
	state := maps.Clone(c.state)
	for _, ch := range c.changes {
		if !ch.at.After(c.at) {
			continue
		}
		if ch.change == resourcesync.Deleted {
			delete(state, ch.uri)
		} else {
			state[ch.uri] = ch.content
		}
	}
	return state
}

// holds requires that Resource Dump and Change Dump come to what is.
func (d *dumpWorld) holds(c *dumpCrawl) {
	d.Helper()
	if got := c.apply(); !maps.Equal(got, d.now) {
		d.Fatalf("dump at %s and changes to %s come to %v, want %v", c.at, c.until, got, d.now)
	}
}
