package catalog

import "context"

// Find returns the record of the resource at uri in a set of c; ok is false if
// there is none.
func Find(ctx context.Context, c Catalog, set, uri string) (r Record, ok bool, err error) {
	for r, err := range c.Resources(ctx, set, Range{From: uri, To: uri + "\x00"}) {
		if err != nil {
			return Record{}, false, err
		}
		return r, true, nil
	}
	return Record{}, false, nil
}
