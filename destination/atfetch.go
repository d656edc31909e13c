package destination

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"lockstep/destination/internal/content"
	"lockstep/destination/internal/wording"
	"lockstep/internal/fetch"
	"lockstep/memento"
	"lockstep/resourcesync"
	"lockstep/websub"
)

// relTimeGate is the relation of links to what negotiates for versions of a
// resource (RS-REL-52).
const relTimeGate = "timegate"

// isPast reports whether l leads to versions of a resource, which are wanted.
func (d *Destination) isPast(l *resourcesync.Link) bool {
	return !d.opts.At.IsZero() && (l.Rel == relMemento || l.Rel == relTimeGate || l.Rel == relTimeMap)
}

// becomePast makes a the action for content of the past.
func (p *planner) becomePast(a *action) {
	if p.past.during && a.class == wantListed && a.Lastmod.Time().After(p.past.asOf) && (a.verb == verbFetch || a.verb == verbNone || a.verb == verbTouch) {
		a.verb, a.Refused = verbRefuse, "the list of that time was still being taken, and names a later version"
		return
	}
	if a.verb != verbFetch {
		return
	}
	a.rehash = false
	if a.conditional && a.Length >= 0 && a.Length == a.held.Length && sameLastmod(a.held.Lastmod, a.Lastmod) {
		a.verb, a.conditional = verbNone, false // RA-DST-06: there is nothing better to compare
		if !contains(a.held.Sets, p.set) {
			a.verb = verbTouch
		}
		return
	}
	a.conditional = false // the Source's validators are of what is there now
	if !canTell(a.Hashes) {
		a.chain = nil
	}
}

// hasMemento reports whether the version that is wanted is named.
func (a *action) hasMemento() bool {
	return slices.ContainsFunc(a.Links, func(l resourcesync.Link) bool { return l.Rel == relMemento })
}

// canTell reports whether content can be held against the hashes.
func canTell(hs resourcesync.Hashes) bool {
	return slices.ContainsFunc(hs, func(h resourcesync.Hash) bool {
		return h.Algorithm >= resourcesync.MD5 && h.Algorithm <= resourcesync.SHA512
	})
}

// keeps reports whether the content of a is among the versions kept.
func (f *fetcher) keeps(ctx context.Context, a *action) bool {
	r, err := f.past.from.keptContent(ctx, a.URI, a.Hashes, a.Length)
	if err != nil {
		return false
	}
	_ = r.Close() // it was only looked for
	return true
}

// fromKept takes the content from the versions kept. It reports false where they
// do not have it.
func (t *transfer) fromKept(ctx context.Context) (outcome, bool) {
	if !canTell(t.a.Hashes) {
		return outcome{}, false
	}
	r, err := t.past.from.keptContent(ctx, t.a.URI, t.a.Hashes, t.a.Length)
	if err != nil {
		t.miss("a version that was kept", "", err)
		return outcome{}, false
	}
	defer r.Close()
	o := t.copy(ctx, r)
	if o.err == nil || content.IsLocal(o.err) || ctx.Err() != nil {
		o.by = byKept
		return o, true
	}
	t.miss("a version that was kept", "", o.err)
	return outcome{}, false
}

// miss records why one method did not return content of the past, from uri if
// that is an address; it leaves out what the message contains anyway.
func (t *transfer) miss(where, uri string, err error) {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, errNoPast) || len(t.missed) == mostMissed {
		return
	}
	text := strings.TrimPrefix(err.Error(), "get "+fetch.Printable(uri)+": ")
	if wrong, ok := errors.AsType[*content.Error](err); ok {
		text = "another content, by its " + wrong.What
	}
	t.missed = append(t.missed, where+": "+text)
}

// mostMissed is how many failed methods a message lists.
const mostMissed = 8

// A pastWay is an address at which content of the past may be available.
type pastWay struct {
	uri    string
	at     time.Time // to be negotiated for; zero: it is not
	own    bool      // it is the address of the resource itself
	proven bool      // that it is named is proof enough of what it is
}

// ofThePast gets content of the past (RA-DST-03): from what was kept, otherwise
// the version that is named, otherwise the one a TimeGate names, otherwise the
// current content at the address of the resource, if its hash shows that it has
// not changed.
func (t *transfer) ofThePast(ctx context.Context) outcome {
	t.algs = content.Algorithms(t.a.Hashes)
	t.hasher = t.hashers.Get(t.algs)
	defer func() { t.hashers.Put(t.algs, t.hasher) }()
	ways := t.pastWays()
	tried, maps := map[string]bool{}, timeMaps(t.a.Links)
	for i := 0; i <= len(ways); i++ {
		if i == len(ways) {
			if ways = append(ways, t.listed(ctx, maps, tried)...); i == len(ways) {
				break
			}
		}
		err := t.fromPast(ctx, &ways[i])
		switch {
		case err == nil:
			o := t.finish()
			if !ways[i].own {
				o.by = byMemento
			}
			return o
		case ctx.Err() != nil || content.IsLocal(err):
			t.leave(err)
			return outcome{err: err}
		}
		t.drop()
		if tried[ways[i].uri] = true; ways[i].own {
			named, more := t.waysNamed(&ways[i], err, tried)
			ways, maps = append(ways, named...), append(maps, more...)
		}
		t.miss(ways[i].String(), ways[i].uri, err)
	}
	for _, p := range t.elsewhere() {
		if err := t.from(ctx, p); err == nil {
			return t.finish()
		} else if ctx.Err() != nil || content.IsLocal(err) {
			t.leave(err)
			return outcome{err: err}
		}
		t.drop()
	}
	return outcome{err: t.unavailable(), stale: t.lookOn}
}

// unavailable returns an error that says why the content is unavailable
// (ME-RS-08).
func (t *transfer) unavailable() error {
	when := ""
	if at := t.eventOf(); !at.IsZero() {
		when = " of " + wording.Time(at)
	}
	why := "no server has kept it"
	if len(t.missed) > 0 {
		why = strings.Join(t.missed, "; ")
	}
	if !canTell(t.a.Hashes) {
		why += "; without a hash what is there now cannot be known to be it"
	}
	return fmt.Errorf("get %s: its version%s is not available: %s", fetch.Printable(t.a.URI), when, why)
}

// eventOf returns when the requested version was created, as far as is known.
func (t *transfer) eventOf() time.Time {
	if at := t.a.event.Time(); !at.IsZero() {
		return at
	}
	return t.a.Lastmod.Time()
}

// pastWays returns where the content may be available, best first.
func (t *transfer) pastWays() []pastWay {
	var named, gates []pastWay
	var left = map[string]int{relMemento: maxGates, relTimeGate: maxGates}
	for _, l := range t.a.Links {
		if left[l.Rel] == 0 || !t.mayAsk(l.Href) {
			continue
		}
		if left[l.Rel]--; l.Rel == relMemento {
			named = append(named, pastWay{uri: l.Href, proven: true})
		} else {
			gates = append(gates, t.gateWays(l.Href)...)
		}
	}
	own := t.gateWays(t.a.address())[0] // it may be its own TimeGate (ME-GEN-03)
	own.own = true
	return append(append(named, gates...), own)
}

// mayAsk reports whether a version may be requested at uri: from hosts that the
// Source may name, and from others if a hash can verify the content.
func (t *transfer) mayAsk(uri string) bool {
	u, err := url.Parse(uri)
	if err != nil || u.Host == "" || !t.d.mirrors.usable(u.Host) {
		return false
	}
	return t.refuse == nil || t.refuse(uri) == "" || farEnough(u, t.a.URI) && isStrong(t.a.Hashes)
}

// gateWays returns the instants at which to ask a TimeGate: right after the
// version was created (ME-HD-03), and the instant of the requested state.
func (t *transfer) gateWays(gate string) []pastWay {
	var ways []pastWay
	for _, at := range []time.Time{upToSecond(t.a.Lastmod.Time()), upToSecond(t.a.event.Time()), t.asOf.UTC().Truncate(time.Second)} {
		if at.Year() > 1 && at.Year() < 9999 && !slices.ContainsFunc(ways, func(w pastWay) bool { return w.at.Equal(at) }) {
			ways = append(ways, pastWay{uri: gate, at: at})
		}
	}
	return ways
}

// upToSecond rounds t up to a whole second.
func upToSecond(t time.Time) time.Time {
	if s := t.Truncate(time.Second); !s.Equal(t) {
		return s.Add(time.Second)
	}
	return t
}

// fromPast gets the content from one address.
func (t *transfer) fromPast(ctx context.Context, w *pastWay) error {
	t.at = location{uri: w.uri, mirror: !w.own}
	t.narrow, t.undo = !w.at.IsZero(), false
	r := fetch.Request{}
	if !w.at.IsZero() {
		r.Header = http.Header{"Accept-Datetime": {memento.FormatDatetime(w.at)}}
	}
	t.vet = nil
	if !canTell(t.a.Hashes) && !w.proven { // ME-RS-09
		t.vet = t.fitsTime
	}
	defer func() { t.vet = nil }()
	err := t.attempt(ctx, r, true)
	t.noteHost(w, err)
	return err
}

// noteHost remembers which other hosts do not answer: each version would wait
// for them again. That they do not have one is an answer.
func (t *transfer) noteHost(w *pastWay, err error) {
	u, perr := url.Parse(w.uri)
	own, oerr := url.Parse(t.a.URI)
	if w.own || perr != nil || oerr != nil || u.Host == own.Host {
		return
	}
	status, ok := errors.AsType[*fetch.StatusError](err)
	_, wrong := errors.AsType[*content.Error](err)
	if wrong || ok && status.Status < http.StatusInternalServerError && status.Status != http.StatusTooManyRequests || errors.Is(err, errNoVersionThere) {
		return
	}
	t.d.mirrors.note(u.Host, err)
}

// fitsTime checks that an answer is of the requested version, where there is no
// hash to verify it by: its time must not be before that version, nor after the
// instant asked for.
func (t *transfer) fitsTime(resp *fetch.Response) error {
	header := resp.Header.Get("Memento-Datetime")
	if header == "" {
		return errNoVersionThere
	}
	at, err := memento.ParseDatetime(header)
	if err != nil {
		return fmt.Errorf("its Memento-Datetime %s is no date", fetch.Printable(header))
	}
	from := t.a.Lastmod.Time()
	if e := t.a.event.Time(); from.IsZero() || !e.IsZero() && e.Before(from) {
		from = e
	}
	if at.Before(from.Truncate(time.Second)) || at.After(upToSecond(t.asOf)) {
		return fmt.Errorf("it is of %s", wording.Time(at))
	}
	return nil
}

// errNoVersionThere reports an answer that does not say of when it is.
var errNoVersionThere = errors.New("it does not say of when it is")

// waysNamed returns the addresses that an answer of the resource itself names,
// even if the answer was an error: TimeGates (ME-LK-02, ME-LK-07); the resource
// itself, for other instants, if it is a TimeGate; and the TimeMaps it names.
func (t *transfer) waysNamed(own *pastWay, err error, tried map[string]bool) (ways []pastWay, maps []string) {
	header := t.header
	if status, ok := errors.AsType[*fetch.StatusError](err); ok {
		header = status.Header
	}
	base, perr := url.Parse(own.uri)
	if header == nil || perr != nil {
		return nil, nil
	}
	if negotiates(header) && !t.renegotiated {
		t.renegotiated = true
		for _, w := range t.gateWays(own.uri) {
			if w.own = true; !w.at.Equal(own.at) {
				ways = append(ways, w)
			}
		}
	}
	left := maxGates
	for _, l := range websub.ParseLinks(header.Values("Link"), base) {
		if l.Has(relTimeGate) && !tried[l.Target] && left > 0 && t.mayAsk(l.Target) {
			tried[l.Target] = true
			left--
			ways = append(ways, t.gateWays(l.Target)...)
		}
	}
	return ways, mapsNamed(own.uri, header)
}

// negotiates reports whether an answer is that of a TimeGate, or of what it led
// to.
func negotiates(header http.Header) bool {
	return header.Get("Memento-Datetime") != "" || strings.Contains(strings.ToLower(strings.Join(header.Values("Vary"), ",")), "accept-datetime")
}

// maxGates is how many mementos, and how many TimeGates, of those that are named
// of one resource are asked: a Source may name any number (ME-RS-01).
const maxGates = 3

// elsewhere returns mirrors of the resource, if a hash can verify that their
// content is that of the requested version.
func (t *transfer) elsewhere() []location {
	if !canTell(t.a.Hashes) {
		return nil
	}
	return slices.DeleteFunc(t.locations(), func(p location) bool { return !p.mirror })
}

// String returns the name of the address for messages.
func (w *pastWay) String() string {
	switch {
	case w.own:
		return "what is there now"
	case w.at.IsZero():
		return "its memento " + fetch.Printable(w.uri)
	}
	return fmt.Sprintf("its TimeGate %s for %s", fetch.Printable(w.uri), wording.Time(w.at))
}
