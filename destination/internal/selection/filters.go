package selection

import (
	"errors"
	"fmt"
	"time"

	"github.com/bmatcuk/doublestar/v4"

	"lockstep/resourcesync"
)

// A Filter selects the resources whose URI matches a glob, or leaves them out. Of several
// filters the first that matches decides; what none matches is selected.
type Filter struct {
	Include bool
	Glob    string
}

// flatten returns filters for URIs without slashes, see [flat].
func flatten(filters []Filter) (flattened []Filter) {
	for _, f := range filters {
		f.Glob = flat.Replace(f.Glob)
		flattened = append(flattened, f)
	}
	return flattened
}

func checkFilters(filters []Filter) error {
	for _, f := range filters {
		if !doublestar.ValidatePattern(f.Glob) {
			return fmt.Errorf("filter %q: not a valid glob", f.Glob)
		}
	}
	return nil
}

// passes reports whether the filters select a URI.
func (s *Selection) passes(uri string) bool {
	if len(s.filters) == 0 {
		return true
	}
	uri = flat.Replace(uri)
	for i := range s.filters {
		if ok, _ := doublestar.Match(s.filters[i].Glob, uri); ok { // they were validated
			return s.filters[i].Include
		}
	}
	return true
}

// sizes are the lengths that are selected; max 0 is any.
type sizes struct{ min, max int64 }

func (z sizes) check() error {
	if z.min < 0 || z.max < 0 || z.max > 0 && z.max < z.min {
		return fmt.Errorf("sizes from %d to %d: none is selected", z.min, z.max)
	}
	return nil
}

// contain reports whether a resource of a stated length is selected. One of which no length
// is stated is.
func (z sizes) contain(length int64) bool {
	return length < 0 || length >= z.min && (z.max == 0 || length <= z.max)
}

// ages are how long ago a resource was modified that the mirror takes; zero is any time.
type ages struct{ min, max time.Duration }

func (g ages) check() error {
	switch {
	case g.min < 0 || g.max < 0:
		return errors.New("ages cannot be negative")
	case g.max > 0 && g.max <= g.min:
		return fmt.Errorf("ages from %s to %s: none is selected", g.min, g.max)
	}
	return nil
}

// Takes reports whether the mirror, which does not have a resource that is selected, takes
// it at its age. If it is too young, ripe is when it no longer is. What the mirror has stays,
// however old it grows.
func (s *Selection) Takes(lastmod resourcesync.Datetime, now time.Time) (takes bool, ripe time.Time) {
	if s.ages == (ages{}) || lastmod.IsZero() {
		return true, time.Time{}
	}
	end := endOf(lastmod)
	if s.ages.max > 0 && end.Before(now.Add(-s.ages.max)) {
		return false, time.Time{}
	}
	if ripe = end.Add(s.ages.min); s.ages.min > 0 && ripe.After(now) {
		return false, ripe
	}
	return true, time.Time{}
}
