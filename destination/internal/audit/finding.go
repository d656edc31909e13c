// Package audit compares the files of a mirror with what its Source states and what
// the Journal knows.
package audit

import (
	"fmt"
	"time"

	"lockstep/destination/internal/desired"
	"lockstep/destination/internal/saved"
	"lockstep/destination/internal/wording"
	"lockstep/destination/journal"
	"lockstep/internal/fetch"
)

// A Kind says how the mirror differs from what it should be.
type Kind string

// The kinds of findings.
const (
	Missing      Kind = "missing"
	Stale        Kind = "stale"
	Corrupt      Kind = "corrupt"
	Extra        Kind = "extra"
	Foreign      Kind = "foreign"
	Unverifiable Kind = "unverifiable"
)

// A Finding is one difference.
type Finding struct {
	Kind     Kind
	Set      string // name of the set that describes the resource; empty for foreign files
	URI      string
	Path     string // of the file, below the mirror
	Expected *Facts // what the Source states; of a corrupt file, what was written
	Found    *Facts // what is here
	Cause    string
}

// Facts describes some content.
type Facts struct {
	Hash    string
	Length  *int64
	Lastmod time.Time
}

// Printable makes texts of the Source fit to be printed.
func (f *Finding) Printable() {
	f.Set, f.URI, f.Path, f.Cause = fetch.Printable(f.Set), fetch.Printable(f.URI), fetch.Printable(f.Path), fetch.Printable(f.Cause)
}

// stated returns what the Source states.
func stated(w *desired.Resource) *Facts {
	f := &Facts{Hash: wording.Hashes(w.Hashes), Lastmod: saved.Time(w.Lastmod)}
	if w.Length >= 0 {
		f.Length = &w.Length
	}
	return f
}

// written returns what the Journal knows of a file.
func written(h *journal.Held) *Facts {
	length := h.Length
	return &Facts{Hash: wording.Hashes(h.Hashes), Length: &length, Lastmod: h.Lastmod}
}

// describeStale says how a file differs from what the Source states.
func describeStale(h *journal.Held, w *desired.Resource) string {
	for _, stated := range w.Hashes {
		if digest := h.Hashes.Get(stated.Algorithm); digest != "" && digest != stated.Digest {
			return fmt.Sprintf("the Source states %s, here is %s", stated, wording.Hashes(h.Hashes))
		}
	}
	switch {
	case len(h.Hashes) == 0:
		return "in doubt since an interrupted run or an audit; sync puts it right"
	case w.Length >= 0 && w.Length != h.Length:
		return fmt.Sprintf("the Source states %d bytes, here are %d", w.Length, h.Length)
	}
	return fmt.Sprintf("the Source states %s as its last modification, here is %s", w.Lastmod, wording.Time(h.Lastmod))
}
