package source

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

// A packing makes one package. First add is called for all that is to be in
// it, then write. The package has its manifest in front (RS-ZIP-01), and that
// tells the hash of every bitstream behind it: so the bitstreams are packed as
// the manifest says, in one pass, and verified meanwhile. If one turns out to
// be different, or if hash or length are not catalogued, the bitstreams are
// first gathered in a temporary file, and the manifest says what they are.
type packing struct {
	*Source
	packer
	set      *Set
	header   resourcesync.Header // of the manifest
	describe *describe.Describer
	limits   *document.Writer // the manifest as far as it is known, for its limits; nothing is kept of it
	maxBytes int64
	changes  bool // the items are changes, not resources
	items    []item
	content  int64 // bytes of the items, as catalogued
	files    int   // manifest entries
	types    map[string]string
	stamp    time.Time
}

// newPacking begins a package whose manifest begins with h.
func (s *Source) newPacking(set *Set, h resourcesync.Header, entries int, bytes int64) (*packing, error) {
	w, err := resourcesync.NewWriter(io.Discard, h)
	if err != nil {
		return nil, err
	}
	return &packing{
		Source: s,
		set:    set,
		packer: packer{workers: s.opts.Workers, log: s.docs.Log, open: func(ctx context.Context, it *item) (io.ReadCloser, error) {
			return set.Bitstream(ctx, &it.Record)
		}},
		header:   h,
		describe: s.rules[set.Name].Describer(),
		limits:   document.NewWriter(w, entries, s.docs.MaxBytes, s.docs.Log),
		maxBytes: bytes,
		changes:  h.Capability == resourcesync.ChangeDumpManifest,
		types:    make(map[string]string),
	}, nil
}

// unknownHash stands for one that is not known yet.
var unknownHash = resourcesync.Hash{Algorithm: resourcesync.SHA256, Digest: strings.Repeat("\x00", resourcesync.SHA256.Size())}

// add adds a resource, or a change, whose file is to be called name; or it
// returns resourcesync.ErrTooLarge, as it belongs in another package. What no
// manifest can state is left out. patches are those of the change that are kept.
func (p *packing) add(c *catalog.Change, name string, patches ...item) error {
	it := item{Change: *c, name: name}
	size := max(c.Length, 0)
	for i := range patches {
		size += max(patches[i].Length, 0)
	}
	if len(p.items) > 0 && p.content+size > p.maxBytes {
		return resourcesync.ErrTooLarge
	}
	it.Type = p.intern(it.Type)
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
	p.items = append(append(p.items, it), patches...)
	p.content += size
	return nil
}

// intern returns s, held once for all items.
func (p *packing) intern(s string) string {
	if known, ok := p.types[s]; ok {
		return known
	}
	p.types[s] = s
	return s
}

// entry makes e the entry of it in the manifest. Links to patches that are not
// in the package are left out (RS-CDM-06).
func (p *packing) entry(e *resourcesync.Entry, it *item, patches []item) {
	if p.changes {
		p.describe.Event(e, &it.Change)
	} else {
		*e = resourcesync.Entry{}
		p.describe.Resource(e, &it.Record)
	}
	if !it.empty() {
		e.Path = "/" + it.name // RS-ZIP-02
	}
	if it.deviant {
		e.Lastmod = resourcesync.Datetime{} // that of the bytes is not known
	}
	links := e.Links[:0]
	for _, l := range e.Links {
		if l.Rel == resourcesync.RelPatch {
			for i := range patches {
				if patches[i].URI == l.Href && !patches[i].gone && !patches[i].deviant {
					l.Path = "/" + patches[i].name
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

// build writes the package called name, with a copy of its manifest beside it
// (RS-RD-04), and commits both. keep, if not nil, is asked once all bitstreams
// have been gathered; an error of its own ends the packing.
func (p *packing) build(ctx context.Context, name string, keep func() error) (packed, error) {
	if !p.settled {
		done, err := p.commitPackage(ctx, name, func(z *zipfile.Writer) error { return p.pack(ctx, p.items, z) })
		if _, deviates := errors.AsType[*deviation](err); !deviates {
			return done, err
		}
		p.docs.Log.DebugContext(ctx, "package is made of what is there", slog.String("doc", name), slog.Any("cause", err))
	}
	z, content, err := p.settle(ctx, 0)
	if err != nil {
		return packed{}, err
	}
	defer content.close()
	if keep != nil {
		if err := keep(); err != nil {
			return packed{}, err
		}
	}
	return p.commitPackage(ctx, name, func(out *zipfile.Writer) error { return out.Splice(z, content.content()) })
}

// settle gathers the bitstreams in a temporary file and makes the items say
// what they are; or it returns resourcesync.ErrTooLarge, should that be more
// than most bytes.
func (p *packing) settle(ctx context.Context, most int64) (*zipfile.Writer, *spool, error) {
	p.settled = true
	sp, err := newSpool(p.opts.Temp, most)
	if err != nil {
		return nil, nil, err
	}
	z := zipfile.NewWriter(sp, 0)
	if err := p.pack(ctx, p.items, z); err != nil {
		sp.close()
		return nil, nil, err
	}
	return z, sp, nil
}

// commitPackage writes manifest and files and commits the package.
func (p *packing) commitPackage(ctx context.Context, name string, files func(*zipfile.Writer) error) (packed, error) {
	pkg, err := p.docs.Create(ctx, name)
	if err != nil {
		return packed{}, err
	}
	defer pkg.Close() // does nothing after Commit
	copied, err := p.docs.Create(ctx, names.Manifest(name))
	if err != nil {
		return packed{}, err
	}
	defer copied.Close() // the same
	pkg.SetModTime(p.stamp)
	copied.SetModTime(p.stamp)
	out := newSink(pkg)
	z := zipfile.NewWriter(out, len(p.items)+1)
	manifest, err := p.writeTo(z, copied, files)
	sum, err1 := out.close()
	if err == nil {
		err = err1
	}
	if err != nil {
		return packed{}, err
	}
	return packed{Length: z.Size(), SHA256: sum, Manifest: manifest}, p.docs.Commit(ctx, copied, pkg)
}

// writeTo writes the package to z and its manifest to copied as well; it
// returns the manifest's size.
func (p *packing) writeTo(z *zipfile.Writer, copied io.Writer, files func(*zipfile.Writer) error) (int64, error) {
	f, err := z.Create(zipfile.Entry{Name: names.ManifestFile, Modified: p.stamp})
	if err != nil {
		return 0, err
	}
	w, err := resourcesync.NewWriter(io.MultiWriter(f, copied), p.header)
	if err != nil {
		return 0, err
	}
	d := document.NewWriter(w, resourcesync.MaxEntries, resourcesync.MaxBytes, slog.New(slog.DiscardHandler)) // add has told
	p.files = 0
	var e resourcesync.Entry
	for i := 0; i < len(p.items); {
		it, rest := &p.items[i], i+1
		for rest < len(p.items) && p.items[rest].blob != "" {
			rest++
		}
		if !it.gone {
			p.entry(&e, it, p.items[i+1:rest])
			if err := d.Add(&e); err != nil {
				return 0, err
			}
			p.files++
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

// deviant counts the resources that are not packed as catalogued, and logs
// each.
func (p *packing) deviant(ctx context.Context) int {
	n := 0
	for i := range p.items {
		it := &p.items[i]
		if !it.deviant {
			continue
		}
		n++
		text := "resource was packed as it is, not as catalogued"
		if it.gone {
			text = "resource is catalogued and gone: left out of the package"
		}
		p.docs.Log.InfoContext(ctx, text, slog.String("set", p.set.Name), slog.String("uri", it.URI))
	}
	return n
}
