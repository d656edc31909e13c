package destination

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"

	"lockstep/destination/internal/desired"
	"lockstep/resourcesync"
)

// maxSeen caps the events remembered at one instant: a Source that gives all
// its changes one time costs no more than this. What is beyond is looked at
// again, which does no harm.
const maxSeen = 20_000

// fingerprint names the event w at t. Two events that say the same at one
// instant differ in their number within the document.
func fingerprint(w *desired.Resource, t resourcesync.Datetime) string {
	var buf [256]byte
	b := desired.AppendString(buf[:0], w.URI)
	b = desired.AppendDatetime(b, t)
	b = append(b, byte(w.Change))
	b = desired.AppendDatetime(b, w.Lastmod)
	b = binary.AppendVarint(b, w.Length)
	for _, h := range w.Hashes {
		b = append(b, h.Digest...)
	}
	b = binary.AppendUvarint(b, uint64(w.Nth))
	event, resource := sha256.Sum256(b), sha256.Sum256([]byte(w.URI))
	return base64.RawStdEncoding.EncodeToString(append(event[:12:12], resource[:6]...))
}

// resourceMark is the part of a fingerprint that names the resource.
func resourceMark(fingerprint string) string { return fingerprint[len(fingerprint)-8:] }

// markOf is the resourceMark of all fingerprints of events of a resource.
func markOf(uri string) string {
	sum := sha256.Sum256([]byte(uri))
	return base64.RawStdEncoding.EncodeToString(sum[:6])
}
