package source_test

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"
)

type walkLink struct {
	Rel  string `xml:"rel,attr"`
	Href string `xml:"href,attr"`
	Type string `xml:"type,attr"`
	Lang string `xml:"hreflang,attr"`
}

type walkAuthor struct {
	Name []string `xml:"http://www.w3.org/2005/Atom name"`
}

type walkContent struct {
	Attrs []xml.Attr `xml:",any,attr"`
	Inner string     `xml:",innerxml"`
}

type walkEntry struct {
	IDs      []string      `xml:"http://www.w3.org/2005/Atom id"`
	Titles   []string      `xml:"http://www.w3.org/2005/Atom title"`
	Updateds []string      `xml:"http://www.w3.org/2005/Atom updated"`
	Links    []walkLink    `xml:"http://www.w3.org/2005/Atom link"`
	Content  []walkContent `xml:"http://www.w3.org/2005/Atom content"`

	id         string
	updated    time.Time
	alternates string // URIs, with spaces between them; "": a deletion
}

func (e walkEntry) String() string { return fmt.Sprintf("%s %q", stamp(e.updated), e.alternates) }

func stamp(t time.Time) string { return t.Format("2006-01-02T15:04:05.000Z") }

type walkDoc struct {
	XMLName  xml.Name     `xml:"http://www.w3.org/2005/Atom feed"`
	IDs      []string     `xml:"http://www.w3.org/2005/Atom id"`
	Titles   []string     `xml:"http://www.w3.org/2005/Atom title"`
	Updateds []string     `xml:"http://www.w3.org/2005/Atom updated"`
	Authors  []walkAuthor `xml:"http://www.w3.org/2005/Atom author"`
	Links    []walkLink   `xml:"http://www.w3.org/2005/Atom link"`
	Archive  []struct{}   `xml:"http://purl.org/syndication/history/1.0 archive"`
	Complete []struct{}   `xml:"http://purl.org/syndication/history/1.0 complete"`
	Entries  []walkEntry  `xml:"http://www.w3.org/2005/Atom entry"`

	uri     string
	data    []byte
	updated time.Time
	links   map[string]string // the one of each relation
}

var instant = regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$`) // AP-DOC-08

// walkTime returns the instant that an element, of which there must be one, says.
func walkTime(all []string) (time.Time, error) {
	if len(all) != 1 || !instant.MatchString(all[0]) {
		return time.Time{}, fmt.Errorf("updated is %q", all)
	}
	return time.Parse(time.RFC3339, all[0])
}

// readWalkDoc reads the document at uri, and checks what must hold of it by itself.
func readWalkDoc(read func(name string) ([]byte, error), uri string) (*walkDoc, error) {
	data, err := read(strings.TrimPrefix(uri, baseURL))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", uri, err)
	}
	d := &walkDoc{uri: uri, data: data, links: make(map[string]string)}
	if err := xml.Unmarshal(data, d); err != nil {
		return nil, fmt.Errorf("%s: %w", uri, err)
	}
	if err := d.check(); err != nil {
		return nil, fmt.Errorf("%s: %w\n%s", uri, err, data)
	}
	return d, nil
}

func (d *walkDoc) check() (err error) {
	if d.updated, err = walkTime(d.Updateds); err != nil {
		return err
	}
	if len(d.IDs) != 1 || len(d.Titles) != 1 || len(d.Authors) != 1 || len(d.Authors[0].Name) != 1 || d.Authors[0].Name[0] == "" { // AP-DOC-02
		return fmt.Errorf("ids %q, titles %q, authors %v", d.IDs, d.Titles, d.Authors)
	}
	for _, l := range d.Links {
		if d.links[l.Rel] != "" {
			return fmt.Errorf("two links %s", l.Rel)
		}
		d.links[l.Rel] = l.Href
	}
	for _, paging := range []string{"next", "previous", "first", "last"} { // AP-TS-10
		if d.links[paging] != "" {
			return fmt.Errorf("it has a link %s", paging)
		}
	}
	if d.links["self"] != d.uri { // AP-DOC-03
		return fmt.Errorf("self is %q", d.links["self"])
	}
	archive := d.uri != baseURL+feedName
	switch { // AP-TS-06, AP-CMP-03
	case archive && (len(d.Archive) != 1 || d.links["current"] != baseURL+feedName),
		!archive && (len(d.Archive) > 0 || d.links["next-archive"] != ""),
		len(d.Complete) > 0 && (archive || d.links["prev-archive"] != ""):
		return fmt.Errorf("%d archive, %d complete, links %v", len(d.Archive), len(d.Complete), d.links)
	}
	newest := time.Time{}
	seen := make(map[string]bool)
	for i := range d.Entries {
		e := &d.Entries[i]
		if err := e.check(); err != nil {
			return fmt.Errorf("entry %q: %w", e.IDs, err)
		}
		if key := e.id + stamp(e.updated); seen[key] { // AP-DOC-06
			return fmt.Errorf("two entries of %s", key)
		} else {
			seen[key] = true
		}
		if e.updated.After(d.updated) { // AP-TS-01: I1
			return fmt.Errorf("%s is later than the document", stamp(e.updated))
		}
		if e.updated.After(newest) {
			newest = e.updated
		}
		if e.alternates == "" && len(d.Complete) > 0 { // AP-CMP-03
			return errors.New("a deletion in a complete feed")
		}
	}
	// The time of a complete feed does not go back when its newest entry is deleted.
	if len(d.Entries) > 0 && len(d.Complete) == 0 && !newest.Equal(d.updated) { // AP-TS-13
		return fmt.Errorf("the newest entry is of %s", stamp(newest))
	}
	return nil
}

func (e *walkEntry) check() (err error) {
	if len(e.IDs) != 1 || len(e.Titles) != 1 || e.Titles[0] == "" { // AP-DOC-05
		return fmt.Errorf("titles %q", e.Titles)
	}
	e.id = e.IDs[0]
	if e.updated, err = walkTime(e.Updateds); err != nil {
		return err
	}
	var uris []string
	types := make(map[string]bool)
	for _, l := range e.Links {
		if l.Rel != "" && l.Rel != "alternate" {
			continue
		}
		if l.Type == "" || types[l.Type+" "+l.Lang] { // AP-ACT-05, AP-DOC-07
			return fmt.Errorf("alternates %v", e.Links)
		}
		types[l.Type+" "+l.Lang] = true
		uris = append(uris, l.Href)
	}
	switch {
	case len(uris) > 0 && len(e.Content) == 0: // AP-ACT-04, AP-ACT-05
	case len(uris) == 0 && len(e.Content) == 1 && len(e.Content[0].Attrs) == 0 && e.Content[0].Inner == "": // AP-DEL-05, AP-DEL-06
	default:
		return fmt.Errorf("%d alternates and content %+v", len(uris), e.Content)
	}
	e.alternates = strings.Join(uris, " ")
	return nil
}

// checkHop checks what must hold between a document and the one that its
// prev-archive led to.
func checkHop(d, older *walkDoc) error {
	for _, e := range d.Entries {
		if !older.updated.Before(e.updated) { // AP-TS-03: I3; AP-TS-12: no cut between equal times
			return fmt.Errorf("%s is of %s, an entry of %s of %s", older.uri, stamp(older.updated), d.uri, stamp(e.updated))
		}
	}
	if older.updated.After(d.updated) { // AP-TS-13, AP-AMB-12
		return fmt.Errorf("%s is of %s, %s of %s", older.uri, stamp(older.updated), d.uri, stamp(d.updated))
	}
	if older.IDs[0] != d.IDs[0] || len(older.Archive) != 1 { // AP-DOC-04
		return fmt.Errorf("%s leads to %s, of another feed or no archive", d.uri, older.uri)
	}
	if next := older.links["next-archive"]; next != "" && next != d.uri { // AP-TS-06
		return fmt.Errorf("next-archive of %s is %s, but %s leads to it", older.uri, next, d.uri)
	}
	return nil
}

// A wholeFeed is the whole feed at an instant.
type wholeFeed struct {
	id       string
	complete bool
	docs     map[string]string    // bytes by URI
	chain    []string             // URIs, the newest first
	newest   map[string]walkEntry // by record
	all      map[string]walkEntry // by record and time
	times    map[time.Time]string // record
}

// snap reads the whole feed at once; nil: there is none.
func snap(read func(name string) ([]byte, error)) (*wholeFeed, error) {
	if _, err := read(feedName); err != nil {
		return nil, nil
	}
	s := &wholeFeed{docs: make(map[string]string), newest: make(map[string]walkEntry), all: make(map[string]walkEntry), times: make(map[time.Time]string)}
	var newer *walkDoc
	for uri := baseURL + feedName; uri != ""; {
		d, err := readWalkDoc(read, uri) // AP-TS-02: I2
		if err != nil {
			return nil, err
		}
		if newer != nil {
			if err := checkHop(newer, d); err != nil {
				return nil, err
			}
		} else {
			s.id, s.complete = d.IDs[0], len(d.Complete) > 0
		}
		if _, again := s.docs[uri]; again {
			return nil, fmt.Errorf("%s is met again", uri)
		}
		s.docs[uri], s.chain = string(d.data), append(s.chain, uri)
		for _, e := range d.Entries {
			if id, taken := s.times[e.updated]; taken { // AP-TS-11
				return nil, fmt.Errorf("entries of %s and %s are both of %s", id, e.id, stamp(e.updated))
			}
			s.times[e.updated] = e.id
			s.all[e.id+" "+stamp(e.updated)] = e
			gather(s.newest, e)
		}
		newer, uri = d, d.links["prev-archive"]
	}
	return s, nil
}

// gather keeps the newest entry of each record.
func gather(all map[string]walkEntry, e walkEntry) {
	if old, ok := all[e.id]; !ok || e.updated.After(old.updated) {
		all[e.id] = e
	}
}

// there returns the alternates of the records that are there (AP-CLS-02).
func (s *wholeFeed) there() map[string]string {
	all := make(map[string]string)
	for id, e := range s.newest {
		if e.alternates != "" {
			all[id] = e.alternates
		}
	}
	return all
}

// A walker is one who follows a feed, slowly: it reads one document at a time,
// while the feed changes (AP-HV-02, AP-HV-03). It is told of what is not there.
type walker struct {
	w       time.Time
	records map[string]walkEntry // what it knows
	mode    bool                 // complete, when last looked at

	d      *walkDoc // read last; nil: no walk is under way
	full   bool
	began  time.Time
	low    time.Time            // least of the clock since then
	passed time.Duration        // most that has passed since then, by the clock
	top    []byte               // subscription document of this walk
	got    map[string]walkEntry // collected
	first  *wholeFeed           // when this walk began
	again  int                  // subscription documents it began from
	done   int                  // walks that came to their end
	moved  int                  // of these, while the feed changed
}

// errGone reports that a document is not there that another led to.
var errGone = errors.New("a document is gone")

// step reads one document.
func (k *walker) step(read func(name string) ([]byte, error), now time.Time) error {
	if k.d == nil {
		return k.begin(read, now)
	}
	stop := slices.ContainsFunc(k.d.Entries, func(e walkEntry) bool { return e.updated.Before(k.w) }) && !k.full
	if prev := k.d.links["prev-archive"]; prev != "" && !stop {
		older, err := readWalkDoc(read, prev)
		if err != nil {
			k.d = nil
			return errors.Join(errGone, err)
		}
		if err := checkHop(k.d, older); err != nil {
			return err
		}
		k.collect(older)
		return nil
	}
	if k.full && k.again == 1 && len(k.d.Complete) == 0 {
		// Whoever never looks again has all there was when it began.
		if diff := diffEntries(k.first.newest, k.got); diff != "" {
			return fmt.Errorf("who began to walk at %s has not found what there was then:\n%s", k.began, diff)
		}
	}
	top, err := readWalkDoc(read, baseURL+feedName)
	if err != nil {
		return err
	}
	if !bytes.Equal(top.data, k.top) {
		k.top, k.again = top.data, k.again+1
		if k.mode = len(top.Complete) > 0; k.mode {
			clear(k.got)
		}
		k.full = k.full || k.mode != (len(k.d.Complete) > 0)
		k.collect(top)
		return nil
	}
	return k.end(read)
}

func (k *walker) begin(read func(name string) ([]byte, error), now time.Time) error {
	top, err := readWalkDoc(read, baseURL+feedName)
	if err != nil {
		return nil // there is no feed yet
	}
	if k.first, err = snap(read); err != nil {
		return err
	}
	mode := len(top.Complete) > 0
	k.full = k.records == nil || mode != k.mode || k.done%5 == 0 // AP-CDL-04, AP-HV-12
	k.low, k.passed = now, 0
	k.mode, k.began, k.top, k.again, k.got = mode, now, top.data, 1, make(map[string]walkEntry)
	k.collect(top)
	return nil
}

func (k *walker) collect(d *walkDoc) {
	k.d = d
	for _, e := range d.Entries {
		if k.full || k.mode || !e.updated.Before(k.w) {
			gather(k.got, e)
		}
	}
}

// end applies what was collected: the walker now knows what the feed says.
func (k *walker) end(read func(name string) ([]byte, error)) error {
	k.d = nil
	k.done++
	if k.again > 1 {
		k.moved++
	}
	if k.mode || k.records == nil { // AP-CDL-01
		k.records = make(map[string]walkEntry)
	}
	for id, e := range k.got {
		if e.updated.After(k.w) {
			k.w = e.updated
		}
		if old, ok := k.records[id]; ok && old.updated.After(e.updated) {
			continue
		}
		k.records[id] = e
	}
	now, err := snap(read)
	if err != nil {
		return err
	}
	want, got := now.newest, maps.Clone(k.records)
	maps.DeleteFunc(got, func(id string, e walkEntry) bool { // a deletion may be forgotten by complete feeds
		_, told := want[id]
		return e.alternates == "" && !told
	})
	if diff := diffEntries(want, got); diff != "" {
		return fmt.Errorf("who walked from %s on (full %v, %d times) does not know what the feed says:\n%s", k.began, k.full, k.again, diff)
	}
	return nil
}

// diffEntries tells in which entries the two differ.
func diffEntries(want, got map[string]walkEntry) string {
	var b strings.Builder
	for id, e := range want {
		if g, ok := got[id]; !ok || g.String() != e.String() {
			fmt.Fprintf(&b, "%s: want %s, got %s\n", id, e, g)
		}
	}
	for id, g := range got {
		if _, ok := want[id]; !ok {
			fmt.Fprintf(&b, "%s: want none, got %s\n", id, g)
		}
	}
	return b.String()
}
