package source_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"lockstep/blob"
	"lockstep/catalog"
	"lockstep/internal/faultclock"
	"lockstep/resourcesync"
	"lockstep/source"
)

const baseURL = "https://data.example.org/"

// A world is a catalog whose past is remembered, the documents published from
// it, and a clock.
type world struct {
	testing.TB
	cat   catalog.Catalog
	docs  blob.Store
	opts  source.Options
	clock *faultclock.Clock
	set   string
	live  map[string]string // URI to digest
	past  []moment
}

// A moment is what a set held from an event on.
type moment struct {
	at    time.Time
	state map[string]string
}

func newWorld(t testing.TB, o source.Options) *world {
	w := &world{TB: t, docs: &blob.Mem{}, clock: faultclock.New(time.Date(2026, 5, 1, 2, 0, 0, 0, time.UTC)), live: map[string]string{}}
	w.cat = catalog.NewMem(w.now)
	if o.BaseURL == "" {
		o.BaseURL = baseURL
	}
	o.Now = w.now
	w.opts = o
	set, err := source.CapabilityListURI(o.BaseURL, source.DefaultSet)
	if err != nil {
		t.Fatal(err)
	}
	w.set = set
	w.remember()
	return w
}

func (w *world) now() time.Time { return w.clock.Now() }

func (w *world) pass(d time.Duration) { w.clock.Step(d) }

func (w *world) source() *source.Source {
	w.Helper()
	s, err := source.New(w.cat, w.docs, w.opts)
	if err != nil {
		w.Fatal(err)
	}
	return s
}

func record(uri, content string) catalog.Record {
	sum := sha256.Sum256([]byte(content))
	h := resourcesync.Hash{Algorithm: resourcesync.SHA256, Digest: string(sum[:])}
	return catalog.Record{
		URI: uri, Length: int64(len(content)), Type: "text/plain", Hashes: resourcesync.Hashes{h},
		Lastmod: time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC),
	}
}

// digest is what the crawl compares.
func digest(length int64, hs resourcesync.Hashes) string {
	return fmt.Sprintf("%d %x", length, hs.Get(resourcesync.SHA256))
}

// put changes the set, one change after the other, for every state counts:
// each word "name=content" puts, "name" alone deletes.
func (w *world) put(words ...string) {
	w.Helper()
	for _, word := range words {
		name, content, put := strings.Cut(word, "=")
		u := catalog.Update{Record: record(w.opts.BaseURL+name, content), Deleted: !put}
		if put {
			w.live[u.URI] = digest(u.Length, u.Hashes)
		} else {
			delete(w.live, u.URI)
		}
		w.apply(u)
		w.remember()
	}
}

// fill puts n resources at once.
func (w *world) fill(format string, n int) {
	w.Helper()
	us := make([]catalog.Update, n)
	for i := range us {
		us[i].Record = record(fmt.Sprintf(w.opts.BaseURL+format, i), "x")
		w.live[us[i].URI] = digest(us[i].Length, us[i].Hashes)
	}
	w.apply(us...)
	w.remember()
}

func (w *world) apply(us ...catalog.Update) {
	w.Helper()
	if _, err := w.cat.Apply(context.Background(), w.set, us); err != nil {
		w.Fatal(err)
	}
}

func (w *world) remember() {
	st, err := w.cat.Status(context.Background(), w.set)
	if err != nil {
		w.Fatal(err)
	}
	w.past = append(w.past, moment{st.LastTime, maps.Clone(w.live)})
}

// stateAt returns what the set held at t.
func stateAt(past []moment, t time.Time) map[string]string {
	var state map[string]string
	for _, m := range past {
		if !m.at.After(t) {
			state = m.state
		}
	}
	return state
}

func (w *world) publish(s *source.Source) source.Report {
	w.Helper()
	r, err := s.Publish(context.Background())
	if err != nil {
		w.Fatal(err)
	}
	return r
}

// A crawl is all that a reader finds.
type crawl struct {
	read     func(name string) ([]byte, error)
	known    map[string]known // by name and content; nil: none
	names    []string         // documents read
	at, from time.Time
	last     time.Time // event time of the newest change
	state    map[string]string
	events   []string
	all      []resourcesync.Entry // all changes
	parts    int
	closed   int
}

var errNothing = errors.New("nothing is published yet")

// crawlAll walks the documents from the Source Description down, as a strict
// reader does, and returns what they say; an error is something a Source must
// never let happen.
func crawlAll(read func(name string) ([]byte, error)) (*crawl, error) {
	c := &crawl{read: read, state: make(map[string]string)}
	h, entries, err := c.document(".well-known/resourcesync", resourcesync.Description)
	if errors.Is(err, blob.ErrNotExist) {
		return nil, errNothing
	}
	if err != nil {
		return nil, err
	}
	if h.Index || len(entries) != 1 {
		return nil, fmt.Errorf("source description: index %v, %d entries", h.Index, len(entries))
	}
	return c, c.set(name(entries[0].Loc))
}

// crawlSet walks the documents of one set. known may be nil.
func crawlSet(read func(name string) ([]byte, error), set string, known map[string]known) (*crawl, error) {
	c := &crawl{read: read, known: known, state: make(map[string]string)}
	list, err := source.CapabilityListURI(baseURL, set)
	if err != nil {
		return nil, err
	}
	if _, err := read(name(list)); errors.Is(err, blob.ErrNotExist) {
		return nil, errNothing
	}
	return c, c.set(name(list))
}

// set walks from a Capability List down. What it names must be there, and all
// of it must tell of the same resources (RS-CL-03).
func (c *crawl) set(list string) error {
	h, entries, err := c.document(list, resourcesync.CapabilityList)
	if err != nil {
		return err
	}
	named := make(map[resourcesync.Capability]string)
	for _, e := range entries {
		named[e.Capability] = name(e.Loc)
	}
	lists, changes := named[resourcesync.ResourceList], named[resourcesync.ChangeList]
	if h.Link("up") != baseURL+".well-known/resourcesync" || lists == "" || changes == "" {
		return fmt.Errorf("capability list: up %q, %d entries", h.Link("up"), len(entries))
	}
	if err := c.resources(lists); err != nil {
		return err
	}
	if err := c.changes(changes); err != nil {
		return err
	}
	if dump := named[resourcesync.ResourceDump]; dump != "" {
		return c.dump(dump)
	}
	return nil
}

// dump reads the manifests of a Resource Dump: with the changes since, they
// tell what the Resource List tells.
func (c *crawl) dump(list string) error {
	h, entries, err := c.document(list, resourcesync.ResourceDump)
	if err != nil {
		return err
	}
	d := crawl{at: h.At.Time(), state: make(map[string]string), all: c.all}
	if h.Index {
		var packages []resourcesync.Entry
		for _, part := range entries {
			_, pe, err := c.document(name(part.Loc), resourcesync.ResourceDump)
			if err != nil {
				return err
			}
			packages = append(packages, pe...)
		}
		entries = packages
	}
	if c.from.After(d.at) {
		return fmt.Errorf("change list from %s does not cover the resource dump's at %s", c.from, d.at)
	}
	for _, p := range entries {
		if _, err := c.read(name(p.Loc)); err != nil {
			return fmt.Errorf("package %s: %w", p.Loc, err)
		}
		ph, pe, err := c.document(name(p.Link("contents")), resourcesync.ResourceDumpManifest)
		if err != nil {
			return err
		}
		if err := d.list(p.Loc, ph, pe); err != nil {
			return err
		}
	}
	d.apply(c.all)
	if !maps.Equal(c.state, d.state) {
		return fmt.Errorf("the resource dump of %s tells of %d resources, the resource list of %d", h.At, len(d.state), len(c.state))
	}
	return nil
}

func name(uri string) string { return strings.TrimPrefix(uri, baseURL) }

func (c *crawl) document(name string, capability resourcesync.Capability) (resourcesync.Header, []resourcesync.Entry, error) {
	data, err := c.read(name)
	if err != nil {
		return resourcesync.Header{}, nil, fmt.Errorf("%s: %w", name, err)
	}
	c.names = append(c.names, name)
	if known, ok := c.known[name+string(data)]; ok && known.h.Capability == capability {
		return known.h, known.entries, nil
	}
	r := resourcesync.NewReader(bytes.NewReader(data), resourcesync.ReaderOptions{Base: baseURL + name, Strict: true})
	h, err := r.Header()
	if err != nil {
		return h, nil, fmt.Errorf("%s: %w", name, err)
	}
	if h.Capability != capability {
		return h, nil, fmt.Errorf("%s: capability %s, want %s", name, h.Capability, capability)
	}
	var entries []resourcesync.Entry
	for e, err := range r.Entries() {
		if err != nil {
			return h, nil, fmt.Errorf("%s: %w", name, err)
		}
		entries = append(entries, e)
	}
	if c.known != nil {
		c.known[name+string(data)] = known{h, entries}
	}
	return h, entries, nil
}

// known is a document that was read before, and found to be right.
type known struct {
	h       resourcesync.Header
	entries []resourcesync.Entry
}

func (c *crawl) resources(list string) error {
	h, entries, err := c.document(list, resourcesync.ResourceList)
	if err != nil {
		return err
	}
	c.at = h.At.Time()
	if !h.Index {
		return c.list(list, h, entries)
	}
	c.parts = len(entries)
	for _, part := range entries {
		ph, pe, err := c.document(name(part.Loc), resourcesync.ResourceList)
		if err != nil {
			return err
		}
		copied := part.Loc[:strings.LastIndexByte(part.Loc, '-')] + ".xml" // where the list is archived
		if index := ph.Link("index"); ph.Index || ph.At.Compare(h.At) < 0 || part.At != ph.At || ph.At.Compare(h.Completed) > 0 || part.Lastmod.IsZero() || index != baseURL+list && index != copied {
			return fmt.Errorf("part %s: at %s, entry says %s, index %s", part.Loc, ph.At, part.At, h.At)
		}
		if err := c.list(part.Loc, ph, pe); err != nil {
			return err
		}
	}
	return nil
}

func (c *crawl) list(name string, h resourcesync.Header, entries []resourcesync.Entry) error {
	if h.Link("up") == "" {
		return fmt.Errorf("%s: no up", name)
	}
	for _, e := range entries {
		if _, twice := c.state[e.Loc]; twice {
			return fmt.Errorf("%s: %s is listed twice", name, e.Loc)
		}
		c.state[e.Loc] = digest(e.Length, e.Hashes)
	}
	return nil
}

func (c *crawl) changes(list string) error {
	h, entries, err := c.document(list, resourcesync.ChangeList)
	if err != nil {
		return err
	}
	c.from = h.From.Time()
	if c.from.After(c.at) {
		return fmt.Errorf("change list from %s does not cover the resource list's at %s", c.from, c.at)
	}
	if !h.Index {
		return c.replay(list, h, entries)
	}
	until := h.From
	for i, part := range entries {
		ph, pe, err := c.document(name(part.Loc), resourcesync.ChangeList)
		if err != nil {
			return err
		}
		if ph.From != until || part.From != until || ph.Link("index") != baseURL+list {
			return fmt.Errorf("part %s: from %s, entry says %s, want %s", part.Loc, ph.From, part.From, until)
		}
		if last := i == len(entries)-1; last != part.Until.IsZero() || !last && ph.Until != part.Until {
			return fmt.Errorf("part %d of %d: until %s, entry says %s", i, len(entries), ph.Until, part.Until)
		}
		until = ph.Until
		if !until.IsZero() {
			c.closed++
		}
		if err := c.replay(part.Loc, ph, pe); err != nil {
			return err
		}
	}
	return nil
}

func (c *crawl) replay(name string, h resourcesync.Header, entries []resourcesync.Entry) error {
	for _, e := range entries {
		at := e.Datetime.Time()
		if !at.After(c.last) || !at.After(h.From.Time()) || !h.Until.IsZero() && !at.Before(h.Until.Time()) {
			return fmt.Errorf("%s: event at %s after %s in [%s, %s)", name, e.Datetime, c.last, h.From, h.Until)
		}
		c.last = at
		c.events = append(c.events, fmt.Sprintf("%s %s %s", e.Change, strings.TrimPrefix(e.Loc, baseURL), e.Datetime))
	}
	c.all = append(c.all, entries...)
	c.apply(entries)
	return nil
}

// apply makes those of the changes true that the list does not tell of.
func (c *crawl) apply(changes []resourcesync.Entry) {
	for _, e := range changes {
		switch {
		case e.Datetime.Time().Before(c.at):
		case e.Change == resourcesync.Deleted:
			delete(c.state, e.Loc)
		default:
			c.state[e.Loc] = digest(e.Length, e.Hashes)
		}
	}
}

// check compares what a crawl found with the past.
func (c *crawl) check(past []moment) error {
	when := c.last
	if c.at.After(when) {
		when = c.at
	}
	if want := stateAt(past, when); !maps.Equal(c.state, want) {
		return fmt.Errorf("crawl of %s (resource list at %s, changes to %s): %d resources, want %d",
			strings.Join(c.names, " "), c.at, c.last, len(c.state), len(want))
	}
	return nil
}

func reader(docs blob.Store) func(name string) ([]byte, error) {
	return func(name string) ([]byte, error) {
		r, err := docs.Open(context.Background(), name)
		if err != nil {
			return nil, err
		}
		defer r.Close()
		return io.ReadAll(r)
	}
}

// crawl reads what is published and compares it with the past.
func (w *world) crawl() *crawl {
	w.Helper()
	c, err := crawlAll(reader(w.docs))
	if err == nil {
		err = c.check(w.past)
	}
	if err != nil {
		w.Fatal(err)
	}
	return c
}

// upToDate crawls and requires the catalog's present.
func (w *world) upToDate() *crawl {
	w.Helper()
	c := w.crawl()
	if !maps.Equal(c.state, w.live) {
		w.Fatalf("documents say %v, want %v", c.state, w.live)
	}
	return c
}

// files returns all blobs with their content and times.
func (w *world) files() map[string]string {
	w.Helper()
	all := make(map[string]string)
	for info, err := range w.docs.List(context.Background(), "") {
		if err != nil {
			w.Fatal(err)
		}
		data, err := reader(w.docs)(info.Name)
		if err != nil {
			w.Fatal(err)
		}
		all[info.Name] = info.ModTime.String() + "\n" + string(data)
	}
	return all
}

func (w *world) names(prefix string) []string {
	var names []string
	for name := range w.files() {
		if strings.HasPrefix(name, prefix) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}
