package validate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"io/fs"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"

	"lockstep/internal/sleep"
	"lockstep/resourcesync"
	"lockstep/validate/finding"
	"lockstep/validate/internal/visit"
	"lockstep/validate/opener"
)

// A sampled resource is one whose bytes are to be compared with its
// description.
type sampled struct {
	entry resourcesync.Entry
	doc   string // the Resource List that contains it
	at    string
}

// A sampler chooses resources at random while the lists are read, each with the
// same chance (Vitter's algorithm R).
type sampler struct {
	want   int
	rnd    *rand.Rand
	seen   int
	chosen []sampled
}

func (s *sampler) begin(o *visit.Settings, set string) {
	h := fnv.New64a()
	_, _ = io.WriteString(h, set) // never fails
	s.want, s.rnd = min(o.Sample, visit.MaxSample), rand.New(rand.NewPCG(o.Seed, h.Sum64()))
}

// offer offers a resource to the sampler.
func (s *sampler) offer(doc string, at func() string, e *resourcesync.Entry) {
	if s.want <= 0 {
		return
	}
	s.seen++
	i := len(s.chosen)
	if i < s.want {
		s.chosen = append(s.chosen, sampled{})
	} else if i = s.rnd.IntN(s.seen); i >= s.want {
		return
	}
	one := sampled{*e, doc, at()}
	one.entry.Hashes = slices.Clone(e.Hashes) // they are slices of a shared chunk
	one.entry.Links = slices.Clone(e.Links)
	s.chosen[i] = one
}

// beginAlone begins a sample of a document that is checked alone, for OnResource. It
// returns the function to which the entries are passed; nil: there is no sample.
func (s *sampler) beginAlone(o *visit.Settings) eachFunc {
	if o.OnResource == nil || o.Sample == 0 {
		return nil
	}
	s.begin(o, "")
	if o.Sample == visit.SampleAll {
		s.want = visit.MaxSample
	}
	return func(doc *document, at func() string, e *resourcesync.Entry) {
		if doc.kind&(finding.KindResourceList|finding.Events|finding.Manifests) != 0 && e.Change != resourcesync.Deleted {
			s.offer(doc.uri, at, e)
		}
	}
}

// pass passes the chosen resources to OnResource, several concurrently.
func (s *sampler) pass(ctx context.Context, o *visit.Settings) error {
	if len(s.chosen) == 0 {
		return nil
	}
	work := make(chan *resourcesync.Entry)
	var wg sync.WaitGroup
	for range o.Jobs {
		wg.Go(func() {
			for e := range work {
				if ctx.Err() == nil {
					o.OnResource(ctx, e)
				}
			}
		})
	}
	for i := range s.chosen {
		work <- &s.chosen[i].entry
	}
	close(work)
	wg.Wait()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}

// A doubt is a resource that differs from the Resource List: perhaps because it
// has changed since.
type doubt struct {
	sampled
	findings  []finding.Finding
	lastKnown resourcesync.Datetime // of the last change known when it was checked; zero: none
}

// sample compares resources with their descriptions. Differing resources are
// looked up in the Change List, once now and once a little later: a resource may
// change at any time, and the Change List may be updated with a delay. If it
// then has a new change, the resource cannot be judged.
func (s *set) sample(ctx context.Context) error {
	if s.visitor.Settings.Sample == 0 || len(s.listDocs) == 0 {
		return nil
	}
	doubts, err := s.compareAll(ctx)
	if err != nil {
		return err
	}
	for round := 0; len(doubts) > 0 && len(s.changeDocs) > 0 && round < 2; round++ {
		if round > 0 {
			if err := sleep.For(ctx, s.visitor.Settings.Settle); err != nil {
				return err
			}
		}
		if doubts, err = s.reconsider(ctx, doubts); err != nil {
			return err
		}
	}
	if len(doubts) > 0 && len(s.changeDocs) > 0 {
		if err := sleep.For(ctx, s.visitor.Settings.Settle); err != nil {
			return err
		}
		newest, err := s.newestChanges(ctx, doubts)
		if err != nil {
			return err
		}
		doubts = slices.DeleteFunc(doubts, func(d doubt) bool {
			e := newest[d.entry.Loc]
			return e != nil && e.EventTime().Compare(d.lastKnown) > 0
		})
	}
	for _, d := range doubts {
		for _, f := range d.findings {
			s.visitor.Collector.Add(f)
		}
	}
	return nil
}

// compareAll checks every resource of the sample, several concurrently.
func (s *set) compareAll(ctx context.Context) (doubts []doubt, err error) {
	work := make(chan sampled)
	var (
		wg sync.WaitGroup
		mu sync.Mutex // guards doubts, and the collector
	)
	for range s.visitor.Settings.Jobs {
		wg.Go(func() {
			for one := range work {
				found, seen := s.resource(ctx, &one, &mu)
				if on := s.visitor.Settings.OnResource; on != nil && ctx.Err() == nil {
					on(ctx, &one.entry)
				}
				mu.Lock()
				switch r := s.visitor.Collector.Report; {
				case len(found) > 0 && len(doubts) == visit.MaxDoubts:
					r.Unseen++ // whether it has changed is not looked up
				case seen:
					r.Resources++
					if len(found) > 0 {
						doubts = append(doubts, doubt{sampled: one, findings: found})
					}
				}
				mu.Unlock()
			}
		})
	}
	err = s.feed(ctx, work, &mu)
	close(work)
	wg.Wait()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return doubts, err
}

// feed sends the sample: the chosen resources, or all of them for SampleAll. A list that cannot be read again is
// reported while mu is held: its resources are not compared.
func (s *set) feed(ctx context.Context, work chan<- sampled, mu *sync.Mutex) error {
	send := func(one sampled) {
		select {
		case work <- one:
		case <-ctx.Done():
		}
	}
	if s.visitor.Settings.Sample != visit.SampleAll {
		for _, one := range s.sampler.chosen {
			send(one)
		}
		return nil
	}
	for _, uri := range s.listDocs {
		err := s.again(ctx, uri, func(doc *document, at func() string, e *resourcesync.Entry) {
			send(sampled{*e, doc.uri, at()})
		})
		mu.Lock()
		switch {
		case errors.Is(err, opener.ErrUnseen):
			s.visitor.Collector.Report.Unseen++
			err = nil
		case visit.IsMissing(err):
			rule, in := "RS-IDX-06", s.listURI
			if uri == s.listURI {
				rule, in = "RS-CL-06", cmp.Or(s.uri, uri)
			}
			s.visitor.Collector.In(in).Errorf(rule, "", "%s was read, but its resources could not be compared; when it was requested again: %v", uri, err)
			err = nil
		}
		mu.Unlock()
		if err != nil {
			return err
		}
	}
	return nil
}

// again reads a document once more, without findings. After a broken connection
// it tries a few times: each entry may then be passed several times.
func (s *set) again(ctx context.Context, uri string, each eachFunc) error {
	for attempt := 1; ; attempt++ {
		doc, err := s.quiet(uri).document(ctx, uri, each)
		if err == nil && !doc.whole {
			err = visit.Missing(uri, errors.New("its end could not be read"))
		}
		if !visit.IsMissing(err) || errors.Is(err, fs.ErrNotExist) || attempt == visit.MaxAttempts {
			return err
		}
	}
}

// newestChanges returns the last change of each doubtful resource in the current
// Change List.
func (s *set) newestChanges(ctx context.Context, doubts []doubt) (map[string]*resourcesync.Entry, error) {
	newest := make(map[string]*resourcesync.Entry, len(doubts))
	for _, d := range doubts {
		newest[d.entry.Loc] = nil
	}
	docs := s.changeDocs
	if doc, err := s.look(ctx, s.changeURI); err == nil && doc.kind == finding.KindChangeListIndex {
		docs = nil
		for i := range doc.entries {
			docs = append(docs, doc.entries[i].Loc)
		}
	}
	for _, uri := range docs {
		err := s.again(ctx, uri, func(_ *document, _ func() string, e *resourcesync.Entry) {
			if last, ok := newest[e.Loc]; ok && (last == nil || e.EventTime().Compare(last.EventTime()) >= 0) {
				newest[e.Loc] = new(*e)
			}
		})
		if err != nil && !visit.IsMissing(err) && !errors.Is(err, opener.ErrUnseen) { // otherwise the doubts remain
			return nil, err
		}
	}
	return newest, nil
}

// reconsider returns the doubts that the Change List does not resolve.
func (s *set) reconsider(ctx context.Context, doubts []doubt) (left []doubt, err error) {
	newest, err := s.newestChanges(ctx, doubts)
	if err != nil {
		return nil, err
	}
	var mu sync.Mutex
	for _, d := range doubts {
		now := d.sampled
		if e := newest[d.entry.Loc]; e != nil {
			d.lastKnown = e.EventTime()
		}
		if e := newest[d.entry.Loc]; e != nil && (s.facts.list == nil || e.EventTime().Time().UnixNano() >= s.facts.list.from) {
			now.entry = *e
		}
		if found, _ := s.resource(ctx, &now, &mu); len(found) > 0 {
			left = append(left, doubt{d.sampled, found, d.lastKnown})
		}
	}
	return left, nil
}

// resource compares one resource with its description. It returns the
// differences that a change of the resource may explain; the others are filed
// as findings at once, while mu is held. seen is false if the resource cannot be looked at from here.
func (s *set) resource(ctx context.Context, one *sampled, mu *sync.Mutex) (doubts []finding.Finding, seen bool) {
	e := &one.entry
	doubtful := func(rule, format string, args ...any) {
		doubts = append(doubts, finding.Finding{Rule: rule, Level: finding.Error, Document: one.doc, Location: one.at, Message: e.Loc + ": " + fmt.Sprintf(format, args...)})
	}
	a, err := s.visitor.Ask(ctx, opener.Request{URI: e.Loc, Resource: true})
	switch {
	case errors.Is(err, opener.ErrUnseen):
		mu.Lock()
		s.visitor.Collector.Report.Unseen++
		mu.Unlock()
		return nil, false
	case ctx.Err() != nil:
		return nil, true
	case e.Change == resourcesync.Deleted:
		if err == nil {
			visit.Discard(a.Body)
			doubtful("RS-RL-08", "deleted at %s according to the Change List, but still there", e.Datetime)
		}
		return doubts, true
	case errors.Is(err, fs.ErrNotExist):
		doubtful("RS-RL-08", "listed, but nothing is there")
		return doubts, true
	case err != nil:
		doubtful("RS-RL-08", "listed, but %v", err)
		return doubts, true
	}
	defer a.Body.Close() // read as far as needed
	h := e.Hashes.NewHasher()
	limit := s.visitor.Settings.ResourceBytes
	if e.HasLength {
		limit = min(limit, e.Length)
	} else if len(e.Hashes) == 0 {
		limit = 0
	}
	n, err := io.Copy(h, io.LimitReader(visit.Until(ctx, a.Body), limit+1))
	if ctx.Err() != nil {
		return nil, true // the run ends
	}
	_, differs := e.Hashes.Compare(h.Sum())
	switch {
	case err != nil:
		doubtful("RS-RL-08", "breaks off after %d bytes: %v", n, err)
	case e.HasLength && n > e.Length:
		doubtful("RS-LEN-01", "longer than its length, %d", e.Length)
	case e.HasLength && n < e.Length:
		doubtful("RS-LEN-01", "%d bytes, not %d", n, e.Length)
	case differs != 0 && n <= limit:
		doubtful("RS-HASH-05", "the %s digest is another one", differs)
	}
	if a.Header != nil {
		mu.Lock()
		defer mu.Unlock()
		s.answered(ctx, one, a)
	}
	return doubts, true
}

// answered compares the headers of an answer with the description of a
// resource.
func (s *set) answered(ctx context.Context, one *sampled, a *opener.Answer) {
	e, p := &one.entry, s.visitor.Collector.In(one.entry.Loc)
	validators(p, a.Header)
	if t := a.Header.Get("Content-Type"); e.Type != "" && t != "" && !visit.SameType(t, e.Type) {
		p.Warnf("RS-TYPE-01", "Content-Type", "served as %s, listed as %s", t, e.Type)
	}
	coding := a.Header.Get("Content-Encoding")
	if strings.EqualFold(coding, "identity") {
		coding = ""
	}
	if !strings.EqualFold(coding, e.Encoding) {
		p.Warnf("RS-ENC-01", "Content-Encoding", "served with coding %q, listed with %q", coding, e.Encoding)
	}
	if len(e.Hashes) > 0 || e.HasLength {
		for _, vary := range a.Header.Values("Vary") {
			for name := range strings.SplitSeq(vary, ",") {
				if n := strings.TrimSpace(name); strings.EqualFold(n, "Accept") || strings.EqualFold(n, "Accept-Language") {
					p.Warnf("RS-EM-08", "Vary", "what is served depends on the header %s, but the list states hash or length of one representation", n)
				}
			}
		}
	}
	s.coverage(ctx, p, a)
}

// coverage checks the targets of a resource's Link headers (RS-DISC-04).
func (s *set) coverage(ctx context.Context, p finding.Place, a *opener.Answer) {
	targets := linkTargets(a.Header, "resourcesync", a.URI)
	for _, to := range targets {
		if to == s.uri || s.uri == "" {
			return
		}
	}
	for _, to := range targets {
		good, known := s.linked[to]
		if !known {
			doc, err := s.look(ctx, to)
			good = errors.Is(err, opener.ErrUnseen) || err == nil && doc.kind == finding.KindCapabilityList
			if len(s.linked) < maxLinked {
				s.linked[to] = good
			}
		}
		if !good {
			p.Warnf("RS-DISC-04", "Link", "leads to %s, which is no Capability List", to)
		}
	}
}

// maxLinked caps the targets of Link headers that are remembered.
const maxLinked = 20

// linkTargets returns the targets of Link headers with relation rel. It omits
// links that are not well formed.
func linkTargets(h http.Header, rel, base string) (targets []string) {
	for _, value := range h.Values("Link") {
		for {
			_, rest, ok := strings.Cut(value, "<")
			if !ok {
				break
			}
			target, parameters, ok := strings.Cut(rest, ">")
			if !ok {
				break
			}
			end := linkEnd(parameters)
			value, parameters = parameters[end:], parameters[:end]
			if hasRel(parameters, rel) {
				if to := visit.Resolve(base, target); to != "" {
					targets = append(targets, to)
				}
			}
		}
	}
	return targets
}

// linkEnd returns the end of one link's parameters: a comma outside quotes.
func linkEnd(s string) int {
	quoted := false
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '\\' && quoted:
			i++
		case c == '"':
			quoted = !quoted
		case c == ',' && !quoted:
			return i
		}
	}
	return len(s)
}

// hasRel reports whether parameters of a link name a relation, and no anchor,
// which would make another resource the context of the link.
func hasRel(parameters, rel string) (found bool) {
	for parameter := range strings.SplitSeq(parameters, ";") {
		name, value, _ := strings.Cut(parameter, "=")
		switch strings.ToLower(strings.TrimSpace(name)) {
		case "anchor":
			return false
		case "rel":
			for word := range strings.FieldsSeq(strings.Trim(strings.TrimSpace(value), `"`)) {
				found = found || strings.EqualFold(word, rel)
			}
		}
	}
	return found
}
