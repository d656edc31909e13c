package source_test

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"lockstep/atompmh"
	"lockstep/blob"
)

const feedName = "resourcesync/main/atom.xml"

// An atomDoc is a document of a feed as it was read.
type atomDoc struct {
	name    string
	feed    atompmh.Feed
	entries []atompmh.Entry
}

// readAtomDoc reads a document strictly.
func readAtomDoc(read func(name string) ([]byte, error), name string) (*atomDoc, error) {
	data, err := read(name)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	r := atompmh.NewReader(bytes.NewReader(data), atompmh.ReaderOptions{Base: baseURL + name, Strict: true})
	d := &atomDoc{name: name}
	for e, err := range r.Entries() {
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		d.entries = append(d.entries, e)
	}
	d.feed, err = r.Feed()
	if err == nil && d.feed.Self != baseURL+name { // AP-DOC-03
		err = fmt.Errorf("%s: self is %s", name, d.feed.Self)
	}
	return d, err
}

// checkAtomDoc checks what must hold of a document by itself.
func checkAtomDoc(d *atomDoc) error {
	last := time.Time{}
	for _, e := range d.entries {
		if e.Updated.After(d.feed.Updated) { // AP-TS-01
			return fmt.Errorf("%s: %s is of %s, the feed of %s", d.name, e.ID, e.Updated, d.feed.Updated)
		}
		if e.Updated.After(last) {
			last = e.Updated
		}
		if !e.Updated.Equal(e.Updated.Truncate(time.Millisecond)) { // AP-DOC-08
			return fmt.Errorf("%s: %s is of %s", d.name, e.ID, e.Updated)
		}
		n := len(e.Alternates())
		if e.Kind == atompmh.Active && n == 0 || e.Kind == atompmh.Deletion && n > 0 { // AP-ACT-05, AP-DEL-05
			return fmt.Errorf("%s: %v entry %s has %d alternates", d.name, e.Kind, e.ID, n)
		}
		types := make(map[string]bool)
		for _, l := range e.Alternates() { // AP-DOC-07, AP-ACT-05
			if l.Type == "" || types[l.Type] {
				return fmt.Errorf("%s: entry %s has alternates of types %v and %q", d.name, e.ID, slices.Collect(maps.Keys(types)), l.Type)
			}
			types[l.Type] = true
		}
	}
	if len(d.entries) > 0 && !last.Equal(d.feed.Updated) && !(d.feed.Complete && last.Before(d.feed.Updated)) { // AP-TS-13; a deletion changes a complete feed, too
		return fmt.Errorf("%s: updated %s, newest entry %s", d.name, d.feed.Updated, last)
	}
	archive := d.name != feedName
	if d.feed.Archive != archive || archive && d.feed.Current != baseURL+feedName { // AP-TS-06
		return fmt.Errorf("%s: archive %v, current %s", d.name, d.feed.Archive, d.feed.Current)
	}
	if d.feed.Complete && (d.feed.PrevArchive != "" || slices.ContainsFunc(d.entries, func(e atompmh.Entry) bool { return e.Kind == atompmh.Deletion })) { // AP-CMP-03
		return fmt.Errorf("%s: complete, with archives or deletions", d.name)
	}
	return nil
}

// checkAtomLink checks what must hold between a document and the one before it.
func checkAtomLink(d, prev *atomDoc) error {
	for _, e := range d.entries {
		if prev.feed.Updated.After(e.Updated) { // AP-TS-03
			return fmt.Errorf("%s is of %s, but %s in %s of %s", prev.name, prev.feed.Updated, e.ID, d.name, e.Updated)
		}
	}
	if prev.feed.ID != d.feed.ID { // AP-DOC-04
		return fmt.Errorf("%s is of feed %s, %s of %s", prev.name, prev.feed.ID, d.name, d.feed.ID)
	}
	if next := prev.feed.NextArchive; next != "" && next != d.feed.Self {
		return fmt.Errorf("%s: next-archive is %s, but %s leads to it", prev.name, next, d.name)
	}
	return nil
}

// errNoFeed reports that there is no feed yet.
var errNoFeed = errors.New("no feed")

// A harvester follows a feed as the standard says: entries by their times, never
// by documents that are known.
type harvester struct {
	id      string
	w       time.Time
	records map[string]atompmh.Entry // newest of each record
	docs    int                      // read by the last harvest
	entries int                      // read by the last harvest
}

// harvest reads the feed; all of it, if full is set (AP-HV-02, AP-HV-03).
func (h *harvester) harvest(read func(name string) ([]byte, error), full bool) error {
	if h.records == nil {
		h.records, full = make(map[string]atompmh.Entry), true
	}
	h.docs, h.entries = 0, 0
	d, err := readAtomDoc(read, feedName)
	if errors.Is(err, blob.ErrNotExist) {
		return errNoFeed
	}
	if err != nil {
		return err
	}
	if h.id != "" && d.feed.ID != h.id {
		return fmt.Errorf("feed %s has become %s", h.id, d.feed.ID)
	}
	h.id = d.feed.ID
	newest := make(map[string]atompmh.Entry)
	for {
		if err := checkAtomDoc(d); err != nil {
			return err
		}
		h.docs++
		h.entries += len(d.entries)
		stop := false
		for _, e := range d.entries {
			if !full && !d.feed.Complete && e.Updated.Before(h.w) {
				stop = true
				continue
			}
			old, ok := newest[e.ID]
			if !ok || e.Updated.After(old.Updated) {
				newest[e.ID] = e
			} else if old.Updated.Equal(e.Updated) {
				return fmt.Errorf("%s has two entries of %s", e.ID, e.Updated)
			}
		}
		if d.feed.PrevArchive == "" || stop {
			break
		}
		name := strings.TrimPrefix(d.feed.PrevArchive, baseURL)
		prev, err := readAtomDoc(read, name)
		if err != nil { // AP-TS-02
			return err
		}
		if err := checkAtomLink(d, prev); err != nil {
			return err
		}
		d = prev
	}
	if d.feed.Complete {
		h.records = make(map[string]atompmh.Entry)
	}
	for id, e := range newest {
		if old, ok := h.records[id]; !ok || e.Updated.After(old.Updated) || full {
			h.records[id] = e
		}
		if e.Updated.After(h.w) {
			h.w = e.Updated
		}
	}
	return nil
}

// active returns the records that are there, each with the URIs of its alternates.
func (h *harvester) active() map[string]string {
	all := make(map[string]string)
	for id, e := range h.records {
		if e.Kind != atompmh.Active {
			continue
		}
		var uris []string
		for _, l := range e.Alternates() {
			uris = append(uris, l.Href)
		}
		all[id] = strings.Join(uris, " ")
	}
	return all
}

// records returns what a feed of the set should say is there, of resources that
// have nothing to do with each other.
func (w *world) records() map[string]string {
	all := make(map[string]string)
	for uri := range w.live {
		all[atompmh.RecordID(uri)] = uri
	}
	return all
}
