package following

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"lockstep/cmd/lockstep/internal/admin"
	"lockstep/cmd/lockstep/internal/mirror"
	"lockstep/cmd/lockstep/internal/report"
	"lockstep/cmd/lockstep/internal/term"
	"lockstep/destination"
	"lockstep/internal/fetch"
	"lockstep/source"
)

// unsubscribeTime is how long ending all subscriptions may take.
const unsubscribeTime = 2 * time.Minute

// Unsubscribed is what follow --unsubscribe prints with --json.
type Unsubscribed struct {
	Name          string                       `json:"name,omitempty"` // of one of several mirrors
	Source        string                       `json:"source"`
	Destination   string                       `json:"destination"`
	Subscriptions []destination.Unsubscription `json:"subscriptions"`
	Error         string                       `json:"error,omitempty"`
}

// Unsubscribe ends the subscriptions that follow made for a mirror, and says which it has
// ended.
func Unsubscribe(ctx context.Context, o *Flags, io term.IO) error {
	r, err := EndSubscriptions(ctx, o, io)
	if err != nil && len(r.Subscriptions) == 0 {
		return err
	}
	if r.Error = report.ErrorText(err); o.Sync.Out.JSON {
		return errors.Join(err, io.PrintJSON(r))
	}
	r.Print(io, o.Sync.Out.Quiet)
	return err
}

// EndSubscriptions ends the subscriptions that follow made for a mirror. It fails if one
// could not be ended.
func EndSubscriptions(ctx context.Context, o *Flags, io term.IO) (*Unsubscribed, error) {
	result := &Unsubscribed{Source: fetch.WithoutUser(o.Sync.Source), Destination: o.Sync.Dest, Subscriptions: []destination.Unsubscription{}}
	do, err := o.Sync.Options()
	if err != nil {
		return result, err
	}
	if !mirror.IsBucket(o.Sync.Dest) {
		state := filepath.Join(o.Sync.Dest, filepath.FromSlash(destination.StateFile))
		if _, err := os.Stat(state); errors.Is(err, fs.ErrNotExist) {
			return result, term.Usagef("unsubscribe: %s is no mirror: there is no %s", o.Sync.Dest, state)
		}
	}
	do.Logger = o.Sync.Out.Logger(io)
	if o.Callback.TLS, err = o.TLS.Open(do.Logger); err != nil {
		return result, err
	}
	r, err := mirror.Open(ctx, "follow --unsubscribe", &o.Sync.Selection, &o.Sync.Network, do, false, io)
	if err != nil {
		return result, mirror.Explain(err, o.Sync.Dest)
	}
	defer r.Close()
	if err := result.end(ctx, r, o.Callback, do.Logger); err != nil {
		return result, err
	}
	return result, result.failed()
}

// end ends the subscriptions of the mirror that is open as r.
func (u *Unsubscribed) end(ctx context.Context, r *mirror.Run, c Callback, log *slog.Logger) error {
	recorded, err := destination.CallbackOf(ctx, r.State.Journal)
	if err != nil {
		return fmt.Errorf("unsubscribe: %w", err)
	}
	if recorded == "" {
		return nil
	}
	if c.URL == "" {
		c.URL = recorded
	}
	l, callback, err := c.Reachable(ctx)
	if err != nil {
		return err
	}
	unsubscriber, err := destination.NewUnsubscriber(r.State.Journal, r.Client, callback, log)
	if err != nil {
		return errors.Join(term.Usage(err, ""), l.Close())
	}
	err = serveFor(ctx, unsubscriber.Handler(), l, func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, unsubscribeTime)
		defer cancel()
		done, err := unsubscriber.Run(ctx)
		u.Subscriptions = append(u.Subscriptions, done...)
		if errors.Is(err, context.DeadlineExceeded) {
			err = nil // each says how far it came
		}
		return err
	})
	if mirror.Interrupted(ctx, err) {
		err = term.WithHint(term.ErrInterrupted, "run the same command again to continue")
	}
	return err
}

// failed returns an error if a subscription could not be ended.
func (u *Unsubscribed) failed() error {
	failed := 0
	for i := range u.Subscriptions {
		if !u.Subscriptions[i].Ended {
			failed++
		}
	}
	if failed == 0 {
		return nil
	}
	return term.WithHint(fmt.Errorf("unsubscribe: %d of %s could not be ended", failed, term.Count(len(u.Subscriptions), "subscription")),
		"run the same command again while the hub can reach the callback; otherwise the hub drops them at the end of their leases")
}

// serveFor serves h on l while do runs.
func serveFor(ctx context.Context, h http.Handler, l net.Listener, do func(context.Context) error) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var err error
	serr := admin.ServeBeside(ctx, source.NewServer(h), l, func(ctx context.Context) error {
		defer stop()
		err = do(ctx)
		return nil
	})
	if err == nil && !errors.Is(serr, context.Canceled) {
		err = serr
	}
	return err
}

// Print says which subscriptions were ended, and which were not.
func (u *Unsubscribed) Print(io term.IO, quiet bool) {
	if len(u.Subscriptions) == 0 && u.Error == "" && !quiet {
		io.Printf("%s has no subscriptions\n", u.Destination)
	}
	for i := range u.Subscriptions {
		s := &u.Subscriptions[i]
		switch {
		case !s.Ended && s.Expires.IsZero():
			io.Errorf("not ended: %s at %s: %s\n", fetch.Printable(s.Topic), fetch.Printable(s.Hub), s.Error)
		case !s.Ended:
			io.Errorf("not ended: %s at %s: %s; its lease ends at %s\n", fetch.Printable(s.Topic), fetch.Printable(s.Hub), s.Error, s.Expires.UTC().Format(time.RFC3339))
		case !quiet:
			io.Printf("unsubscribed from %s at %s\n", fetch.Printable(s.Topic), fetch.Printable(s.Hub))
		}
	}
}
