package source

import (
	"fmt"
	"time"

	"lockstep/resourcesync"
	"lockstep/source/internal/archive"
)

// An Archive says which documents of a set's past stay, by kind (RA-GEN-02). A
// kind that is nil has no archive; one that was there is withdrawn.
type Archive struct {
	ResourceLists *Retain
	ResourceDumps *Retain
	ChangeLists   *Retain
	ChangeDumps   *Retain
}

// A Retain says which documents an archive names: all there ever were, the
// newest Count, or those not older than Age; one of the three is set. Whatever
// it says, the newest stays, and so does what is part of the current Change List
// or Change Dump, which Count does not count. What leaves stays retrievable for
// Options.Grace (RA-GEN-13).
type Retain struct {
	All   bool
	Count int
	Age   time.Duration

	// Every is how far apart Resource Lists in the archive are at least: one
	// that is taken earlier replaces the last without ever being archived. 0: all
	// that are taken are archived. It means nothing for other kinds.
	Every time.Duration
}

// check refuses what cannot be meant.
func (a *Archive) check() error {
	if a == nil {
		return nil
	}
	for _, r := range []struct {
		kind string
		*Retain
	}{{"Resource Lists", a.ResourceLists}, {"Resource Dumps", a.ResourceDumps}, {"Change Lists", a.ChangeLists}, {"Change Dumps", a.ChangeDumps}} {
		if r.Retain == nil {
			continue
		}
		ways := 0
		for _, given := range []bool{r.All, r.Count != 0, r.Age != 0} {
			if given {
				ways++
			}
		}
		if ways != 1 || r.Count < 0 || r.Age < 0 || r.Every < 0 {
			return fmt.Errorf("archive of %s: want all, a number of documents above 0, or an age", r.kind)
		}
	}
	return nil
}

// of returns what is kept of the documents that have capability c; nil: no
// archive is.
func (a *Archive) of(c resourcesync.Capability) *Retain {
	if a == nil {
		return nil
	}
	switch c {
	case resourcesync.ResourceList:
		return a.ResourceLists
	case resourcesync.ResourceDump:
		return a.ResourceDumps
	case resourcesync.ChangeList:
		return a.ChangeLists
	case resourcesync.ChangeDump:
		return a.ChangeDumps
	}
	return nil
}

// retain returns what of returns, in the type of package archive.
func (a *Archive) retain(c resourcesync.Capability) *archive.Retain {
	return (*archive.Retain)(a.of(c))
}

// has reports whether documents that have capability c are archived.
func (a *Archive) has(c resourcesync.Capability) bool { return a.of(c) != nil }
