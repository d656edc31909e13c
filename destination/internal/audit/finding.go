package audit

import (
	"fmt"

	"lockstep/destination/internal/desired"
	"lockstep/destination/internal/saved"
	"lockstep/destination/internal/wording"
	"lockstep/destination/journal"
	"lockstep/destination/report"
	"lockstep/internal/fetch"
	"lockstep/internal/fetch/shown"
)

// printable makes texts of the Source fit to be printed.
func printable(f *report.Finding) {
	f.Set, f.URI, f.Path, f.Cause = fetch.Printable(f.Set), shown.Whole(f.URI), shown.Whole(f.Path), fetch.Printable(f.Cause)
}

// stated returns what the Source states.
func stated(w *desired.Resource) *report.Facts {
	f := &report.Facts{Hash: wording.Hashes(w.Hashes), Lastmod: saved.Time(w.Lastmod)}
	if w.Length >= 0 {
		f.Length = &w.Length
	}
	return f
}

// written returns what the Journal knows of a file.
func written(h *journal.Held) *report.Facts {
	length := h.Length
	return &report.Facts{Hash: wording.Hashes(h.Hashes), Length: &length, Lastmod: h.Lastmod}
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
