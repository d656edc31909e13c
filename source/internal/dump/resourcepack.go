package dump

import (
	"context"
	"errors"
	"fmt"

	"lockstep/catalog"
	"lockstep/resourcesync"
	"lockstep/source/internal/names"
	"lockstep/source/internal/pack"
)

// A rangeCut is the range of one package to be.
type rangeCut struct {
	catalog.Range
	resources int64
	memory    int64 // about what they take while they are packed
}

// cut divides the resources in r into as few packages as they need, all about
// as full, so that there is room in each for more.
func (b *resourceBuild) cut(ctx context.Context, r catalog.Range) ([]rangeCut, error) {
	var total int64
	for rec, err := range b.catalog.Resources(ctx, b.key, r) {
		if err != nil {
			return nil, err
		}
		total += b.weight(&rec)
	}
	n := (total + fullPackage - 1) / fullPackage
	if n == 0 {
		return nil, nil
	}
	target := (total + n - 1) / n
	cuts := []rangeCut{{Range: r}}
	var weight int64
	for rec, err := range b.catalog.Resources(ctx, b.key, r) {
		if err != nil {
			return nil, err
		}
		c := &cuts[len(cuts)-1]
		w := b.weight(&rec)
		if c.resources > 0 && (weight >= target || weight+w > fullPackage) {
			c.To = rec.URI
			cuts = append(cuts, rangeCut{Range: catalog.Range{From: rec.URI, To: r.To}})
			c, weight = &cuts[len(cuts)-1], 0
		}
		weight += w
		c.resources++
		c.memory += int64(itemMemory + 2*len(rec.URI) + len(rec.Token) + len(rec.Foreign.String()))
		for i := range rec.Links {
			c.memory += int64(itemMemory + len(rec.Links[i].Href) + len(rec.Links[i].Foreign.String()))
		}
	}
	return cuts, nil
}

// itemMemory is about what a resource takes while it is packed, but for its
// URI, and what a link of its own takes.
const itemMemory = 400

// fullPackage is the weight of what fills a package.
const fullPackage = 1_000_000_000

// weight returns what a resource takes of the room in a package, by whichever
// limit it comes nearest to: bytes, entries, or the size of the manifest.
func (b *resourceBuild) weight(r *catalog.Record) int64 {
	limits := b.set.Resource
	entry := 400 + 2*len(r.URI) + len(r.Foreign.String())
	for i := range r.Links {
		entry += 200 + len(r.Links[i].Href) + len(r.Links[i].Foreign.String())
	}
	w := max(float64(max(r.Length, 0))/float64(limits.PackageBytes), float64(entry)/float64(b.docs.MaxBytes))
	return max(int64(min(w, 1)*fullPackage), fullPackage/int64(limits.PackageEntries))
}

// pack makes packages of the resources in c: one, of that number, or, should
// they not fit any more, several.
func (b *resourceBuild) pack(ctx context.Context, c rangeCut, number int64) error {
	for r, more := c.Range, true; more; number = b.number.Add(1) {
		var first string
		o := b.dumps.packing(&b.set, b.manifest(), b.set.Resource.PackageEntries, b.set.Resource.PackageBytes)
		o.Stamp = b.state.Stamp
		p, err := pack.New(o)
		if err != nil {
			return err
		}
		p.Items = make([]pack.Item, 0, c.resources)
		if first, more, err = b.gather(ctx, p, &r); err != nil || len(p.Items) == 0 {
			return err
		}
		name := names.Dumps(b.set.Name).ResourcePackage(b.gen, int(number))
		done, err := p.Build(ctx, name, nil)
		if err != nil {
			return err
		}
		deviant := p.Deviant(ctx)
		b.mu.Lock()
		b.built = append(b.built, resourcePackage{Name: name, First: []byte(first), Resources: p.Files, Deviant: deviant, Package: done})
		b.report.Deviant += deviant
		b.report.Bytes += done.Length
		b.mu.Unlock()
	}
	return nil
}

// gather adds to p the resources in r, as many as fit, and moves r on to those
// that do not. first is where the range of p begins.
func (b *resourceBuild) gather(ctx context.Context, p *pack.Packing, r *catalog.Range) (first string, more bool, err error) {
	docNames := names.NewMembers(b.set.Rules.Below)
	first = r.From
	for rec, err := range b.catalog.Resources(ctx, b.key, *r) {
		if err != nil {
			return first, false, err
		}
		err = p.Add(&catalog.Change{Record: rec}, docNames.Name(rec.URI))
		if errors.Is(err, resourcesync.ErrTooLarge) && len(p.Items) > 0 {
			r.From = rec.URI
			return first, true, nil
		}
		if err != nil {
			return first, false, fmt.Errorf("%s: %w", rec.URI, err)
		}
	}
	return first, false, nil
}

// manifest returns what the manifests begin with.
func (b *resourceBuild) manifest() resourcesync.Header {
	h := b.docs.Header(b.set.Name, resourcesync.ResourceDumpManifest)
	h.At = resourcesync.NewDatetime(b.mark.At)
	return h
}
