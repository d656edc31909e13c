package desired

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"

	"lockstep/resourcesync"
)

// Fingerprint returns the identifier of the event w at t. Two events with the same
// statement at one instant differ in their number within the document.
func Fingerprint(w *Resource, t resourcesync.Datetime) string {
	var buf [256]byte
	b := AppendString(buf[:0], w.URI)
	b = AppendDatetime(b, t)
	b = append(b, byte(w.Change))
	b = AppendDatetime(b, w.Lastmod)
	b = binary.AppendVarint(b, w.Length)
	for _, h := range w.Hashes {
		b = append(b, h.Digest...)
	}
	b = binary.AppendUvarint(b, uint64(w.Nth))
	event, resource := sha256.Sum256(b), sha256.Sum256([]byte(w.URI))
	return base64.RawStdEncoding.EncodeToString(append(event[:12:12], resource[:6]...))
}

// ResourceMark returns the part of a fingerprint that identifies the resource.
func ResourceMark(fingerprint string) string { return fingerprint[len(fingerprint)-8:] }

// MarkOf returns the ResourceMark of all fingerprints of events of a resource.
func MarkOf(uri string) string {
	sum := sha256.Sum256([]byte(uri))
	return base64.RawStdEncoding.EncodeToString(sum[:6])
}

// SameRepresentation reports whether p, which a manifest states about a member of
// its package, describes the content of w: by a common hash, otherwise by lastmod
// and length. The content is verified against w in any case.
func SameRepresentation(p, w *Resource) bool {
	if p.Gone || w.Gone {
		return false
	}
	common := false
	for _, h := range p.Hashes {
		if digest := w.Hashes.Get(h.Algorithm); digest != "" {
			if digest != h.Digest {
				return false
			}
			common = true
		}
	}
	if common {
		return true
	}
	if p.Length < 0 || p.Length != w.Length || p.Lastmod.IsZero() || p.Lastmod.Compare(w.Lastmod) != 0 {
		return false
	}
	// A lastmod in whole seconds proves nothing of a change: there may have been several in that second.
	return w.Change == 0 || w.Lastmod.Time().Nanosecond() != 0
}
