// Package pack makes the ZIP packages of dumps: bitstreams, which it verifies,
// behind a manifest.
package pack

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"strings"
	"time"

	"lockstep/catalog"
	"lockstep/resourcesync"
	"lockstep/source/internal/describe"
	"lockstep/source/internal/document"
	"lockstep/source/internal/names"
	"lockstep/source/internal/zipfile"
)

// A Packing makes one package. First Add is called for all that is to be in
// it, then Build or Gather. The package has its manifest in front (RS-ZIP-01), and that
// has the hash of every bitstream behind it: so the bitstreams are packed as
// the manifest says, in one pass, and verified meanwhile. If one turns out to
// be different, or if hash or length are not catalogued, the bitstreams are
// first gathered in a temporary file, and the manifest says what they are.
type Packing struct {
	packer
	Header  resourcesync.Header // of the manifest
	Stamp   time.Time           // modification time
	Items   []Item
	Content int64 // bytes of the items, as catalogued
	Files   int   // manifest entries

	docs     *document.Store
	set      string
	temp     string
	describe *describe.Describer
	limits   *document.Writer // the manifest as far as it is known, for its limits; nothing is kept of it
	maxBytes int64
	changes  bool // the items are changes, not resources
	types    map[string]string
}

// Options are what a package depends on.
type Options struct {
	Docs     *document.Store
	Set      string
	Describe *describe.Describer // of the set
	Header   resourcesync.Header // of the manifest
	Entries  int                 // how many the manifest has at most
	Bytes    int64               // of content, at most, unless one resource has more
	Workers  int                 // how many bitstreams are read at a time
	Temp     string              // directory for temporary files
	Lenient  bool                // leave out bitstreams that cannot be read
	Stamp    time.Time

	// Open opens the bitstream of an item. It fails with fs.ErrNotExist or
	// blob.ErrNotExist if that is gone.
	Open func(ctx context.Context, it *Item) (io.ReadCloser, error)
}

// New begins a package.
func New(o Options) (*Packing, error) {
	w, err := resourcesync.NewWriter(io.Discard, o.Header)
	if err != nil {
		return nil, err
	}
	return &Packing{
		packer:   packer{workers: o.Workers, log: o.Docs.Log, open: o.Open, lenient: o.Lenient},
		Header:   o.Header,
		Stamp:    o.Stamp,
		docs:     o.Docs,
		set:      o.Set,
		temp:     o.Temp,
		describe: o.Describe,
		limits:   document.NewWriter(w, o.Entries, o.Docs.MaxBytes, o.Docs.Log),
		maxBytes: o.Bytes,
		changes:  o.Header.Capability == resourcesync.ChangeDumpManifest,
		types:    make(map[string]string),
	}, nil
}

// A Package describes a package that has been made.
type Package struct {
	Length   int64  `json:"length"`
	SHA256   string `json:"sha256"` // in hex
	Manifest int64  `json:"manifest"`
}

// MediaType is what packages are (RS-RD-05).
const MediaType = "application/zip"

// Metadata returns what documents say of the package.
func (p Package) Metadata() resourcesync.Metadata {
	m := resourcesync.Metadata{Type: MediaType, Length: p.Length, HasLength: true}
	if h, err := resourcesync.ParseHash("sha-256:" + p.SHA256); err == nil {
		m.Hashes = resourcesync.Hashes{h}
	}
	return m
}

// unknownHash represents one that is not known yet.
var unknownHash = resourcesync.Hash{Algorithm: resourcesync.SHA256, Digest: strings.Repeat("\x00", resourcesync.SHA256.Size())}

// Add adds a resource, or a change, whose file is to be called name; or it
// returns resourcesync.ErrTooLarge, as it belongs in another package. What no
// manifest can state is left out. patches are those of the change that are kept.
func (p *Packing) Add(c *catalog.Change, name string, patches ...Item) error {
	it := Item{Change: *c, Name: name}
	size := max(c.Length, 0)
	for i := range patches {
		size += max(patches[i].Change.Length, 0)
	}
	if len(p.Items) > 0 && p.Content+size > p.maxBytes {
		return resourcesync.ErrTooLarge
	}
	it.Change.Type = p.intern(it.Change.Type)
	var e resourcesync.Entry
	p.entry(&e, &it, patches)
	if !it.known() {
		e.Hashes, e.Length, e.HasLength = append(e.Hashes[:len(e.Hashes):len(e.Hashes)], unknownHash), 1<<62, true
		p.settled = true
	}
	before := p.limits.Entries()
	if err := p.limits.Add(&e); err != nil || p.limits.Entries() == before {
		return err
	}
	p.Items = append(append(p.Items, it), patches...)
	p.Content += size
	return nil
}

// intern returns s, held once for all items.
func (p *Packing) intern(s string) string {
	if known, ok := p.types[s]; ok {
		return known
	}
	p.types[s] = s
	return s
}

// entry makes e the entry of it in the manifest. Links to patches that are not
// in the package are left out (RS-CDM-06).
func (p *Packing) entry(e *resourcesync.Entry, it *Item, patches []Item) {
	if p.changes {
		p.describe.Event(e, &it.Change)
	} else {
		*e = resourcesync.Entry{}
		p.describe.Resource(e, &it.Change.Record)
	}
	if !it.empty() {
		e.Path = "/" + it.Name // RS-ZIP-02
	}
	if it.Deviant {
		e.Lastmod = resourcesync.Datetime{} // that of the bytes is not known
	}
	links := e.Links[:0]
	for _, l := range e.Links {
		if l.Rel == resourcesync.RelPatch {
			for i := range patches {
				if patches[i].Change.URI == l.Href && !patches[i].gone && !patches[i].Deviant {
					l.Path = "/" + patches[i].Name
				}
			}
			if l.Path == "" {
				continue
			}
		}
		links = append(links, l)
	}
	e.Links = links
}

// Build writes the package called name, with a copy of its manifest beside it
// (RS-RD-04), and commits both. keep, if not nil, is asked once all bitstreams
// have been gathered; an error of its own ends the packing.
func (p *Packing) Build(ctx context.Context, name string, keep func() error) (Package, error) {
	if !p.settled {
		done, err := p.commitPackage(ctx, name, func(z *zipfile.Writer) error { return p.pack(ctx, p.Items, z) })
		if _, deviates := errors.AsType[*deviation](err); !deviates {
			return done, err
		}
		p.docs.Log.DebugContext(ctx, "package is made of what is there", slog.String("doc", name), slog.Any("cause", err))
	}
	g, err := p.Gather(ctx, 0)
	if err != nil {
		return Package{}, err
	}
	defer g.Close()
	if keep != nil {
		if err := keep(); err != nil {
			return Package{}, err
		}
	}
	return p.commitPackage(ctx, name, g.splice)
}

// A Gathered is a package whose bitstreams are in a temporary file.
type Gathered struct {
	packing *Packing
	zip     *zipfile.Writer
	spool   *spool
}

// Gather gathers the bitstreams in a temporary file and makes the items say
// what they are; or it returns resourcesync.ErrTooLarge, should that be more
// than most bytes.
func (p *Packing) Gather(ctx context.Context, most int64) (*Gathered, error) {
	p.settled = true
	sp, err := newSpool(p.temp, most)
	if err != nil {
		return nil, err
	}
	z := zipfile.NewWriter(sp, 0)
	if err := p.pack(ctx, p.Items, z); err != nil {
		sp.close()
		return nil, err
	}
	return &Gathered{p, z, sp}, nil
}

func (g *Gathered) splice(to *zipfile.Writer) error { return to.Splice(g.zip, g.spool.content()) }

// Write writes the package to w.
func (g *Gathered) Write(w io.Writer) error {
	_, err := g.packing.writeTo(zipfile.NewWriter(w, 0), io.Discard, g.splice)
	return err
}

// Close removes the temporary file.
func (g *Gathered) Close() { g.spool.close() }

// commitPackage writes manifest and files and commits the package.
func (p *Packing) commitPackage(ctx context.Context, name string, files func(*zipfile.Writer) error) (Package, error) {
	pkg, err := p.docs.Create(ctx, name)
	if err != nil {
		return Package{}, err
	}
	defer pkg.Close() // does nothing after Commit
	copied, err := p.docs.Create(ctx, names.Manifest(name))
	if err != nil {
		return Package{}, err
	}
	defer copied.Close() // the same
	pkg.SetModTime(p.Stamp)
	copied.SetModTime(p.Stamp)
	out := newSink(pkg)
	z := zipfile.NewWriter(out, len(p.Items)+1)
	manifest, err := p.writeTo(z, copied, files)
	sum, err1 := out.close()
	if err == nil {
		err = err1
	}
	if err != nil {
		return Package{}, err
	}
	return Package{Length: z.Size(), SHA256: sum, Manifest: manifest}, p.docs.Commit(ctx, copied, pkg)
}

// writeTo writes the package to z and its manifest to copied as well; it
// returns the manifest's size.
func (p *Packing) writeTo(z *zipfile.Writer, copied io.Writer, files func(*zipfile.Writer) error) (int64, error) {
	f, err := z.Create(zipfile.Entry{Name: names.ManifestFile, Modified: p.Stamp})
	if err != nil {
		return 0, err
	}
	w, err := resourcesync.NewWriter(io.MultiWriter(f, copied), p.Header)
	if err != nil {
		return 0, err
	}
	d := document.NewWriter(w, resourcesync.MaxEntries, resourcesync.MaxBytes, slog.New(slog.DiscardHandler)) // Add has logged it
	p.Files = 0
	var e resourcesync.Entry
	for i := 0; i < len(p.Items); {
		it, rest := &p.Items[i], i+1
		for rest < len(p.Items) && p.Items[rest].Blob != "" {
			rest++
		}
		if !it.gone {
			p.entry(&e, it, p.Items[i+1:rest])
			if err := d.Add(&e); err != nil {
				return 0, err
			}
			p.Files++
		}
		i = rest
	}
	if err := d.Close(); err != nil {
		return 0, err
	}
	if err := f.Close(); err != nil {
		return 0, err
	}
	if err := files(z); err != nil {
		return 0, err
	}
	return d.Bytes(), z.Finish()
}

// Deviant counts the resources that are not packed as catalogued, and logs
// each.
func (p *Packing) Deviant(ctx context.Context) int {
	n := 0
	for i := range p.Items {
		it := &p.Items[i]
		if !it.Deviant {
			continue
		}
		n++
		text := "resource was packed as it is, not as catalogued"
		if it.gone {
			text = "resource is catalogued and gone: left out of the package"
		}
		p.docs.Log.InfoContext(ctx, text, slog.String("set", p.set), slog.String("uri", it.Change.URI))
	}
	return n
}
