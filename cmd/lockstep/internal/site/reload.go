package site

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"lockstep/catalog"
	"lockstep/cmd/lockstep/internal/config"
	"lockstep/cmd/lockstep/internal/origins"
	"lockstep/cmd/lockstep/internal/sourcereport"
	"lockstep/cmd/lockstep/internal/term"
	"lockstep/source"
)

// A reload is a request to change the sets of a running site.
type reload struct {
	configs []config.Set
	done    chan error
}

// ErrUnchanged is returned by [Site.Reload] if there is nothing to change.
var ErrUnchanged = errors.New("the sets are those that are published")

// Reload has a running site publish the sets that configs describe, which are settled as
// those of [Options]. Sets that other Sources fill are added, removed and restarted with
// other settings; sets that have not changed are not interrupted. If Reload returns an
// error, nothing has changed. What takes longer, such as ending subscriptions, is
// reported when it is done or has failed.
func (s *Site) Reload(ctx context.Context, configs []config.Set) error {
	r := &reload{configs: configs, done: make(chan error, 1)}
	select {
	case s.reloads <- r:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	select {
	case err := <-r.done:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// A reloader changes the sets of a site. Its methods are called by one goroutine.
type reloader struct {
	site    *Site
	start   func(*siteSet) // watches a set
	report  *sourcereport.Reporter
	leaving sync.WaitGroup // for sets that were removed and are not closed yet
}

// A plan says how a setup changes into the next one.
type plan struct {
	configs []config.Set
	old     map[string]*siteSet // of the present setup, by name
	added   []string
	changed []string
	removed []string
	done    chan error
}

// await waits until there is a plan for another setup, or ctx or a task ends: then it
// returns nil. Requests that cannot be fulfilled are answered.
func (r *reloader) await(ctx context.Context, tasks *taskGroup, watch bool) (*plan, error) {
	for {
		var q *reload
		select {
		case <-ctx.Done():
			return nil, nil
		case <-tasks.failed:
			return nil, nil
		case q = <-r.site.reloads:
		}
		p, err := r.plan(q)
		if err == nil && !watch && (len(p.added)+len(p.changed)+len(p.removed) > 0) {
			err = errors.New("a Source that does not watch for changes has to be restarted to change its sets")
		}
		if err == nil && len(p.added)+len(p.changed)+len(p.removed) == 0 {
			err = ErrUnchanged
		}
		if err != nil {
			q.done <- err
			continue
		}
		r.leaving.Wait() // a set that is added again needs what is being closed
		if err := r.prepare(ctx, p); err != nil {
			q.done <- err
			continue
		}
		return p, nil
	}
}

// nameOf returns the name of a set that a configuration describes.
func nameOf(c *config.Set) string {
	if c.Name == "" {
		return source.DefaultSet
	}
	return c.Name
}

func names(configs []config.Set) (all []string) {
	for i := range configs {
		all = append(all, nameOf(&configs[i]))
	}
	return all
}

// plan compares a configuration with the present setup. It fails if the sets cannot
// change so without a restart.
func (r *reloader) plan(q *reload) (*plan, error) {
	now := r.site.setup.Load()
	p := &plan{configs: q.configs, old: map[string]*siteSet{}, done: q.done}
	was := map[string]*config.Set{}
	for i := range now.configs {
		name := nameOf(&now.configs[i])
		was[name], p.old[name] = &now.configs[i], now.sets[i]
	}
	o := *r.site.builder.opts
	o.Sets = q.configs
	if err := o.Check(); err != nil {
		return nil, err
	}
	seen := map[string]bool{}
	var fixed []string
	for i := range q.configs {
		c := &q.configs[i]
		name := nameOf(c)
		if seen[name] {
			return nil, term.Usagef("set %q is configured twice", name)
		}
		seen[name] = true
		old := was[name]
		switch {
		case old != nil && c.Same(old):
			continue
		case !reloadable(c), old != nil && !p.old[name].reloadable(old):
			fixed = append(fixed, name)
		case old == nil:
			p.added = append(p.added, name)
		default:
			p.changed = append(p.changed, name)
		}
	}
	for i := range now.configs {
		if name := nameOf(&now.configs[i]); !seen[name] {
			if !p.old[name].reloadable(&now.configs[i]) {
				fixed = append(fixed, name)
				continue
			}
			p.removed = append(p.removed, name)
		}
	}
	if len(fixed) > 0 {
		return nil, term.WithHint(fmt.Errorf("set %s can only be added, changed or removed with a restart", strings.Join(fixed, ", ")),
			"without a restart, only sets from resourcesync: change, and those only without versions, patches and change_dump")
	}
	return p, nil
}

// reloadable reports whether a set can be added, changed and removed while the site
// runs.
func reloadable(c *config.Set) bool {
	return c.Origin.Kind.Scheme == "resourcesync" && !c.KeepsBytes()
}

// reloadable reports the same of a set that is published: one that has kept versions
// needs a restart, too.
func (set *siteSet) reloadable(c *config.Set) bool { return reloadable(c) && set.versions == nil }

// prepare opens the sets that are added, while all others go on. If one cannot be
// opened, none is.
func (r *reloader) prepare(ctx context.Context, p *plan) error {
	b := r.site.builder
	if err := b.try(p.configs); err != nil {
		return err
	}
	b.sets.origins.Upstreams.Several = followed(p.configs) > 1 // of those that are opened from now on
	var opened []*siteSet
	for _, name := range p.added {
		set, err := r.open(p.config(name))
		if err == nil {
			opened = append(opened, set)
			err = b.move(ctx, []*siteSet{set})
		}
		if err != nil {
			for _, set := range opened {
				set.close()
			}
			return err
		}
	}
	for _, set := range opened {
		p.old[set.name] = set
	}
	return nil
}

// config returns the configuration of a set.
func (p *plan) config(name string) *config.Set {
	return &p.configs[slices.Index(names(p.configs), name)]
}

// open opens a set.
func (r *reloader) open(c *config.Set) (*siteSet, error) {
	b := r.site.builder
	set, _, err := b.sets.newSet(c, b.catalog)
	if err == nil && set.versions != nil {
		set.close()
		err = fmt.Errorf("set %s kept versions, which a restart removes: it can only be added with a restart", set.name)
	}
	if err != nil {
		return nil, err
	}
	set.added = true
	return set, nil
}

// try checks whether a Source can be made with the sets that configs describe.
func (b *setupBuilder) try(configs []config.Set) error {
	var sets []*siteSet
	for i := range configs {
		set := &siteSet{name: nameOf(&configs[i]), from: configs[i].Origin, source: offered(&configs[i], nameOf(&configs[i]), b.opts)}
		set.source.Bitstream = func(context.Context, *catalog.Record) (io.ReadCloser, error) { return nil, fs.ErrNotExist }
		set.source.Past = func(context.Context, *catalog.Change) (io.ReadCloser, error) { return nil, fs.ErrNotExist }
		sets = append(sets, set)
	}
	_, err := b.build(sets, configs)
	return err
}

// replace puts the planned setup in the place of the present one, whose tasks have ended,
// and answers the request.
func (r *reloader) replace(ctx context.Context, p *plan) {
	s := r.site
	was := s.setup.Load()
	var gone []*siteSet
	for _, name := range p.removed {
		gone = append(gone, p.old[name])
	}
	var started []*siteSet
	for _, name := range p.added {
		started = append(started, p.old[name])
	}
	for _, name := range p.changed {
		old := p.old[name]
		old.stop()
		r.unsubscribe(ctx, old, p.config(name), changeTime)
		old.close()
		set, err := r.open(p.config(name))
		if err != nil {
			r.report.Warn(term.WithHint(fmt.Errorf("set %s keeps the settings that it had: %w", name, err), term.HintOf(err)))
			*p.config(name) = was.configs[slices.Index(names(was.configs), name)]
			set, err = r.open(p.config(name))
		}
		if err != nil { // its documents remain, and it is started with the process
			r.report.Warn(fmt.Errorf("set %s cannot be opened again and is not published until the configuration is read again: %w", name, err))
			p.configs = slices.DeleteFunc(p.configs, func(c config.Set) bool { return nameOf(&c) == name })
			continue
		}
		p.old[name] = set
		started = append(started, set)
	}
	var sets []*siteSet
	for _, name := range names(p.configs) {
		sets = append(sets, p.old[name])
	}
	next, err := s.builder.build(sets, p.configs)
	if err != nil {
		p.done <- err // the sets are known to fit together: try has made a Source of them
		return
	}
	for _, set := range gone {
		set.stop()
	}
	s.setup.Store(next)
	close(was.ended)
	for _, set := range started {
		r.start(set)
	}
	s.notify()
	r.say(p)
	for _, set := range gone {
		r.leaving.Go(func() { r.leave(ctx, set, was) })
	}
	p.done <- nil
}

// say reports what has changed.
func (r *reloader) say(p *plan) {
	for _, c := range []struct {
		what  string
		names []string
	}{{"added", p.added}, {"restarted with other settings", p.changed}, {"removed", p.removed}} {
		if len(c.names) > 0 {
			r.report.IO.Errorf("note: %s: %s\n", c.what, strings.Join(c.names, ", "))
		}
	}
}

// How long hubs may take to end the subscriptions of an upstream: one that is no
// longer followed, and one that is followed again with other settings.
const (
	leaveTime  = 2 * time.Minute
	changeTime = 10 * time.Second
)

// leave ends the subscriptions of a set that was removed, closes it, and reports where
// its state is.
func (r *reloader) leave(ctx context.Context, set *siteSet, was *setup) {
	s := r.site
	name := strings.TrimPrefix(set.list, strings.TrimSuffix(s.about.BaseURL, "/")+"/")
	if err := s.builder.docs().Remove(ctx, name); err != nil && ctx.Err() == nil {
		r.report.Warn(fmt.Errorf("remove the Capability List of set %s: %w", set.name, err))
	}
	r.unsubscribe(ctx, set, nil, leaveTime)
	set.close()
	s.builder.failures.Forget(set.name)
	s.builder.tally.Forget(set.name)
	c := &was.configs[slices.Index(names(was.configs), set.name)]
	r.report.IO.Errorf("note: set %s is no longer published; its mirror is kept in %s\n", set.name, mirrorOf(c, set.name, s.builder.opts.State))
}

// mirrorOf names the places of the mirrors of a set.
func mirrorOf(c *config.Set, name, state string) string {
	var places []string
	for i := range c.Upstreams {
		places = append(places, c.Upstreams[i].Store)
	}
	if len(places) == 0 {
		places = []string{c.Store}
	}
	for i := range places {
		if places[i] == "" {
			places[i] = filepath.Join(state, origins.MirrorsDir, name)
		}
	}
	slices.Sort(places)
	return strings.Join(slices.Compact(places), ", ")
}

// unsubscribe ends the subscriptions of the upstreams of a set, which is not watched any
// more, except of those that the configuration next names; it may be nil.
func (r *reloader) unsubscribe(ctx context.Context, set *siteSet, next *config.Set, within time.Duration) {
	o, ok := set.origin.(origins.Subscriber)
	if !ok {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	failed, err := o.Unsubscribe(ctx, func(address string) bool { return next.Follows(address) })
	for _, u := range failed {
		r.report.IO.Errorf("note: set %s: the hub %s still notifies this process, until its lease ends: %s\n", set.name, u.Hub, u.Error)
	}
	if err != nil {
		r.report.Warn(fmt.Errorf("set %s: end its subscriptions: %w", set.name, err))
	}
}
