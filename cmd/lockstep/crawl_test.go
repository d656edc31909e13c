package main

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os/exec"
	"strings"
	"testing"
	"time"

	"lockstep/resourcesync"
)

// A livingSource is `lockstep serve` at one address, however often it is
// killed and started again.
type livingSource struct {
	testing.TB
	dir, state string
	base       string // of all addresses
	args       []string
	p          *process // nil while it is not running
}

// newLivingSource starts a Source of the files in dir. Its address is one of
// the many of this machine itself, so that nobody takes the port while it is
// down; where there is only one, it takes that.
func newLivingSource(t testing.TB, dir, state string, args ...string) *livingSource {
	t.Helper()
	s := &livingSource{TB: t, dir: dir, state: state, args: args}
	t.Cleanup(func() { s.kill() })
	listen := fmt.Sprintf("127.%d.%d.%d:0", 1+rand.IntN(250), rand.IntN(250), 1+rand.IntN(250))
	p, err := startReady(s.command(listen))
	if err != nil {
		p, err = startReady(s.command("127.0.0.1:0"))
	}
	if err != nil {
		t.Fatal(err)
	}
	s.p, s.base = p, p.address
	return s
}

func (s *livingSource) command(listen string) *exec.Cmd {
	return exec.Command("lockstep", append([]string{"serve", s.dir, "-q", "--hidden", "--listen", listen, "--state", s.state}, s.args...)...)
}

// again is the command that serves at the same address once more.
func (s *livingSource) again() *exec.Cmd {
	return s.command(strings.Trim(strings.TrimPrefix(s.base, "http://"), "/"))
}

// start starts a Source that was killed, and waits until it serves.
func (s *livingSource) start() {
	s.Helper()
	p, err := startReady(s.again())
	if err != nil {
		s.Fatal(err)
	}
	s.p = p
}

func (s *livingSource) kill() {
	if s.p != nil {
		s.p.kill()
		s.p = nil
	}
}

// restart kills the Source, now and then a second time before it serves, and starts
// it.
func (s *livingSource) restart() {
	s.Helper()
	s.kill()
	if rand.IntN(3) == 0 {
		cmd := s.again()
		if err := cmd.Start(); err != nil {
			s.Fatal(err)
		}
		time.Sleep(time.Duration(rand.IntN(100)) * time.Millisecond)
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // it was killed
	}
	s.start()
}

// A crawl is what a reader of all documents of a Source finds.
type crawl struct {
	base      string
	documents map[string]string // by name
	at        time.Time         // of the Resource List
	from      time.Time         // of the Change List
	state     map[string]string // URI to digest: the Resource List, with later changes applied
	events    []changeEvent     // all of the Change List
}

type changeEvent struct {
	uri    string
	change resourcesync.Change
	at     time.Time
	digest string
}

// listed reports whether the Resource List alone has all changes, as that of a small set soon has.
func (c *crawl) listed() bool {
	n := len(c.events)
	return n == 0 || !c.at.Before(c.events[n-1].at)
}

// errDown reports a Source that does not run, or died while it answered.
var errDown = errors.New("the Source does not answer")

// errUncovered reports a Change List that does not reach back to the Resource List. It may do so for a moment
// only when the history restarts: one of the two was read, or written, before that.
var errUncovered = errors.New("the Change List does not cover the Resource List")

// crawlSource reads all documents of the Source at base, as a strict reader
// does. Any error but errDown is something a Source must never let happen.
func crawlSource(base string) (*crawl, error) {
	c := &crawl{base: base, documents: make(map[string]string), state: make(map[string]string)}
	_, entries, err := c.document(base+".well-known/resourcesync", resourcesync.Description)
	if err != nil {
		return nil, err
	}
	if len(entries) != 1 {
		return nil, fmt.Errorf("the Source Description has %d entries", len(entries))
	}
	if _, entries, err = c.document(entries[0].Loc, resourcesync.CapabilityList); err != nil {
		return nil, err
	}
	if len(entries) < 2 || len(entries) > 3 || len(entries) == 3 && entries[2].Capability != resourcesync.ChangeNotification {
		return nil, fmt.Errorf("the Capability List has %d entries", len(entries))
	}
	if err := c.resources(entries[0].Loc, time.Time{}); err != nil {
		return nil, err
	}
	h, err := c.changes(entries[1].Loc)
	if err != nil {
		return nil, err
	}
	if c.from = h.From.Time(); c.from.After(c.at) {
		return nil, fmt.Errorf("%w: it begins at %s, the Resource List is of %s", errUncovered, c.from, c.at)
	}
	return c, nil
}

func (c *crawl) document(uri string, capability resourcesync.Capability) (h resourcesync.Header, entries []resourcesync.Entry, err error) {
	text, err := load(uri)
	if err != nil {
		return h, nil, err
	}
	c.documents[strings.TrimPrefix(uri, c.base)] = string(text)
	r := resourcesync.NewReader(bytes.NewReader(text), resourcesync.ReaderOptions{Base: uri, Strict: true})
	if h, err = r.Header(); err != nil {
		return h, nil, fmt.Errorf("%s: %w", uri, err)
	}
	if h.Capability != capability {
		return h, nil, fmt.Errorf("%s: capability %s, want %s", uri, h.Capability, capability)
	}
	for e, err := range r.Entries() {
		if err != nil {
			return h, nil, fmt.Errorf("%s: %w", uri, err)
		}
		entries = append(entries, e)
	}
	return h, entries, nil
}

// load returns what is at uri.
func load(uri string) ([]byte, error) {
	resp, err := http.Get(uri)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errDown, err)
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errDown, err)
	}
	if resp.StatusCode == http.StatusServiceUnavailable && resp.Header.Get("Retry-After") != "" {
		return nil, fmt.Errorf("%w: %s is starting", errDown, uri)
	}
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: status %d", uri, resp.StatusCode)
	}
	return text, nil
}

// resources reads the Resource List at uri, or the parts of its Index; index
// is the at of the Index it belongs to.
func (c *crawl) resources(uri string, index time.Time) error {
	h, entries, err := c.document(uri, resourcesync.ResourceList)
	if err != nil {
		return err
	}
	switch at := h.At.Time(); {
	case index.IsZero():
		c.at = at
	case h.Index || at.Before(index):
		return fmt.Errorf("%s: part at %s of an Index at %s", uri, at, index)
	}
	for _, e := range entries {
		if h.Index {
			if err := c.resources(e.Loc, c.at); err != nil {
				return err
			}
			continue
		}
		if _, twice := c.state[e.Loc]; twice {
			return fmt.Errorf("%s: %s is listed twice", uri, e.Loc)
		}
		c.state[e.Loc] = digestOf(e)
	}
	return nil
}

// changes reads the Change List at uri, or the parts of its Index.
func (c *crawl) changes(uri string) (resourcesync.Header, error) {
	h, entries, err := c.document(uri, resourcesync.ChangeList)
	if err != nil {
		return h, err
	}
	until := h.From
	for _, e := range entries {
		if h.Index {
			part, err := c.changes(e.Loc)
			if err != nil {
				return h, err
			}
			if part.Index || part.From != until {
				return h, fmt.Errorf("%s: part from %s, want %s", e.Loc, part.From, until)
			}
			until = part.Until
			continue
		}
		if err := c.event(uri, h, e); err != nil {
			return h, err
		}
	}
	return h, nil
}

func (c *crawl) event(uri string, h resourcesync.Header, e resourcesync.Entry) error {
	ev := changeEvent{e.Loc, e.Change, e.Datetime.Time(), digestOf(e)}
	if !ev.at.After(h.From.Time()) || !h.Until.IsZero() && !ev.at.Before(h.Until.Time()) {
		return fmt.Errorf("%s: event at %s, not within [%s, %s)", uri, e.Datetime, h.From, h.Until)
	}
	if n := len(c.events); n > 0 && !ev.at.After(c.events[n-1].at) {
		return fmt.Errorf("%s: event at %s after one at %s", uri, e.Datetime, c.events[n-1].at)
	}
	c.events = append(c.events, ev)
	if ev.at.Before(c.at) {
		return nil
	}
	if ev.change == resourcesync.Deleted {
		delete(c.state, ev.uri)
	} else {
		c.state[ev.uri] = ev.digest
	}
	return nil
}

// digestOf is what tells one content from another.
func digestOf(e resourcesync.Entry) string {
	return fmt.Sprintf("%d %x", e.Length, e.Hashes.Get(resourcesync.SHA256))
}

// digest is the digestOf the entry for a file with that text.
func digest(text string) string {
	return fmt.Sprintf("%d %x", len(text), sha256.Sum256([]byte(text)))
}

// follow applies the events from the n-th on to state, as a follower does that
// saw all before: each has to fit what it holds.
func (c *crawl) follow(state map[string]string, n int) error {
	for _, e := range c.events[n:] {
		held, there := state[e.uri]
		if there != (e.change != resourcesync.Created) {
			return fmt.Errorf("%s %s at %s, but it is there: %v", e.change, e.uri, e.at, there)
		}
		if e.change == resourcesync.Deleted {
			delete(state, e.uri)
			continue
		}
		if e.digest == held {
			return fmt.Errorf("%s %s at %s to what it was", e.change, e.uri, e.at)
		}
		state[e.uri] = e.digest
	}
	return nil
}

// rel returns the file that a URI of the Source at base stands for.
func rel(base, uri string) string {
	path, err := url.PathUnescape(strings.TrimPrefix(uri, base))
	if err != nil {
		return "?" + uri
	}
	return path
}
