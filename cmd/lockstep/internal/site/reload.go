package site

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
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
	"lockstep/internal/statedir"
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
// other settings. Where only upstreams of a set have changed, only these are added, removed
// and restarted. What has not changed is not interrupted. If Reload returns an error,
// nothing has changed. What takes longer, such as ending subscriptions, is
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
	access  []string                   // sets whose readers change
	altered []string                   // sets of which only upstreams change
	changes map[string]*origins.Change // of these
	done    chan error
}

// replaces reports whether another setup takes the place of the present one: otherwise
// nothing but upstreams of sets change.
func (p *plan) replaces() bool { return len(p.added)+len(p.changed)+len(p.removed)+len(p.access) > 0 }

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
		switch {
		case err != nil:
		case !p.replaces() && len(p.altered) == 0:
			err = ErrUnchanged
		case !watch:
			err = errors.New("a Source that does not watch for changes has to be restarted to change its sets")
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
		if p.replaces() {
			return p, nil
		}
		r.alter(ctx, p)
		r.site.setup.Load().configs = p.configs // which nothing else reads while this is the setup
		q.done <- nil
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
	p := &plan{configs: q.configs, old: map[string]*siteSet{}, changes: map[string]*origins.Change{}, done: q.done}
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
	var frozen []string
	for i := range q.configs {
		c := &q.configs[i]
		name := nameOf(c)
		if seen[name] {
			return nil, term.Usagef("set %q is configured twice", name)
		}
		seen[name] = true
		old := was[name]
		if old != nil && !c.SameReaders(old) {
			p.access = append(p.access, name)
			same := *c
			same.Readers, same.NotifyHubs = old.Readers, old.NotifyHubs
			c = &same
		}
		switch {
		case old != nil && c.Same(old):
			continue
		case old != nil && c.SameBut(old):
			p.altered = append(p.altered, name)
		case !reloadable(c), old != nil && !p.old[name].reloadable(old):
			frozen = append(frozen, name)
		case old == nil:
			p.added = append(p.added, name)
		default:
			p.changed = append(p.changed, name)
		}
	}
	for i := range now.configs {
		if name := nameOf(&now.configs[i]); !seen[name] {
			if !p.old[name].reloadable(&now.configs[i]) {
				frozen = append(frozen, name)
				continue
			}
			p.removed = append(p.removed, name)
		}
	}
	if len(frozen) > 0 {
		return nil, fixed(frozen...)
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
	was := b.opts.Sets
	b.opts.Sets = p.configs // the addresses of a set depend on those of the others
	var opened []*siteSet
	err := r.prepareChanges(p)
	for _, name := range p.added {
		if err != nil {
			break
		}
		var set *siteSet
		if set, err = r.open(p.config(name)); err == nil {
			opened = append(opened, set)
			err = b.move(ctx, []*siteSet{set})
		}
	}
	if err != nil {
		for _, set := range opened {
			set.close()
		}
		p.undo()
		b.opts.Sets = was
		return err
	}
	for _, set := range opened {
		p.old[set.name] = set
	}
	return nil
}

// fixed returns the error for sets that cannot change without a restart.
func fixed(names ...string) error {
	return term.WithHint(fmt.Errorf("set %s can only be added, changed or removed with a restart", strings.Join(names, ", ")),
		"to apply all of the file, restart lockstep serve: what is mirrored is not fetched again; without a restart, only the readers of sets, and sets from resourcesync: change, and of those with versions, patches or change_dump only the upstreams")
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
// and answers the request. If that is impossible, because a set cannot be opened with its
// new settings, all sets have those that they had.
func (r *reloader) replace(ctx context.Context, p *plan) {
	s := r.site
	was := s.setup.Load()
	now := maps.Clone(p.old)
	for _, name := range p.changed {
		old := p.old[name]
		old.stop()
		r.unsubscribe(ctx, old, p.config(name), changeTime)
		old.close()
	}
	next, _, err := r.reopen(p.configs, p.changed, now)
	if err != nil {
		r.restore(p, was)
		p.done <- err
		return
	}
	var gone []*siteSet
	for _, name := range p.removed {
		gone = append(gone, p.old[name])
	}
	for _, set := range gone {
		set.stop()
	}
	if err := next.keepFormer(s.builder.former); err != nil {
		r.report.Warn(err)
	}
	s.setup.Store(next)
	close(was.ended)
	for _, name := range append(slices.Clone(p.added), p.changed...) {
		r.start(now[name])
	}
	r.alter(ctx, p)
	r.say(p)
	if len(p.access) > 0 {
		s.WarnOfAccess(ctx, r.report)
	}
	for _, set := range gone {
		r.leaving.Go(func() { r.leave(ctx, set, was) })
	}
	p.done <- nil
}

// reopen opens sets again as configs describe them, in all, and returns the setup of all
// sets. If it fails, none of them is open, and failed is the one that could not be opened,
// if there is one.
func (r *reloader) reopen(configs []config.Set, names []string, all map[string]*siteSet) (_ *setup, failed string, _ error) {
	for i := range configs {
		if name := nameOf(&configs[i]); slices.Contains(names, name) {
			set, err := r.open(&configs[i])
			if err != nil {
				closeSets(names, all)
				return nil, name, err
			}
			all[name] = set
		}
	}
	var sets []*siteSet
	for i := range configs {
		sets = append(sets, all[nameOf(&configs[i])])
	}
	next, err := r.site.builder.build(sets, configs)
	if err != nil {
		closeSets(names, all)
	}
	return next, "", err
}

func closeSets(names []string, all map[string]*siteSet) {
	for _, name := range names {
		all[name].close() // once more, if it is closed
	}
}

// restore opens the sets again that were closed for a plan, with the settings of the setup
// that was in effect, and closes what was opened for the plan.
func (r *reloader) restore(p *plan, was *setup) {
	r.site.notify() // the tasks that have ended may have been about to publish changes
	closeSets(p.added, p.old)
	p.undo()
	r.site.builder.opts.Sets = was.configs
	configs, names := slices.Clone(was.configs), slices.Clone(p.changed)
	for {
		now := map[string]*siteSet{}
		for i := range was.configs {
			now[nameOf(&was.configs[i])] = was.sets[i]
		}
		old, failed, err := r.reopen(configs, names, now)
		if err == nil {
			r.site.setup.Store(old)
			close(was.ended)
			for _, name := range names {
				r.start(now[name])
			}
			return
		}
		if failed == "" {
			r.report.Warn(fmt.Errorf("sets %s are not served until serve is started again: %w", strings.Join(names, ", "), err))
			return // unreachable: a Source was made of these settings before
		}
		r.report.Warn(fmt.Errorf("set %s is not published until the configuration is read again: %w", failed, err)) // its documents remain
		names = slices.DeleteFunc(names, func(name string) bool { return name == failed })
		configs = slices.DeleteFunc(configs, func(c config.Set) bool { return nameOf(&c) == failed })
	}
}

// say reports what has changed.
func (r *reloader) say(p *plan) {
	for _, c := range []struct {
		what  string
		names []string
	}{{"added", p.added}, {"restarted with other settings", p.changed}, {"removed", p.removed}, {"with other readers", p.access}} {
		if len(c.names) > 0 {
			r.report.IO.Notef("%s: %s", c.what, strings.Join(c.names, ", "))
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
	r.report.IO.Notef("set %s is no longer published; its mirror is kept in %s", set.name, mirrorOf(c, set.name, s.builder.opts.State.Dir))
}

// mirrorOf names the places of the mirrors of a set.
func mirrorOf(c *config.Set, name, state string) string {
	places := c.Stores()
	for i := range places {
		if places[i] == "" {
			places[i] = filepath.Join(state, statedir.UpstreamsDir, name)
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
	r.unsubscribed(set.name, failed, err)
}

// unsubscribed reports the subscriptions of a set that could not be ended.
func (r *reloader) unsubscribed(set string, failed []origins.Unsubscription, err error) {
	for _, u := range failed {
		r.report.IO.Notef("set %s: the hub %s still notifies this process, until its lease ends: %s", set, u.Hub, u.Error)
	}
	if err != nil {
		r.report.Warn(fmt.Errorf("set %s: end its subscriptions: %w", set, err))
	}
}
