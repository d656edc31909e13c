package provenance

import (
	"fmt"
	"strings"
	"time"

	"lockstep/internal/fetch"
	"lockstep/resourcesync"
)

// content is what is known of some content.
type content struct {
	hashes   resourcesync.Hashes
	length   int64 // -1 if unknown
	modified resourcesync.Datetime
	typ      string
	doubt    error // why its bytes could not be used
}

// statedBy returns what a via link states. Length and hashes of coded content are not
// those of the bytes that are compared (RS-HASH-07).
func statedBy(l *resourcesync.Link) content {
	c := content{length: -1, modified: l.Modified, typ: l.Type}
	if l.Encoding != "" {
		return c
	}
	c.hashes = l.Hashes
	if l.HasLength {
		c.length = l.Length
	}
	return c
}

// facts returns c for a Finding; nil if nothing is known.
func (c *content) facts() *Facts {
	f := &Facts{Hash: c.hashes.String(), Modified: c.modified.Time()}
	if c.length >= 0 {
		f.Length = &c.length
	}
	if f.Hash == "" && f.Length == nil && f.Modified.IsZero() {
		return nil
	}
	return f
}

// A state says whether there is an answer of the origin.
type state uint8

const (
	unasked  state = iota // there is no answer
	absent                // the origin says that nothing is there
	answered              // there is content
)

// An answer is what the origin serves.
type answer struct {
	content
	state  state
	whole  bool      // the hashes are those of all bytes
	date   time.Time // of the answer; zero if it has none
	coding string    // content coding that was not requested
	cause  string    // why there is no answer
}

// A likeness says whether two contents are the same.
type likeness uint8

const (
	unknown likeness = iota
	same
	different
)

// algorithms are the known ones, the strongest first.
var algorithms = []resourcesync.Algorithm{resourcesync.SHA512, resourcesync.SHA384, resourcesync.SHA256, resourcesync.SHA1, resourcesync.MD5}

// compare compares hashes. The strongest algorithm that both have decides.
func compare(a, b resourcesync.Hashes) (likeness, resourcesync.Algorithm) {
	for _, alg := range algorithms {
		switch x, y := a.Get(alg), b.Get(alg); {
		case x == "" || y == "":
		case x == y:
			return same, alg
		default:
			return different, alg
		}
	}
	return unknown, 0
}

// steadyAfter is the age from which a modification time names one state of a resource:
// a younger one may be that of two states (RFC 9110, 8.8.2.2).
const steadyAfter = time.Minute

// decide returns the verdict on a copy, and its reason, from what is known of the copy,
// what its via link states, and what the origin serves. The first line that applies
// decides:
//
//	the origin serves the bytes of the copy                            identical
//	the copy has another hash than the link states                     altered
//	the origin has nothing there any more                              gone
//	the origin could not be asked                                      unchecked
//	 (from here on, the origin serves other bytes than the copy)
//	the bytes of the copy could not be read                            unclear
//	no hash is stated; the copy has another length than the link
//	  states, and the origin has that length                           altered
//	the origin was modified after the time that the link states        changed
//	the origin serves another media type than the link states, or
//	  a content coding                                                 unclear
//	the origin was modified at the time that the link states,
//	  at least a minute ago                                            altered
//	a time is missing, and the copy has the hash that the link states  changed
//	everything else                                                    unclear
//
// Weak evidence must not accuse: an origin that was modified before the time that the
// link states may have restored an earlier version, and an origin without times and
// hashes may have changed at any time.
func decide(held, stated *content, found *answer) (Verdict, string) {
	if found.state == answered && found.whole && (held.length < 0 || held.length == found.length) {
		if is, _ := compare(held.hashes, found.hashes); is == same {
			return Identical, ""
		}
	}
	kept, alg := compare(held.hashes, stated.hashes)
	switch {
	case kept == different:
		cause := fmt.Sprintf("the copy has %s, its via link states %s", hashOf(held, alg), hashOf(stated, alg))
		if is, _ := compare(stated.hashes, found.hashes); found.state == answered && found.whole && is == same {
			cause += ", which the origin still serves"
		}
		return Altered, cause
	case found.state == absent:
		return Gone, found.cause
	case found.state == unasked:
		return Unchecked, found.cause
	case held.doubt != nil:
		return Unclear, "the bytes of the copy are unavailable: " + fetch.Printable(held.doubt.Error())
	case kept == unknown && stated.length >= 0 && held.length >= 0 && held.length != stated.length && found.length == stated.length && found.coding == "":
		return Altered, fmt.Sprintf("the copy has %d bytes, its via link states %d, and the origin serves %d", held.length, stated.length, found.length)
	}
	return decideByTime(kept, stated, found)
}

// decideByTime decides about a copy whose bytes are not those that the origin serves, by
// the times of modification.
func decideByTime(kept likeness, stated *content, found *answer) (Verdict, string) {
	then, now := stated.modified.Time().Truncate(time.Second), found.modified.Time() // a Last-Modified has whole seconds
	timed := !stated.modified.IsZero() && !found.modified.IsZero()
	switch {
	case timed && now.After(then):
		return Changed, fmt.Sprintf("the origin was modified at %s, after %s, which the via link states", found.modified, stated.modified)
	case found.coding != "":
		return Unclear, fmt.Sprintf("the origin serves it with content coding %s, which was not requested", fetch.Printable(found.coding))
	case stated.typ != "" && found.typ != "" && !sameType(stated.typ, found.typ):
		return Unclear, fmt.Sprintf("the origin serves another media type, %s", fetch.Printable(found.typ))
	case timed && now.Equal(then) && stated.modified.Granularity() <= resourcesync.Second && !found.date.IsZero() && found.date.Sub(now) >= steadyAfter:
		return Altered, fmt.Sprintf("the origin serves other bytes, and was modified at %s, as the via link states", stated.modified)
	case !timed && kept == same:
		return Changed, "the origin serves other bytes than the via link states, which the copy has"
	case timed && now.Before(then):
		return Unclear, fmt.Sprintf("the origin serves other bytes, modified at %s, before %s, which the via link states", found.modified, stated.modified)
	case timed:
		return Unclear, fmt.Sprintf("the origin serves other bytes, and was modified at %s, too recently to tell versions apart", found.modified)
	}
	return Unclear, "the origin serves other bytes, and nothing states what it had or when it changed"
}

// hashOf returns the hash of one algorithm as text.
func hashOf(c *content, alg resourcesync.Algorithm) string {
	return resourcesync.Hash{Algorithm: alg, Digest: c.hashes.Get(alg)}.String()
}

// sameType reports whether two media types are equal but for parameters.
func sameType(a, b string) bool {
	a, _, _ = strings.Cut(a, ";")
	b, _, _ = strings.Cut(b, ";")
	return strings.EqualFold(strings.TrimSpace(a), strings.TrimSpace(b))
}
