package following

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
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

// unsubscribeResult is what follow --unsubscribe prints with --json.
type unsubscribeResult struct {
	Source        string                       `json:"source"`
	Destination   string                       `json:"destination"`
	Subscriptions []destination.Unsubscription `json:"subscriptions"`
	Error         string                       `json:"error,omitempty"`
}

// Unsubscribe ends the subscriptions that follow made for a mirror, and says which it has
// ended.
func Unsubscribe(ctx context.Context, o *Flags, io term.IO) error {
	do, err := o.Sync.Options()
	if err != nil {
		return err
	}
	if !mirror.IsBucket(o.Sync.Dest) {
		state := filepath.Join(o.Sync.Dest, filepath.FromSlash(destination.StateFile))
		if _, err := os.Stat(state); errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("unsubscribe: %s is no mirror: there is no %s", o.Sync.Dest, state)
		}
	}
	do.Logger = o.Sync.Out.Logger(io)
	if o.Callback.TLS, err = o.TLS.Open(do.Logger); err != nil {
		return err
	}
	r, err := mirror.Open(&o.Sync.Selection, &o.Sync.Network, do, false, io)
	if err != nil {
		return mirror.Explain(err, o.Sync.Dest)
	}
	defer r.Close()
	return endSubscriptions(ctx, r, o, o.Callback, io)
}

// endSubscriptions ends the subscriptions of the mirror that is open as r.
func endSubscriptions(ctx context.Context, r *mirror.Run, o *Flags, c Callback, io term.IO) error {
	out := o.Sync.Out
	recorded, err := destination.CallbackOf(ctx, r.State.Journal)
	if err != nil {
		return fmt.Errorf("unsubscribe: %w", err)
	}
	result := unsubscribeResult{Source: fetch.WithoutUser(o.Sync.Source), Destination: o.Sync.Dest, Subscriptions: []destination.Unsubscription{}}
	if recorded == "" {
		return printUnsubscribed(&result, out, io)
	}
	if c.URL == "" {
		c.URL = recorded
	}
	l, callback, err := c.Reachable(ctx)
	if err != nil {
		return err
	}
	u, err := destination.NewUnsubscriber(r.State.Journal, r.Client, callback, out.Logger(io))
	if err != nil {
		return errors.Join(term.Usage(err, ""), l.Close())
	}
	err = serveFor(ctx, u.Handler(), l, func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, unsubscribeTime)
		defer cancel()
		done, err := u.Run(ctx)
		result.Subscriptions = append(result.Subscriptions, done...)
		if errors.Is(err, context.DeadlineExceeded) {
			err = nil // each says how far it came
		}
		return err
	})
	if mirror.Interrupted(ctx, err) {
		err = term.WithHint(term.ErrInterrupted, "run the same command again to continue")
	}
	if err != nil {
		return err
	}
	return printUnsubscribed(&result, out, io)
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

// printUnsubscribed says which subscriptions were ended, and fails if one was not.
func printUnsubscribed(r *unsubscribeResult, out *term.Options, io term.IO) error {
	failed := 0
	for i := range r.Subscriptions {
		if !r.Subscriptions[i].Ended {
			failed++
		}
	}
	var err error
	if failed > 0 {
		err = term.WithHint(fmt.Errorf("unsubscribe: %d of %s could not be ended", failed, term.Count(len(r.Subscriptions), "subscription")),
			"run the same command again while the hub can reach the callback; otherwise the hub drops them at the end of their leases")
		r.Error = report.ErrorText(err)
	}
	if out.JSON {
		return errors.Join(err, io.PrintJSON(r))
	}
	if len(r.Subscriptions) == 0 && !out.Quiet {
		io.Printf("%s has no subscriptions\n", r.Destination)
	}
	for i := range r.Subscriptions {
		s := &r.Subscriptions[i]
		switch {
		case !s.Ended && s.Expires.IsZero():
			io.Errorf("not ended: %s at %s: %s\n", fetch.Printable(s.Topic), fetch.Printable(s.Hub), s.Error)
		case !s.Ended:
			io.Errorf("not ended: %s at %s: %s; its lease ends at %s\n", fetch.Printable(s.Topic), fetch.Printable(s.Hub), s.Error, s.Expires.UTC().Format(time.RFC3339))
		case !out.Quiet:
			io.Printf("unsubscribed from %s at %s\n", fetch.Printable(s.Topic), fetch.Printable(s.Hub))
		}
	}
	return err
}
