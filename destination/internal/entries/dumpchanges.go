package entries

import (
	"context"

	"lockstep/destination/internal/dump"
	"lockstep/discover"
	"lockstep/resourcesync"
)

// readDump reads the manifests of those packages of a Change Dump that may contain
// changes since the watermark, as if they were Change Lists (RS-DST-26).
// A package lists no documents, so it cannot be part of a loop. One that is listed
// more than once is read at each place, since its changes happened that often: a
// Source that names packages by their content lists equal packages under one name.
func (c *ChangeReader) readDump(ctx context.Context, doc *discover.Document, depth int, again bool) error {
	from := doc.Header.From
	entries, err := c.partsInOrder(ctx, doc, depth, again)
	if err != nil {
		return err
	}
	if depth > 0 && doc.Header.Until.IsZero() {
		c.Chain.Open = append(c.Chain.Open, doc.URI) // the dump grows even if its index does not change
	}
	var parts []changePackage
	var numbers []int
	var last resourcesync.Datetime // Until of the previous package, if it is not read
	for i := range entries {
		e := &entries[i]
		if c.done(e) {
			last = e.Until
			continue
		}
		ref := c.RefOf(e)
		ref.Listing = true
		numbers = append(numbers, c.Packages.Add(ref))
		if i == 0 && !from.IsZero() && !e.From.IsZero() && from.Compare(e.From) < 0 {
			e.From = from // no package precedes it
		}
		parts, last = append(parts, changePackage{e.Metadata, last}), resourcesync.Datetime{}
	}
	if len(entries) == 0 && c.Chain.Lists == 0 {
		c.Chain.From = from // the dump covers the time since from, although no change happened
	}
	return c.eachManifest(ctx, numbers, func(i int, m *dump.Manifest, err error) error {
		if err == nil {
			defer m.Close()
			err = checkManifest(m, resourcesync.ChangeDumpManifest)
		}
		if err != nil {
			ref, _ := c.Packages.Get(numbers[i])
			return c.missing(ctx, ref.URI, err, depth+1, again)
		}
		if t := parts[i].last; !t.IsZero() {
			c.last = t
		}
		return c.readList(ctx, c.newPackageDoc(numbers[i], m), parts[i].said, depth+1, again)
	})
}

// A changePackage is what a Change Dump states about a package.
type changePackage struct {
	said resourcesync.Metadata
	last resourcesync.Datetime // Until of the package before it, if that was not read; otherwise zero
}
