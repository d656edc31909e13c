package site

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"lockstep/cmd/lockstep/internal/origins"
	"lockstep/cmd/lockstep/internal/term"
)

// prepareChanges opens the upstreams that are added to sets. Sets whose upstreams cannot
// change while they are followed are restarted, if they can be.
func (r *reloader) prepareChanges(p *plan) error {
	for _, name := range slices.Clone(p.altered) {
		set, c := p.old[name], p.config(name)
		change, err := (*origins.Change)(nil), origins.ErrRestart
		if o, ok := set.origin.(origins.Changer); ok {
			change, err = o.Change(c)
		}
		switch {
		case err == nil:
			p.changes[name] = change
			continue
		case !errors.Is(err, origins.ErrRestart):
			return term.Usage(fmt.Errorf("set %s: %w", name, err), term.HintOf(err))
		case !reloadable(c) || set.versions != nil:
			return fixed(name)
		}
		p.altered = slices.DeleteFunc(p.altered, func(o string) bool { return o == name })
		p.changed = append(p.changed, name)
	}
	return nil
}

// undo closes what was opened for changes.
func (p *plan) undo() {
	for _, c := range p.changes {
		c.Undo()
	}
}

// alter changes the upstreams of sets, and reports it.
func (r *reloader) alter(ctx context.Context, p *plan) {
	for _, name := range p.altered {
		c := p.changes[name]
		failed := func(failed []origins.Unsubscription, err error) { r.unsubscribed(name, failed, err) }
		leave, err := c.Apply(ctx, failed)
		for _, what := range []struct {
			what   string
			labels []string
		}{{"added", c.Added}, {"restarted with other settings", c.Changed}, {"removed", c.Removed}} {
			if len(what.labels) > 0 {
				r.report.IO.Notef("set %s: upstreams %s: %s", name, what.what, strings.Join(what.labels, ", "))
			}
		}
		if len(c.Added)+len(c.Changed)+len(c.Removed) == 0 {
			r.report.IO.Notef("set %s: upstreams have other priorities", name)
		}
		if err != nil {
			r.report.Warn(fmt.Errorf("set %s: %w", name, err))
		}
		r.leaving.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, leaveTime)
			defer cancel()
			leave(ctx)
		})
	}
	r.site.notify()
}
