package atompmh

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"lockstep/intake"
	"lockstep/internal/fetch"
)

// feedMemory is the stored position in a feed.
type feedMemory struct {
	Rules     string       `json:"rules"`        // rules by which it was read
	Address   string       `json:"address"`      // of the subscription document, as given
	At        string       `json:"at,omitempty"` // address to which it has permanently moved
	ID        string       `json:"id"`           // of the feed
	Title     string       `json:"title,omitempty"`
	Watermark feedTime     `json:"watermark"`
	Point     intake.Point `json:"point"`
	Complete  bool         `json:"complete,omitempty"` // the subscription document had fh:complete
	Whole     bool         `json:"whole,omitempty"`    // everything was harvested once
	Disorder  bool         `json:"disorder,omitempty"` // the chain violated I3, however often it was read

	// What had to be read again as a whole, and could not be.
	Unsettled bool `json:"unsettled,omitempty"` // the catalog may not have what was harvested before
	Replaced  bool `json:"replaced,omitempty"`  // it has records of the feed that was here before

	Ahead      bool     `json:"ahead,omitempty"` // the last harvest read times in our future
	AheadSince feedTime `json:"ahead_since"`     // times in this interval were in our future when they were read
	AheadTill  feedTime `json:"ahead_till"`
	Reported   feedTime `json:"reported"` // the latest of them that was reported

	Full     time.Time          `json:"full"` // end of the last full harvest, by our clock
	Failures int                `json:"failures,omitempty"`
	Failed   time.Time          `json:"failed"` // time of the first failure
	Gap      *feedGap           `json:"gap,omitempty"`
	Docs     map[string]feedDoc `json:"docs"` // by URI
}

// A feedGap is an archive document that was repeatedly unavailable.
type feedGap struct {
	URI   string    `json:"uri"`
	Cause string    `json:"cause"`
	Since time.Time `json:"since"`
	Tried time.Time `json:"tried"`
}

// A feedDoc is the remembered state of a document that was processed to its end:
// AP-HTTP-06, no validators of any other.
type feedDoc struct {
	ETag     string   `json:"etag,omitempty"`
	Modified string   `json:"modified,omitempty"`
	Digest   string   `json:"digest,omitempty"` // of its text
	Updated  feedTime `json:"updated"`
	Prev     string   `json:"prev,omitempty"`
	Complete bool     `json:"complete,omitempty"`
	Entries  int64    `json:"entries"`
	Min      feedTime `json:"min"` // of the updated times of its entries, if it has any
	Max      feedTime `json:"max"`

	final string // URI that answered, after redirects
	print uint64 // digest of its entries, within a harvest; 0 if they were not read
	same  bool   // it is unchanged
}

// maxFeedDocs is how many documents are remembered: those nearest to the
// subscription document, since most harvests read no others.
const maxFeedDocs = 64

// A feedTime is an instant with the precision of entries, in any year.
type feedTime struct{ time.Time }

// MarshalJSON formats seconds since 1970 and nanoseconds; no other format can
// represent a time whose offset moves the year 9999 into the next.
func (t feedTime) MarshalJSON() ([]byte, error) {
	if t.IsZero() {
		return []byte("null"), nil
	}
	return fmt.Appendf(nil, "[%d,%d]", t.Unix(), t.Nanosecond()), nil
}

func (t *feedTime) UnmarshalJSON(b []byte) error {
	var parts []int64
	if err := json.Unmarshal(b, &parts); err != nil {
		return err
	}
	if len(parts) == 2 {
		t.Time = time.Unix(parts[0], parts[1]).UTC()
	}
	return nil
}

// rules identifies how feeds are read: when it changes, everything is read again.
func (a *Harvester) rules() string {
	rules := fmt.Sprint("1 ", a.o.Overlap, " ", a.o.KeepVanished, " ", strings.Join(a.types, ","))
	if a.o.Content {
		for _, alg := range a.o.Algorithms {
			rules += " " + alg.String()
		}
	}
	return rules
}

// recalled returns the stored position in the feed.
func (a *Harvester) recalled() feedMemory {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.known {
		a.known = true
		if !intake.Recall(a.o.State, &a.memory) {
			a.memory = feedMemory{}
		}
	}
	return a.memory
}

// keep stores m as the position.
func (a *Harvester) keep(m feedMemory) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.memory, a.known = m, true
	if err := intake.Remember(a.o.State, m); err != nil {
		return fmt.Errorf("save the progress of the harvest: %w", err)
	}
	return nil
}

// Status returns the position in the feed; before the first harvest, the zero position.
func (a *Harvester) Status() Status {
	m := a.recalled()
	if m.Address != a.in.Name {
		return Status{Address: a.in.Name}
	}
	s := Status{Address: a.in.Name, ID: m.ID, Title: m.Title, Watermark: m.Watermark.Time, Complete: m.Complete, Whole: m.Whole}
	if m.Gap != nil {
		s.Gap = m.Gap.URI
	}
	return s
}

// When a missing document is treated as a gap.
const (
	patientFailures = 3              // harvests that failed to get it
	patientFor      = 24 * time.Hour // if the server may only be temporarily in trouble
	gapRetry        = 24 * time.Hour // after which it is requested again
)

// remember stores the position that this harvest reached.
func (h *harvest) remember(at intake.Point) error {
	now := time.Now().UTC().Truncate(time.Second)
	m := h.now
	before := h.old.Docs
	if h.full {
		before = nil
	}
	m.Rules, m.Address, m.Point = h.a.rules(), h.list.Name, at
	m.Disorder = h.disorder
	m.Ahead, m.Reported.Time = !h.future.Latest.IsZero(), h.future.Reported
	if m.Ahead {
		if m.AheadSince.IsZero() || h.future.Now.Before(m.AheadSince.Time) {
			m.AheadSince.Time = h.future.Now
		}
		if h.future.Latest.After(m.AheadTill.Time) {
			m.AheadTill.Time = h.future.Latest
		}
	}
	if h.missing != nil {
		m.Failures++
		if m.Failures == 1 || m.Failed.After(now) { // our clock was set back
			m.Failed = now
		}
	} else if h.full || m.Gap == nil {
		m.Failures, m.Failed, m.Gap = 0, time.Time{}, nil
	}
	if h.missing != nil && h.resigned() {
		// AP-HV-08: everything available was harvested; the rest is a gap.
		since := now
		if m.Gap != nil {
			since = m.Gap.Since
		}
		m.Failures, m.Failed = 0, time.Time{}
		m.Gap = &feedGap{URI: h.missing.uri, Cause: fetch.Printable(h.missing.err.Error()), Since: since, Tried: now}
	}
	if h.disorder && h.full && h.missing == nil && !h.unsettled {
		// Everything was applied, as far as that is possible.
		m.Full, m.Docs = now, docsToKeep(h.walked, h.docs, before)
	}
	if h.unsettled || h.missing != nil && !h.resigned() {
		m.Unsettled, m.Replaced = h.catalogUnknown, h.replaced
		m.Whole = m.Whole && !h.replaced
	}
	if h.held() {
		return h.a.keep(m)
	}
	m.Watermark = h.watermark()
	m.Complete = h.complete
	if h.full || h.complete {
		m.Full, m.Whole = now, true
	}
	m.Docs = docsToKeep(h.walked, h.docs, before)
	return h.a.keep(m)
}

// resigned reports whether the missing document has been missing for so long that
// the harvest continues without it.
func (h *harvest) resigned() bool {
	switch {
	case h.old.Gap != nil && h.old.Gap.URI == h.missing.uri:
		return true
	case !h.full || h.old.Failures+1 < patientFailures:
		return false
	}
	return h.missing.final || time.Since(h.old.Failed) >= patientFor
}

// held reports whether the watermark stays where it is, because not everything older
// was read.
func (h *harvest) held() bool {
	return h.disorder || h.unsettled || h.missing != nil && !h.resigned()
}

// watermark returns the new watermark: AP-HV-01, from entries; AP-HV-10, not later
// than the time of the response, nor than that of our clock.
func (h *harvest) watermark() feedTime {
	w := h.seen
	if !h.date.IsZero() && w.After(h.date) {
		w.Time = h.date
	}
	if h.future.IsAhead(w.Time) {
		w.Time = h.future.Now
	}
	if !h.full && w.Before(h.old.Watermark.Time) {
		return h.old.Watermark
	}
	return w // a full harvest may find that the producer went back
}

// docsToKeep returns the documents nearest to the subscription document: of those
// walked, the ones that were read, then some of those remembered before.
func docsToKeep(walked []string, read map[string]*feedDoc, before map[string]feedDoc) map[string]feedDoc {
	docs := make(map[string]feedDoc)
	for _, uri := range walked {
		if d := read[uri]; d != nil && len(docs) < maxFeedDocs {
			docs[uri] = *d
		}
	}
	for _, uri := range slices.Sorted(maps.Keys(before)) {
		if _, ok := docs[uri]; !ok && len(docs) < maxFeedDocs {
			docs[uri] = before[uri]
		}
	}
	return docs
}
