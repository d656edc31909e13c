package plan

import (
	"lockstep/destination/internal/content"
	"lockstep/destination/internal/desired"
	"lockstep/destination/journal"
	"lockstep/resourcesync"
)

// Compare reports whether the version held is the one that the Source describes: by
// hash if both have one of the same algorithm, otherwise by length and lastmod
// (RS-DST-02, RS-DST-05).
func Compare(h *journal.Held, w *desired.Resource) content.Likeness {
	common := false
	for _, stated := range w.Hashes {
		if digest := h.Hashes.Get(stated.Algorithm); digest != "" {
			if digest != stated.Digest {
				return content.Different
			}
			common = true
		}
	}
	switch {
	case common:
		return content.Same
	case len(h.Hashes) == 0: // unknown since a crash
		return content.Different
	case w.Length >= 0 && w.Length != h.Length:
		return content.Different
	case w.Lastmod.IsZero() || h.Lastmod.IsZero():
		return content.Unknown
	case !desired.SameLastmod(h.Lastmod, w.Lastmod):
		return content.Different
	case w.Length >= 0 && (w.Change == 0 || w.Lastmod.Time().Nanosecond() != 0):
		return content.Same
	}
	// If a change was announced, a lastmod in whole seconds proves nothing: it may
	// be the second change in that second.
	return content.Unknown
}

// SameContent reports whether two rows describe the same bytes.
func SameContent(a, b *journal.Held) bool {
	common := false
	for _, h := range a.Hashes {
		if digest := b.Hashes.Get(h.Algorithm); digest != "" {
			if digest != h.Digest {
				return false
			}
			common = true
		}
	}
	return common && a.Length == b.Length
}

// Represent replaces the desired state by that of the preferred representation,
// which the mirror stores in place of the one at the resource's own URI. The
// description of one does not apply to the other, which is not available from
// mirrors, from packages or by patches.
func (a *Action) Represent(l *resourcesync.Link) {
	stated := a.Resource
	a.Stated, a.From, a.Preferred = &stated, l.Href, true
	a.Hashes, a.Length, a.Type, a.Coding = l.Hashes, -1, l.Type, l.Encoding
	if l.HasLength {
		a.Length = l.Length
	}
	if !l.Modified.IsZero() {
		a.Lastmod = l.Modified
	}
	a.Links, a.Patches, a.Member = nil, nil, desired.Member{}
}

// OwnFetched reports whether the mirror holds the resource's own representation
// because the preferred one could not be fetched.
func (a *Action) OwnFetched() bool {
	return a.Preferred && a.IsHeld() && Compare(&a.Held, a.Stated) == content.Same
}

// Own returns the action for the resource's own representation.
func (a *Action) Own() *Action {
	o := *a
	o.Resource, o.Stated, o.From, o.Preferred = *a.Stated, nil, "", false
	o.Conditional = a.IsHeld() && !a.FileMissing && Compare(&a.Held, a.Stated) == content.Unknown
	return &o
}
