package transfer

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
	"lockstep/destination/internal/plan"
	"lockstep/destination/internal/wording"
	"lockstep/internal/fetch"
	"lockstep/memento"
	"lockstep/resourcesync"
	"lockstep/websub"
)

// HasKept reports whether the content of a is among the versions that the mirror
// stores.
func (f *Fetcher) HasKept(ctx context.Context, a *plan.Action) bool {
	r, err := f.OpenKept(ctx, a.URI, a.Hashes, a.Length)
	if err != nil {
		return false
	}
	_ = r.Close() // only its existence matters
	return true
}

// fromKept takes the content from the stored versions. It reports false if they do
// not have it.
func (p *pastSearch) fromKept(ctx context.Context) (Outcome, bool) {
	if !content.HasKnown(p.t.a.Hashes) {
		return Outcome{}, false
	}
	r, err := p.t.OpenKept(ctx, p.t.a.URI, p.t.a.Hashes, p.t.a.Length)
	if err != nil {
		p.miss("a version that was kept", "", err)
		return Outcome{}, false
	}
	defer r.Close()
	o := p.t.copy(ctx, r)
	if o.Err == nil || content.IsLocal(o.Err) || ctx.Err() != nil {
		o.By = ByKept
		return o, true
	}
	p.miss("a version that was kept", "", o.Err)
	return Outcome{}, false
}

// miss records why one source of content of a former state failed; uri is its
// address or "". It leaves out information that the message contains anyway.
func (p *pastSearch) miss(where, uri string, err error) {
	if errors.Is(err, fs.ErrNotExist) || len(p.missed) == mostMissed {
		return
	}
	text := strings.TrimPrefix(err.Error(), "get "+fetch.Printable(uri)+": ")
	if wrong, ok := errors.AsType[*content.Error](err); ok {
		text = "another content, by its " + wrong.What
	}
	p.missed = append(p.missed, where+": "+text)
}

// mostMissed is the number of failed attempts that a message lists.
const mostMissed = 8

// A pastSearch looks for content of a former state everywhere it may be available.
type pastSearch struct {
	t            *transfer
	missed       []string // why content was unavailable
	renegotiated bool     // the resource was asked again as its own TimeGate
}

// A pastPlace is an address at which content of a former state may be available.
type pastPlace struct {
	uri    string
	at     time.Time // instant to negotiate for; zero: no negotiation
	asOf   time.Time // instant at which the version there is known to have been current; zero: not known
	own    bool      // it is the address of the resource itself
	proven bool      // the link to it is sufficient proof of its version
}

// ofThePast gets content of a former state (RA-DST-03). It tries in this order: the
// stored versions; the memento that is named; the version that a TimeGate returns;
// the current content at the address of the resource, if its hash shows that it has
// not changed.
func (p *pastSearch) ofThePast(ctx context.Context) Outcome {
	p.t.algs = p.t.Hashers.Algorithms(p.t.a.Hashes)
	p.t.hasher = p.t.Hashers.Get(p.t.algs)
	defer func() { p.t.Hashers.Put(p.t.algs, p.t.hasher) }()
	ways := p.pastPlaces()
	tried, maps := map[string]bool{}, timeMaps(p.t.a.Links)
	for i := 0; i <= len(ways); i++ {
		if i == len(ways) {
			if ways = append(ways, p.listed(ctx, maps, tried)...); i == len(ways) {
				break
			}
		}
		err := p.fromPast(ctx, &ways[i])
		switch {
		case err == nil:
			o := p.t.finish()
			if !ways[i].own {
				o.By = ByMemento
			}
			return o
		case ctx.Err() != nil || content.IsLocal(err):
			p.t.leave(err)
			return Outcome{Err: err}
		}
		p.t.drop()
		if tried[ways[i].uri] = true; ways[i].own {
			named, more := p.placesNamed(&ways[i], err, tried)
			ways, maps = append(ways, named...), append(maps, more...)
		}
		p.miss(ways[i].String(), ways[i].uri, err)
	}
	for _, mirror := range p.elsewhere() {
		if err := p.t.from(ctx, mirror); err == nil {
			return p.t.finish()
		} else if ctx.Err() != nil || content.IsLocal(err) {
			p.t.leave(err)
			return Outcome{Err: err}
		}
		p.t.drop()
	}
	return Outcome{Err: p.unavailable(), Stale: p.t.OtherMethods}
}

// unavailable returns an error that says why the content is unavailable (ME-RS-08).
func (p *pastSearch) unavailable() error {
	when := ""
	if at := p.eventOf(); !at.IsZero() {
		when = " of " + wording.Time(at)
	}
	why := "no server has kept it"
	if len(p.missed) > 0 {
		why = strings.Join(p.missed, "; ")
	}
	if !content.HasKnown(p.t.a.Hashes) {
		why += "; without a hash what is there now cannot be known to be it"
	}
	return fmt.Errorf("get %s: its version%s is not available: %s", fetch.Printable(p.t.a.URI), when, why)
}

// eventOf returns when the requested version was created, or zero if that is
// unknown.
func (p *pastSearch) eventOf() time.Time {
	if at := p.t.a.Event.Time(); !at.IsZero() {
		return at
	}
	return p.t.a.Lastmod.Time()
}

// pastPlaces returns the addresses at which the content may be available, best
// first.
func (p *pastSearch) pastPlaces() []pastPlace {
	var named, gates []pastPlace
	var left = map[string]int{resourcesync.RelMemento: maxGates, plan.RelTimeGate: maxGates}
	for _, l := range p.t.a.Links {
		if left[l.Rel] == 0 || !p.t.mayAsk(l.Href) {
			continue
		}
		if left[l.Rel]--; l.Rel == resourcesync.RelMemento {
			named = append(named, pastPlace{uri: l.Href, proven: true})
		} else {
			gates = append(gates, p.gatePlaces(l.Href)...)
		}
	}
	own := p.gatePlaces(p.t.a.Address())[0] // the resource may be its own TimeGate (ME-GEN-03)
	own.own = true
	return append(append(named, gates...), own)
}

// mayAsk reports whether a version may be requested at uri: from hosts that the
// Source may name, and from other hosts if a hash can verify the content.
func (t *transfer) mayAsk(uri string) bool {
	u, err := url.Parse(uri)
	if err != nil || u.Host == "" || !t.Shared.hosts.usable(u.Host) {
		return false
	}
	return t.Refuse == nil || t.Refuse(uri) == "" || farEnough(u, t.a.URI) && isStrong(t.a.Hashes)
}

// gatePlaces returns a TimeGate with the instants to request: right after the
// version was created (ME-HD-03), and the instant of the requested state. Without a hash
// it is the other way round, and the former is the end of the second of the creation.
func (p *pastSearch) gatePlaces(gate string) []pastPlace {
	var ways []pastPlace
	end := p.t.AsOf.UTC().Truncate(time.Second)
	instants := []time.Time{upToSecond(p.t.a.Lastmod.Time()), upToSecond(p.t.a.Event.Time()), end}
	if !content.HasKnown(p.t.a.Hashes) {
		instants = []time.Time{end, p.eventOf().UTC().Truncate(time.Second).Add(time.Second)}
	}
	for _, at := range instants {
		if at.Year() > 1 && at.Year() < 9999 && !slices.ContainsFunc(ways, func(w pastPlace) bool { return w.at.Equal(at) }) {
			ways = append(ways, pastPlace{uri: gate, at: at, asOf: at})
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
func (p *pastSearch) fromPast(ctx context.Context, w *pastPlace) error {
	p.t.at = location{uri: w.uri, mirror: !w.own}
	p.t.narrow, p.t.undo = !w.at.IsZero(), false
	r := fetch.Request{}
	if !w.at.IsZero() {
		r.Header = http.Header{"Accept-Datetime": {memento.FormatDatetime(w.at)}}
	}
	p.t.vet = nil
	if !content.HasKnown(p.t.a.Hashes) && !w.proven { // ME-RS-09
		p.t.vet = func(resp *fetch.Response) error { return p.fitsTime(resp, w.asOf) }
	}
	defer func() { p.t.vet = nil }()
	err := p.t.attempt(ctx, r, true)
	p.noteHost(w, err)
	return err
}

// noteHost records failures of other hosts, so that not every version waits for
// them again. A response that they do not have a version is not a failure.
func (p *pastSearch) noteHost(w *pastPlace, err error) {
	u, perr := url.Parse(w.uri)
	own, oerr := url.Parse(p.t.a.URI)
	if w.own || perr != nil || oerr != nil || u.Host == own.Host {
		return
	}
	status, ok := errors.AsType[*fetch.StatusError](err)
	_, wrong := errors.AsType[*content.Error](err)
	if wrong || ok && status.Status < http.StatusInternalServerError && status.Status != http.StatusTooManyRequests || errors.Is(err, errNoVersionThere) {
		return
	}
	p.t.Shared.hosts.note(u.Host, err)
}

// fitsTime checks that a response contains the requested version if there is no hash to
// verify it. The Source's documents say that this is the version that was current from its
// event until the requested instant. A response is certainly that version if its time is
// after the second of the event, and not in the second of that instant or later: a
// Memento-Datetime has no fraction. One of the second of the event, or of the lastmod, may be
// another version of that second, unless it was current at an instant after the event,
// asOf, that is not after the requested one.
func (p *pastSearch) fitsTime(resp *fetch.Response, asOf time.Time) error {
	header := resp.Header.Get("Memento-Datetime")
	if header == "" {
		return errNoVersionThere
	}
	at, err := memento.ParseDatetime(header)
	if err != nil {
		return fmt.Errorf("its Memento-Datetime %s is no date", fetch.Printable(header))
	}
	event := p.eventOf().Truncate(time.Second)
	switch {
	case at.After(event) && !at.After(p.t.AsOf.Add(-time.Second)):
		return nil
	case !at.Equal(event) && !at.Equal(p.t.a.Lastmod.Time().Truncate(time.Second)):
		return fmt.Errorf("it is of %s", wording.Time(at))
	case !asOf.After(event) || asOf.After(p.t.AsOf):
		return fmt.Errorf("it is of %s, and may be another version of that second", wording.Time(at))
	}
	return nil
}

// errNoVersionThere reports a response that does not state its version's time.
var errNoVersionThere = errors.New("it does not say of when it is")

// placesNamed returns the addresses named in a response of the resource itself,
// even an error response: TimeGates (ME-LK-02, ME-LK-07); the resource itself, with
// other instants, if it is a TimeGate; and TimeMaps.
func (p *pastSearch) placesNamed(own *pastPlace, err error, tried map[string]bool) (ways []pastPlace, maps []string) {
	header := p.t.header
	if status, ok := errors.AsType[*fetch.StatusError](err); ok {
		header = status.Header
	}
	base, perr := url.Parse(own.uri)
	if header == nil || perr != nil {
		return nil, nil
	}
	if negotiates(header) && !p.renegotiated {
		p.renegotiated = true
		for _, w := range p.gatePlaces(own.uri) {
			if w.own = true; !w.at.Equal(own.at) {
				ways = append(ways, w)
			}
		}
	}
	left := maxGates
	for _, l := range websub.ParseLinks(header.Values("Link"), base) {
		if l.Has(plan.RelTimeGate) && !tried[l.Target] && left > 0 && p.t.mayAsk(l.Target) {
			tried[l.Target] = true
			left--
			ways = append(ways, p.gatePlaces(l.Target)...)
		}
	}
	return ways, mapsNamed(own.uri, header)
}

// negotiates reports whether a response comes from a TimeGate, or from an address
// to which one redirected.
func negotiates(header http.Header) bool {
	return header.Get("Memento-Datetime") != "" || strings.Contains(strings.ToLower(strings.Join(header.Values("Vary"), ",")), "accept-datetime")
}

// maxGates is the number of mementos, and of TimeGates, that are tried among those
// named for one resource: a Source may name any number (ME-RS-01).
const maxGates = 3

// elsewhere returns mirrors of the resource, if a hash can verify that their
// content is that of the requested version.
func (p *pastSearch) elsewhere() []location {
	if !content.HasKnown(p.t.a.Hashes) {
		return nil
	}
	return slices.DeleteFunc(p.t.locations(), func(p location) bool { return !p.mirror })
}

// String returns the address as text for messages.
func (w *pastPlace) String() string {
	switch {
	case w.own:
		return "what is there now"
	case w.at.IsZero():
		return "its memento " + fetch.Printable(w.uri)
	}
	return fmt.Sprintf("its TimeGate %s for %s", fetch.Printable(w.uri), wording.Time(w.at))
}
