package mirrors

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"lockstep/cmd/lockstep/internal/admin"
	"lockstep/cmd/lockstep/internal/alert"
	"lockstep/cmd/lockstep/internal/config"
	"lockstep/cmd/lockstep/internal/following"
	"lockstep/cmd/lockstep/internal/listen"
	"lockstep/cmd/lockstep/internal/mirror"
	"lockstep/cmd/lockstep/internal/report"
	"lockstep/cmd/lockstep/internal/sdnotify"
	"lockstep/cmd/lockstep/internal/term"
	"lockstep/internal/statedir"
)

// StateDir returns the directory for what a process that follows the mirrors of a
// configuration file has for itself: its admin socket and token.
func StateDir(file string, lookup func(string) (string, bool)) (string, error) {
	c, err := config.Read(file)
	if err != nil {
		return "", err
	}
	state := string(c.State)
	if state == "" {
		if state, err = config.DefaultState(file, true, lookup); err != nil {
			return "", err
		}
	}
	return filepath.Join(state, "follow"), nil
}

// Follow keeps the mirrors of the configuration file in step, or those that are named, until
// ctx ends. At each of the signals it reads the file again. flags are those of the command,
// of which one has the values.
func Follow(ctx context.Context, f *Flags, one *following.Flags, flags *pflag.FlagSet, names []string, io term.IO, signals <-chan os.Signal) error {
	g := &group{file: f, flags: flags, given: config.Given(flags), names: names, one: one, io: io, started: time.Now()}
	entries, err := f.read(flags, names, one.Sync.Out, g.check)
	if err != nil {
		return err
	}
	log := one.Sync.Out.Logger(io)
	if one.Callback.TLS, err = one.TLS.Open(log); err != nil {
		return err
	}
	if _, _, err := one.Callback.Address(); err != nil {
		return err
	}
	if err := one.Admin.Check(); err != nil {
		return err
	}
	if g.state, err = StateDir(f.config, io.LookupEnv); err != nil {
		return err
	}
	if err := statedir.Make(g.state, log); err != nil {
		return err
	}
	l, callback, err := one.Callback.Reachable(ctx)
	if err != nil {
		return err
	}
	if l != nil {
		defer func() { _ = l.Close() }() // the server closes it as well
		g.address = listen.BaseURL(one.Callback.TLS.Scheme(), l.Addr(), term.Silent())
	}
	if callback != "" {
		one.Callback.TLS.WarnAbout(callback, io)
	}
	if g.alerts, err = one.Alerts.Service(alert.Run{Command: "follow", Source: f.config, Roots: one.Sync.Network.Certificates}, io); err != nil {
		return err
	}
	if g.requests, err = one.Access.Open(admin.KindOf("callback"), nil, io); err != nil {
		return err
	}
	defer g.requests.Close()
	if g.access, err = one.Admin.Open(ctx, g.state, l != nil, one.Callback.TLS, io); err != nil {
		return err
	}
	defer g.access.Close()
	sdnotify.Send(io.LookupEnv, sdnotify.Ready, sdnotify.Status("first sync"))
	g.callback = callback
	g.shared = share(len(entries), f.Parallel, one.Sync.Network)
	if len(entries) > 1 {
		g.shared.idles = idleFor
	}
	err = g.serve(ctx, l, entries, signals)
	if mirror.Interrupted(ctx, err) {
		err = io.Interrupted("")
	}
	if perr := g.conclude(err); err == nil {
		err = perr
	}
	return err
}

// check returns an error if a mirror cannot be followed as its flags say.
func (g *group) check(e *entry) error {
	e.flags.Callback = g.one.Callback
	_, _, err := e.flags.FollowOptions()
	return err
}

// callbackOf returns the URL at which hubs reach us about one mirror: below that of the
// process, where the name of the mirror is the last part of the path.
func callbackOf(callback, name string) string {
	if callback == "" {
		return ""
	}
	return strings.TrimSuffix(callback, "/") + "/" + name + "/"
}

// Unsubscribe ends the subscriptions that follow made for the mirrors of the configuration
// file, or for those that are named.
func Unsubscribe(ctx context.Context, f *Flags, one *following.Flags, flags *pflag.FlagSet, names []string, io term.IO) error {
	entries, err := f.read(flags, names, one.Sync.Out, func(*entry) error { return nil })
	if err != nil {
		return err
	}
	result := unsubscribed{Mirrors: []*following.Unsubscribed{}}
	var failed []string
	for _, e := range entries {
		own := io.Named(e.name)
		e.flags.Callback = following.Callback{URL: callbackOf(one.Callback.URL, e.name), Listen: one.Callback.Listen}
		e.flags.TLS = one.TLS
		r, err := following.EndSubscriptions(ctx, &e.flags, own)
		if mirror.Interrupted(ctx, err) {
			return err
		}
		if r.Name = e.name; err != nil {
			r.Error = report.ErrorText(err)
			failed = append(failed, e.name)
			term.ReportError(own, err)
		}
		if result.Mirrors = append(result.Mirrors, r); !one.Sync.Out.JSON {
			r.Print(own, one.Sync.Out.Quiet)
		}
	}
	if len(failed) > 0 {
		err = fmt.Errorf("unsubscribe: subscriptions of %d of %s could not be ended: %s", len(failed), term.Count(len(entries), "mirror"), strings.Join(failed, ", "))
		result.Error = report.ErrorText(err)
	}
	if one.Sync.Out.JSON {
		return errors.Join(err, io.PrintJSON(result))
	}
	return err
}

// unsubscribed is what follow --unsubscribe prints with --json.
type unsubscribed struct {
	Mirrors []*following.Unsubscribed `json:"mirrors"`
	Error   string                    `json:"error,omitempty"`
}
