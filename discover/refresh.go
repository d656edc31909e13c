package discover

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"sync"

	"lockstep/internal/fetch"
	"lockstep/resourcesync"
)

// maxRefreshes caps the Capability Lists checked at a time.
const maxRefreshes = 4

// A KindError reports that an address leads to a document of another kind than
// the one followed so far.
type KindError struct {
	Address  string // the address followed
	Was, Now string // kinds, for people
	Err      error  // why the followed document is unavailable; nil: another one has replaced it
}

func (e *KindError) Error() string {
	text := fmt.Sprintf("%s leads to %s now, not to %s as before", fetch.Printable(fetch.WithoutUser(e.Address)), e.Now, e.Was)
	if e.Err != nil {
		return e.Err.Error() + "; " + text
	}
	return text
}

func (e *KindError) Unwrap() error { return e.Err }

// followed names the kind of document that lists the sets.
func (f *Found) followed() string {
	if f.Robots.URI != "" {
		return f.kindOfSets() + " that robots.txt names"
	}
	return f.kindOfSets()
}

func (f *Found) kindOfSets() string {
	if f.Foreign != nil {
		return f.Foreign.What()
	}
	if f.All && f.SourceDescription != "" {
		return "a Source Description"
	}
	for i := range f.Sets {
		switch s := &f.Sets[i]; {
		case s.CapabilityList != "":
			return "a Capability List"
		case s.Sitemap:
			return "a plain Sitemap"
		case len(s.Capabilities) > 0:
			return "a " + kind(&resourcesync.Header{Capability: s.Capabilities[0].Capability})
		}
	}
	return "nothing"
}

// KeepNames gives the sets the names they have in was: once used, a name stays
// with its set.
func (f *Found) KeepNames(was *Found) {
	if was == nil {
		return
	}
	names := make(map[string]string, len(was.Sets))
	for i := range was.Sets {
		names[was.Sets[i].uri()] = was.Sets[i].Name
	}
	for i := range f.Sets {
		f.Sets[i].Name = names[f.Sets[i].uri()]
	}
	nameSets(f.Sets)
}

// Refresh checks whether the documents behind found have changed, using their
// validators: the Source Description, robots.txt or the page, if it listed the sets, and each
// Capability List. It returns the current state, and whether that differs.
//
// It reads only those documents. No other document replaces them, unless the
// server reports that they are gone: then Refresh follows found.Address again.
// If that leads to a document of another kind, the error is a [*KindError].
func Refresh(ctx context.Context, c *fetch.Client, found *Found) (*Found, bool, error) {
	all := found.All && found.SourceDescription != ""
	if found.Again && !all {
		return findAgain(ctx, c, found, nil)
	}
	now := *found
	now.Sets = append([]Set(nil), found.Sets...)
	if all {
		v := found.Validators
		if found.Again {
			v = Validators{}
		}
		d, err := Open(ctx, c, found.SourceDescription, v)
		switch {
		case errors.Is(err, ErrNotModified):
		case isGone(err):
			return findAgain(ctx, c, found, err)
		case err != nil:
			return nil, false, err
		default:
			return visitAgain(ctx, c, found, d)
		}
	}
	if !all && found.Robots.URI != "" {
		again, err := refreshRobots(ctx, c, found, &now)
		if again != nil || err != nil {
			return again, err == nil, err
		}
	}
	if !all && found.Page.URI != "" {
		links, err := refreshPage(ctx, c, found.Page)
		if err != nil {
			return nil, false, err
		}
		if links.Err == nil && links.Targets != found.Page.Targets {
			return findAgain(ctx, c, found, nil)
		}
		now.Page = links
	}
	var (
		wg    sync.WaitGroup
		slots = make(chan struct{}, maxRefreshes)
		moved = make([]bool, len(now.Sets))
	)
	for i := range now.Sets {
		if now.Sets[i].CapabilityList == "" {
			continue
		}
		slots <- struct{}{}
		wg.Go(func() {
			moved[i] = refresh(ctx, c, &now.Sets[i], len(now.Sets) == 1)
			<-slots
		})
	}
	wg.Wait()
	if ctx.Err() != nil {
		return nil, false, context.Cause(ctx)
	}
	return &now, slices.Contains(moved, true) || now.Robots != found.Robots || now.Page.Validators != found.Page.Validators, nil
}

// refreshPage reads the page that linked to the sets again, if it changed. A page that is
// gone, or that links to no set any more, is returned as it was: it says nothing about sets,
// which have documents of their own. An error ends the run; one that concerns the page alone
// is in its Err.
func refreshPage(ctx context.Context, c *fetch.Client, was Page) (Page, error) {
	was.Err = nil
	p, err := openPage(ctx, c, fetch.Request{URI: was.URI, IfNoneMatch: was.ETag, IfModifiedSince: was.LastModified})
	switch {
	case errors.Is(err, ErrNotModified), isGone(err):
		return was, nil
	case ctx.Err() != nil:
		return was, context.Cause(ctx)
	case err != nil:
		was.Err = err
		return was, nil
	}
	a := p.announces(p.looksLikeHTML())
	_ = p.close() // read as far as needed
	switch {
	case a.rest != nil && ctx.Err() != nil:
		return was, context.Cause(ctx)
	case a.rest != nil:
		was.Err = a.rest
		return was, nil
	case len(a.targets) == 0:
		return was, nil
	}
	return p.linking(a.targets), nil
}

// refreshRobots reads the robots.txt that named the sets again, if it changed. If it
// names others, refreshRobots returns the sets that it names; otherwise nil, and now gets
// its new validators.
func refreshRobots(ctx context.Context, c *fetch.Client, found, now *Found) (*Found, error) {
	was := found.Robots
	at, err := url.Parse(was.URI)
	if err != nil {
		return nil, fmt.Errorf("%s: not a valid URI", fetch.Printable(was.URI)) // unreachable: it was fetched
	}
	p, err := openPage(ctx, c, fetch.Request{URI: was.URI, IfNoneMatch: was.ETag, IfModifiedSince: was.LastModified})
	switch {
	case errors.Is(err, ErrNotModified):
		return nil, nil
	case isGone(err):
		again, _, err := findAgain(ctx, c, found, err)
		return again, err
	case err != nil:
		return nil, err
	}
	html := p.looksLikeHTML()
	robots, sitemaps, err := readRobots(p, at)
	var limit *limitError
	switch exceeded := errors.As(err, &limit); {
	case err != nil && !exceeded:
		return nil, err
	case html:
		return nil, fmt.Errorf("read %s: an HTML page", fetch.Printable(was.URI))
	case err == nil && len(sitemaps) == 0:
		return nil, fmt.Errorf("read %s: it names no Sitemap", fetch.Printable(was.URI))
	case err == nil && robots.Sitemaps == was.Sitemaps:
		now.Robots = robots
		return nil, nil
	}
	return sitemapsAgain(ctx, c, found, robots, sitemaps, err)
}

// sitemapsAgain visits the Sitemaps that robots.txt names now.
func sitemapsAgain(ctx context.Context, c *fetch.Client, found *Found, robots Robots, sitemaps []string, rest error) (*Found, error) {
	f := newFinder(c, found.Address)
	f.found.Origin = found.Origin
	f.seen[robots.URI] = true
	f.known = map[string]bool{}
	for i := range found.Sets {
		for _, o := range found.Sets[i].Capabilities {
			f.known[o.URI] = true
		}
	}
	f.sitemaps(ctx, robots, sitemaps, rest)
	now, err := f.finish(context.Cause(ctx))
	if err != nil {
		return nil, err
	}
	if was, is := found.followed(), now.followed(); was != is && !found.growsInto(now) {
		return nil, &KindError{robots.URI, was, is, nil}
	}
	now.KeepNames(found)
	return now, nil
}

// growsInto reports whether now may replace f though its sets are listed by a document of
// another kind: for sets that were known by their Capability Lists, the Source
// Description may be known now, and for sets that an earlier version found in robots.txt,
// robots.txt.
func (f *Found) growsInto(now *Found) bool {
	if f.Robots.URI == "" && now.Robots.URI != "" && f.kindOfSets() == now.kindOfSets() {
		return true
	}
	return f.kindOfSets() == "a Capability List" && now.followed() == "a Source Description"
}

// visitAgain reads everything below the Source Description d again, and closes d.
func visitAgain(ctx context.Context, c *fetch.Client, found *Found, d *Document) (*Found, bool, error) {
	f := newFinder(c, found.Address)
	f.found.Origin = found.Origin
	f.seen[d.URI], f.seen[d.Final] = true, true
	var err error
	switch d.Header.Capability {
	case resourcesync.Description, resourcesync.CapabilityList:
		err = f.visit(ctx, d, false)
	default:
		err = &KindError{found.SourceDescription, found.followed(), "a " + kind(&d.Header), nil}
	}
	_ = d.Close() // read as far as needed
	now, err := f.finish(err)
	if err != nil {
		return nil, false, err
	}
	if was, is := found.followed(), now.followed(); was != is {
		return nil, false, &KindError{found.SourceDescription, was, is, nil}
	}
	now.SourceDescription = found.SourceDescription
	now.KeepNames(found)
	return now, true, nil
}

// findAgain follows the address again if its document is gone, or was not read
// to its end.
func findAgain(ctx context.Context, c *fetch.Client, found *Found, gone error) (*Found, bool, error) {
	now, err := Find(ctx, c, found.Address)
	if err != nil {
		if gone != nil && ctx.Err() == nil {
			err = gone
		}
		return nil, false, err
	}
	was, is := found.followed(), now.followed()
	if was != is && !(gone == nil && found.growsInto(now)) {
		return nil, false, &KindError{found.Address, was, is, gone}
	}
	now.KeepNames(found)
	return now, true, nil
}

// isGone reports whether the server says that the document does not exist.
func isGone(err error) bool {
	var status *fetch.StatusError
	return errors.As(err, &status) && (status.Status == http.StatusNotFound || status.Status == http.StatusGone)
}

// refresh reads the Capability List of s again if it changed, and reports
// whether it did.
func refresh(ctx context.Context, c *fetch.Client, s *Set, alone bool) bool {
	now := *s
	err := withinSetTime(ctx, s.CapabilityList, alone, func(ctx context.Context) error {
		d, err := Open(ctx, c, s.CapabilityList, s.Validators)
		if err != nil {
			return err
		}
		defer d.Close() // read to its end, or err gives the reason
		if d.Header.Capability != resourcesync.CapabilityList || d.Header.Index {
			return fmt.Errorf("read %s: %s, where a Capability List was expected", fetch.Printable(d.URI), kind(&d.Header))
		}
		now, err = readSet(d)
		now.Name = s.Name
		return err
	})
	switch {
	case errors.Is(err, ErrNotModified):
		failed := s.Err != nil
		s.Err = nil
		return failed
	case err != nil:
		s.Err = err
	default:
		*s = now
	}
	return true
}
