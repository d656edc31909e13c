package saved

import (
	"cmp"
	"fmt"
	"slices"

	"lockstep/destination/filename"
	"lockstep/discover"
)

// The names of documents in the Journal.
const (
	DocMirror = "mirror"  // a Mirror
	DocIntent = "intent"  // the batch being committed; absent when there is none
	DocCounts = "counts"  // Counts
	DocOpen   = "running" // present while a run is in progress, or if it was killed
)

// DocSet returns the name of the document that contains the [Set] of a number.
func DocSet(number int) string { return fmt.Sprintf("set/%d", number) }

// A Mirror is the saved state of the Source as a whole.
type Mirror struct {
	Origin  string          `json:"origin"`         // the resources of this origin have their files at the root of the mirror
	Found   *discover.Found `json:"found"`          // the path to the documents
	Numbers map[string]int  `json:"numbers"`        // of the sets, by their URIs
	Maps    []filename.Map  `json:"maps,omitempty"` // where an Origin places its resources, in addition to the user's maps
}

// Paths returns the names of the mirror's files, with maps of the user before those of
// the Origin. Portable names suit file systems that fold case or refuse characters.
func (m *Mirror) Paths(portable bool, maps []filename.Map) (*filename.Mapping, error) {
	o := filename.Options{Origin: cmp.Or(m.Origin, "file://"), Portable: portable, Map: maps}
	if len(m.Maps) > 0 {
		o.Map = slices.Concat(maps, m.Maps)
		if p, err := filename.New(o); err == nil {
			return p, nil
		}
		o.Map = maps // they contradict those of the Origin
	}
	return filename.New(o)
}

// Offered returns what was found of the set with a URI, or nil.
func (m *Mirror) Offered(uri string) *discover.Set {
	if m.Found == nil {
		return nil
	}
	for i := range m.Found.Sets {
		if f := &m.Found.Sets[i]; SetURI(f) == uri {
			return f
		}
	}
	return nil
}

// IsUnreadable reports whether the set with a URI was found and could not be read.
func (m *Mirror) IsUnreadable(uri string) bool {
	o := m.Offered(uri)
	return o != nil && o.Err != nil
}

// OfferedNumbers returns the numbers of the sets that were found and have one.
func (m *Mirror) OfferedNumbers() map[int]bool {
	numbers := map[int]bool{}
	if m.Found == nil {
		return numbers
	}
	for i := range m.Found.Sets {
		if n, known := m.Numbers[SetURI(&m.Found.Sets[i])]; known {
			numbers[n] = true
		}
	}
	return numbers
}

// Counts contains the number of resources that the mirror holds of each set, by the
// number of the set.
type Counts map[int]int64

// Total returns the number of resources of all sets; a resource of several sets is
// counted once for each.
func (c Counts) Total() int64 {
	var total int64
	for _, n := range c {
		total += n
	}
	return total
}
