package destination

import (
	"context"
	"iter"
	"slices"

	"lockstep/destination/internal/desired"
	"lockstep/destination/internal/saved"
	"lockstep/destination/journal"
	"lockstep/resourcesync"
)

// Selected yields the resources that the mirror holds, and that the options of d select:
// Sets, Include, Exclude, Types, Filters, sizes, Since and With, of which the latter selects resources
// with a link describes. Sets are those that the last run found.
func (d *Destination) Selected(ctx context.Context) iter.Seq2[journal.Held, error] {
	return func(yield func(journal.Held, error) bool) {
		numbers, err := d.selectedSets(ctx)
		if err != nil {
			yield(journal.Held{}, err)
			return
		}
		for h, err := range d.journal.Held(ctx, "", "") {
			if err == nil && !d.selectsHeld(&h, numbers) {
				continue
			}
			if !yield(h, err) || err != nil {
				return
			}
		}
	}
}

// selectedSets returns the numbers of the sets that the options of d select.
func (d *Destination) selectedSets(ctx context.Context) (numbers []int, err error) {
	if len(d.opts.Sets) == 0 {
		return nil, nil
	}
	var m saved.Mirror
	if known, err := saved.Load(ctx, d.journal, saved.DocMirror, &m); err != nil || !known || m.Found == nil {
		return nil, err
	}
	for i := range m.Found.Sets {
		f := &m.Found.Sets[i]
		if n, known := m.Numbers[saved.SetURI(f)]; known && (slices.Contains(d.opts.Sets, f.Name) || slices.Contains(d.opts.Sets, saved.SetURI(f))) {
			numbers = append(numbers, n)
		}
	}
	return numbers, nil
}

// selectsHeld reports whether the options of d select a resource that is held, of the
// selected sets with these numbers.
func (d *Destination) selectsHeld(h *journal.Held, numbers []int) bool {
	if len(d.opts.Sets) > 0 && !slices.ContainsFunc(h.Sets, func(n int) bool { return slices.Contains(numbers, n) }) {
		return false
	}
	w := desired.Resource{URI: h.URI, Lastmod: resourcesync.NewDatetime(h.Lastmod), Type: h.Type, Links: h.Links, Length: -1}
	if h.Stated != nil {
		w.Length = h.Stated.Length
	}
	describes := func(l resourcesync.Link) bool { return l.Rel == "describes" }
	return d.selects.Selects(&w, false) || d.selects.SelectsWith(&w) && slices.ContainsFunc(h.Links, describes)
}
