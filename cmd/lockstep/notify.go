package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/spf13/pflag"

	"lockstep/cmd/lockstep/internal/config"
	"lockstep/cmd/lockstep/internal/release"
	"lockstep/cmd/lockstep/internal/term"
	"lockstep/internal/fetch"
	"lockstep/source"
	"lockstep/websub"
)

// What --hub can be beside a URL.
const (
	hubEmbedded = "embedded" // the one that serve is itself
	hubOff      = "off"
)

// defaultNotifyDelay is how long changes gather: too short for anybody to
// notice, and what one program does at once is told at once.
const defaultNotifyDelay = 50 * time.Millisecond

// maxStreams is how many streams of events serve gives at a time: memory filled
// by Destinations that no hub can call.
const maxStreams = 1000

// hubFlags say who is told of changes, and when.
type hubFlags struct {
	hub          []string
	hubTokenFile string
	hubTokenList []string // values of --hub-token
	hubTokens    []config.HubToken
	notifyDelay  time.Duration
	embedded     bool // there can be one here
}

// declare declares the flags; serve can be a hub itself.
func (o *hubFlags) declare(flags *pflag.FlagSet, embedded bool) {
	o.embedded = embedded
	if embedded {
		flags.StringArrayVar(&o.hub, "hub", []string{hubEmbedded}, "notify the hub at `URL` of changes (repeatable), the embedded one, or off")
	} else {
		flags.StringArrayVar(&o.hub, "hub", []string{hubOff}, "notify the hub at `URL` of changes (repeatable), or off")
	}
	flags.StringVar(&o.hubTokenFile, "hub-token-file", "", "publish at the hub elsewhere, if there is one, with the token in `FILE`")
	flags.StringArrayVar(&o.hubTokenList, "hub-token", nil, "publish at the hub at URL, and nowhere else, with the token in a file: `URL=FILE` (repeatable)")
	flags.DurationVar(&o.notifyDelay, "notify-delay", defaultNotifyDelay, "collect changes for this `DURATION` before they are published and notified")
}

// settle refuses what cannot be meant.
func (o *hubFlags) settle() error {
	if o.notifyDelay < 0 {
		return term.Usagef("--notify-delay must not be below 0")
	}
	if len(o.hub) > 1 && slices.Contains(o.hub, hubOff) {
		return term.Usage(fmt.Errorf("--hub: off and another one cannot both be"), "leave out --hub off")
	}
	for _, v := range o.hub {
		switch u, err := url.Parse(v); {
		case v == hubOff, v == hubEmbedded && o.embedded:
		case v == hubEmbedded:
			return term.Usage(fmt.Errorf("--hub %s: a hub runs in serve only", v), "name the URL of a hub, as that of lockstep hub")
		case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
			return term.Usage(fmt.Errorf("--hub %q is no URL", fetch.WithoutUser(v)), "as --hub https://hub.example.org/, or --hub off")
		case u.User != nil: // our documents name it
			return term.Usage(fmt.Errorf("--hub %s with a user name or password, which our documents would show", fetch.WithoutUser(v)), "publish with a token: --hub-token-file FILE")
		}
	}
	return o.settleTokens()
}

// hubs returns the hubs that are told of changes.
func (s *site) hubs() ([]source.Hub, error) {
	var hubs []source.Hub
	for _, v := range s.opts.hubs.hub {
		switch v {
		case hubOff:
		case hubEmbedded:
			if s.hub != nil {
				hubs = append(hubs, source.Hub{URL: s.hub.URL, Notifier: s.hub})
			}
		default:
			n, err := s.publisher(v)
			if err != nil {
				return nil, err
			}
			hubs = append(hubs, source.Hub{URL: v, Notifier: n})
		}
	}
	return hubs, nil
}

// notifyOnce tells hubs what has been published.
func (s *site) notifyOnce(ctx context.Context) error {
	if err := s.src.NotifyOnce(ctx); err != nil {
		hint := "everything is published; undelivered notifications are sent by the next run"
		var refused *websub.RefusedError
		if errors.As(err, &refused) && refused.Permanent() {
			hint = "all is published, and in the Change List; see that the hub knows the topic and the token (--hub-token)"
		}
		return term.WithHint(fmt.Errorf("notify hubs of the changes: %w", err), hint)
	}
	return nil
}

// publisher returns what tells a hub elsewhere.
func (s *site) publisher(hub string) (source.Notifier, error) {
	o := websub.PublisherOptions{Hub: hub, UserAgent: s.opts.network.UserAgent}
	if o.UserAgent == "" {
		o.UserAgent = "lockstep/" + release.Version()
	}
	var err error
	if o.Token, o.TokenScope, err = s.opts.hubs.token(hub); err != nil {
		return nil, err
	}
	if o.Client, err = s.opts.network.HubClient(); err != nil {
		return nil, err
	}
	p, err := websub.NewPublisher(o)
	if err != nil {
		return nil, term.Usage(fmt.Errorf("--hub %s: %w", hub, err), "name the URL of a hub, as that of lockstep hub")
	}
	return publisher{p}, nil
}

// A publisher is a hub elsewhere, as a Source knows hubs.
type publisher struct{ *websub.Publisher }

// Publish implements [source.Notifier].
func (p publisher) Publish(ctx context.Context, topic string, header http.Header, body []byte) error {
	err := p.Publisher.Publish(ctx, topic, header, body)
	if refused, ok := errors.AsType[*websub.RefusedError](err); ok && refused.RetryAfter > 0 {
		return &busyError{refused}
	}
	return err
}

// A busyError is a hub's refusal that says when to come again.
type busyError struct{ *websub.RefusedError }

// Unwrap returns the refusal itself.
func (e *busyError) Unwrap() error { return e.RefusedError }

// RetryAfter returns how long the hub asked to wait.
func (e *busyError) RetryAfter() time.Duration { return e.RefusedError.RetryAfter }

// notifyWarnEvery is how often people are told that a hub does not take
// notifications, while that goes on.
const notifyWarnEvery = time.Minute

// A hubNews is what people have been told of a hub.
type hubNews struct {
	warned time.Time // zero: that all is well
	lost   int64     // refused since
}

// notified says what became of a notification, where that is news.
func (n *newsroom) notified(t source.Notification) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.hubs == nil {
		n.hubs = make(map[string]*hubNews)
	}
	key := t.Set + " " + t.Hub
	h := n.hubs[key]
	if h == nil {
		h = &hubNews{}
		n.hubs[key] = h
	}
	if t.Refused {
		h.lost++
	}
	switch {
	case t.Err == nil && !h.warned.IsZero():
		n.io.Errorf("note: the hub %s takes notifications of set %s again\n", t.Hub, t.Set)
		*h = hubNews{}
	case t.Err == nil:
	case time.Since(h.warned) < notifyWarnEvery:
	case t.Refused:
		h.warned = time.Now()
		n.io.Errorf("warning: the hub refuses notifications of set %s, %d so far; their changes are in the Change List: %v\nhint: see that the hub knows the topic and the token (--hub-token)\n", t.Set, h.lost, t.Err)
	default:
		h.warned = time.Now()
		n.io.Errorf("warning: the hub did not take a notification of set %s, and gets it later: %v\n", t.Set, t.Err)
	}
}
