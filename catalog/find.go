package catalog

import "context"

// Find returns what a set of c holds of the resource at uri; ok is false if it
// holds none.
func Find(ctx context.Context, c Catalog, set, uri string) (r Record, ok bool, err error) {
	for r, err := range c.Resources(ctx, set, Range{From: uri, To: uri + "\x00"}) {
		if err != nil {
			return Record{}, false, err
		}
		return r, true, nil
	}
	return Record{}, false, nil
}
