// Package hubflags reads the flags that say which hubs a Source notifies of changes,
// when, and with which tokens.
package hubflags

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"lockstep/cmd/lockstep/internal/config"
	"lockstep/cmd/lockstep/internal/hubserver"
	"lockstep/cmd/lockstep/internal/network"
	"lockstep/cmd/lockstep/internal/release"
	"lockstep/cmd/lockstep/internal/term"
	"lockstep/internal/fetch"
	"lockstep/source"
	"lockstep/websub"
)

// What --hub can be beside a URL.
const (
	Embedded = "embedded" // the one that serve is itself
	Off      = "off"
)

// DefaultDelay is how long changes are collected before they are published: too
// short to be noticed, and long enough that the changes a program makes at once
// are published at once.
const DefaultDelay = 10 * time.Millisecond

// Hubs are the hubs that are notified of changes, and the delay before that.
type Hubs struct {
	URLs         []string
	hubTokenFile string
	hubTokenList []string // values of --hub-token
	hubTokens    []config.HubToken
	Delay        time.Duration
	embedded     bool // there can be one here
}

// Declare declares the flags; serve can be a hub itself.
func (o *Hubs) Declare(flags *pflag.FlagSet, embedded bool) {
	o.embedded = embedded
	if embedded {
		flags.StringArrayVar(&o.URLs, "hub", []string{Embedded}, "notify the hub at `URL` of changes (repeatable), the embedded one, or off")
	} else {
		flags.StringArrayVar(&o.URLs, "hub", []string{Off}, "notify the hub at `URL` of changes (repeatable), or off")
	}
	flags.StringVar(&o.hubTokenFile, "hub-token-file", "", "publish at the hub elsewhere, if there is one, with the token in `FILE`")
	flags.StringArrayVar(&o.hubTokenList, "hub-token", nil, "publish at the hub at URL, and nowhere else, with the token in a file: `URL=FILE` (repeatable)")
	flags.DurationVar(&o.Delay, "notify-delay", DefaultDelay, "collect changes for this `DURATION` before they are published and notified")
}

// Settle refuses what cannot be meant.
func (o *Hubs) Settle() error {
	if o.Delay < 0 {
		return term.Usagef("--notify-delay must not be below 0")
	}
	if len(o.URLs) > 1 && slices.Contains(o.URLs, Off) {
		return term.Usage(fmt.Errorf("--hub off and another --hub exclude each other"), "leave out --hub off")
	}
	for _, v := range o.URLs {
		switch u, err := url.Parse(v); {
		case v == Off, v == Embedded && o.embedded:
		case v == Embedded:
			return term.Usage(fmt.Errorf("--hub %s: a hub runs in serve only", v), "name the URL of a hub, as that of lockstep hub")
		case err != nil || !term.IsURL(v):
			return term.Usage(fmt.Errorf("--hub %q is no URL", fetch.WithoutUser(v)), "as --hub https://hub.example.org/, or --hub off")
		case u.User != nil: // our documents name it
			return term.Usage(fmt.Errorf("--hub %s with a user name or password, which our documents would show", fetch.WithoutUser(v)), "publish with a token: --hub-token-file FILE")
		}
	}
	return o.settleTokens()
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

// CanEmbed reports whether the command can be a hub itself.
func (o *Hubs) CanEmbed() bool { return o.embedded }

// Elsewhere returns the hubs that are notified over the network.
func (o *Hubs) Elsewhere() []string {
	var hubs []string
	for _, h := range o.URLs {
		if h != Off && h != Embedded && !slices.Contains(hubs, h) {
			hubs = append(hubs, h)
		}
	}
	return hubs
}

// settleTokens assigns tokens to hubs.
func (o *Hubs) settleTokens() error {
	hubs := o.Elsewhere()
	if o.hubTokenFile != "" {
		switch {
		case len(o.hubTokenList) > 0:
			return term.Usage(errors.New("--hub-token-file and --hub-token contradict each other"), "write --hub-token URL="+o.hubTokenFile)
		case len(hubs) > 1:
			return term.Usage(fmt.Errorf("--hub-token-file: there are %d hubs, and a token belongs to one", len(hubs)), "say which by --hub-token URL=FILE, as --hub-token "+hubs[0]+"="+o.hubTokenFile)
		case len(hubs) == 1:
			o.hubTokens = append(o.hubTokens, config.HubToken{Hub: withoutQuery(hubs[0]), File: o.hubTokenFile})
		}
	}
	for _, v := range o.hubTokenList {
		t, err := config.ParseHubToken(v, hubs)
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(hubs, func(h string) bool { return websub.Below(t.Hub, h) }) {
			return term.Usage(fmt.Errorf("--hub-token %s: no --hub is at %s or below it", v, t.Hub), "name the hub with --hub "+t.Hub)
		}
		o.hubTokens = append(o.hubTokens, t)
	}
	return nil
}

// withoutQuery returns a URL up to its path, as the place of a token.
func withoutQuery(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return address // checked before
	}
	u.RawQuery, u.ForceQuery, u.Fragment, u.User = "", false, "", nil
	return u.String()
}

// Token returns the token that belongs to a hub, and where it may be sent: the
// one with the longest address, if there are several.
func (o *Hubs) Token(hub string) (token, scope string, err error) {
	var best config.HubToken
	for _, t := range o.hubTokens {
		if websub.Below(t.Hub, hub) && len(t.Hub) > len(best.Hub) {
			best = t
		}
	}
	if best.File == "" {
		return "", "", nil
	}
	text, err := os.ReadFile(best.File)
	if err != nil {
		return "", "", term.Usagef("read the token for the hub %s: %w", hub, err)
	}
	if token = strings.TrimSpace(string(text)); token == "" || strings.ContainsAny(token, "\r\n") {
		return "", "", term.Usagef("read the token for the hub %s: %s does not have one token in it", hub, best.File)
	}
	return token, best.Hub, nil
}

// ForSource returns the hubs that are notified of changes. embedded is the one of
// this process, nil if it has none.
func (o *Hubs) ForSource(embedded *hubserver.Front, n *network.Options, log *slog.Logger) ([]source.Hub, error) {
	var hubs []source.Hub
	for _, v := range o.URLs {
		switch v {
		case Off:
		case Embedded:
			if embedded != nil {
				hubs = append(hubs, source.Hub{URL: embedded.URL, Notifier: embedded})
			}
		default:
			p, err := o.publisher(v, n, log)
			if err != nil {
				return nil, err
			}
			hubs = append(hubs, source.Hub{URL: v, Notifier: p})
		}
	}
	return hubs, nil
}

// NotifyOnce notifies hubs of what has been published.
func NotifyOnce(ctx context.Context, src *source.Source) error {
	if err := src.NotifyOnce(ctx); err != nil {
		hint := "everything is published; undelivered notifications are sent by the next run"
		refused, ok := errors.AsType[*websub.RefusedError](err)
		switch {
		case ok && refused.Permanent():
			hint = "everything is published, and in the Change List; the hub does not accept such notifications, and they are not sent again"
		case ok && refused.Correctable():
			hint = "check the address of the hub, and that it knows the topic and the token (--hub-token); " + hint
		}
		return term.WithHint(fmt.Errorf("notify hubs of the changes: %w", err), hint)
	}
	return nil
}

// checkTime is how long a hub may take to answer [Hubs.Check].
const checkTime = 10 * time.Second

// Check asks each hub elsewhere for its page, without a token, and returns an error for each
// that does not answer, or has nothing at its address. Nothing is published there.
func (o *Hubs) Check(ctx context.Context, n *network.Options, log *slog.Logger) []error {
	var problems []error
	for _, hub := range o.Elsewhere() {
		if err := checkHub(ctx, hub, n, log); err != nil && ctx.Err() == nil {
			problems = append(problems, term.WithHint(fmt.Errorf("check hub %s: %w", fetch.WithoutUser(hub), err),
				"check its address (--hub); changes cannot be notified before the hub can be reached"))
		}
	}
	return problems
}

// checkHub asks a hub for its page. A hub need not have one: an answer is enough, except that
// there is nothing.
func checkHub(ctx context.Context, hub string, n *network.Options, log *slog.Logger) error {
	client, err := n.HubClient(log)
	if err != nil {
		return err
	}
	defer client.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(ctx, checkTime)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, hub, http.NoBody)
	if err != nil {
		return err
	}
	req.Header.Set("User-Agent", userAgent(n))
	answer, err := client.Do(req)
	if e, ok := errors.AsType[*url.Error](err); ok {
		err = e.Err // the caller names the address
	}
	if err != nil {
		return err
	}
	_ = answer.Body.Close() // it is not read
	if answer.StatusCode == http.StatusNotFound || answer.StatusCode == http.StatusGone {
		return fmt.Errorf("GET is answered with status %d", answer.StatusCode)
	}
	return nil
}

// userAgent returns the name by which hubs know this process.
func userAgent(n *network.Options) string {
	return cmp.Or(n.UserAgent, "lockstep/"+release.Version())
}

// publisher returns what notifies a hub elsewhere.
func (o *Hubs) publisher(hub string, n *network.Options, log *slog.Logger) (source.Notifier, error) {
	po := websub.PublisherOptions{Hub: hub, UserAgent: userAgent(n)}
	var err error
	if po.Token, po.TokenScope, err = o.Token(hub); err != nil {
		return nil, err
	}
	if po.Client, err = n.HubClient(log); err != nil {
		return nil, err
	}
	p, err := websub.NewPublisher(po)
	if err != nil {
		return nil, term.Usage(fmt.Errorf("--hub %s: %w", hub, err), "name the URL of a hub, as that of lockstep hub")
	}
	return publisher{p}, nil
}
