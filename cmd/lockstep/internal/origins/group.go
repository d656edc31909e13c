package origins

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"lockstep/aggregator"
	"lockstep/cmd/lockstep/internal/config"
	"lockstep/destination"
)

// A group is several upstreams that fill one set, which can change while they are followed.
type group struct {
	upstream
	opener *Opener
	set    *Set
	group  *aggregator.Group

	mu      sync.Mutex             // guards members
	members map[string]*openMember // by key
}

// An openMember is what was opened for an upstream of a group.
type openMember struct {
	config     config.Member
	callback   string   // URL that its hub calls; "": none
	closers    []func() // in the order in which what they close was opened
	subscribed []subscriber
}

func (m *openMember) close() {
	for _, f := range slices.Backward(m.closers) {
		f()
	}
	m.closers = nil
}

// openGroup opens the upstreams of a set. opened has what does not depend on these.
func (o *Opener) openGroup(s *Set, opened upstream) (Origin, error) {
	g := &group{upstream: opened, opener: o, set: s, members: make(map[string]*openMember)}
	g.upstream.subscribed = g.allSubscribed
	o.Upstreams.OnClose(g.closeAll)
	all, err := g.options(s.Config)
	if err != nil {
		return nil, err
	}
	options := aggregator.GroupOptions{TempDir: o.State, OnEvent: s.OnEvent, Fleet: o.Upstreams.Fleet}
	g.group, err = aggregator.NewGroup(s.Catalog, s.List, options, all, func(i int, deliver func(context.Context, []destination.Change) error) (aggregator.Mirror, error) {
		return g.open(&s.Config.Upstreams[i], all[i].Follow.Callback, deliver)
	})
	if err != nil {
		return nil, err
	}
	for i := range all {
		o.Upstreams.Callbacks.add(all[i].Follow.Callback, g.group.Handler(i))
	}
	g.follower = g.group
	return g, nil
}

// options returns what the configuration of the upstreams of a set means.
func (g *group) options(c *config.Set) (all []aggregator.Options, err error) {
	o, s := g.opener, g.set
	for i := range c.Upstreams {
		m := &c.Upstreams[i]
		if len(m.Include) == 0 {
			m.Include = c.Include
		}
		if len(m.Exclude) == 0 {
			m.Exclude = c.Exclude
		}
		ao, err := o.upstreamOptions(s, m)
		if err != nil {
			return nil, err
		}
		if m.Name != "" {
			ao.URI += m.Name + "/"
		}
		ao.Name = m.Key()
		ao.Follow.Callback = o.Upstreams.Callbacks.address(base(o.Upstreams.BaseURL), ao.Address, s.Name+"/"+m.Key())
		all = append(all, ao)
	}
	return all, nil
}

// open opens the mirror of an upstream.
func (g *group) open(m *config.Member, callback string, deliver func(context.Context, []destination.Change) error) (aggregator.Mirror, error) {
	ups := &g.opener.Upstreams
	own := &openMember{config: *m, callback: callback}
	onClose := ups.OnClose
	ups.OnClose, ups.opened = func(f func()) { own.closers = append(own.closers, f) }, nil
	opened, err := g.opener.openMirror(m, filepath.Join(g.set.Name, m.Key()), deliver)
	own.subscribed, ups.OnClose, ups.opened = ups.opened, onClose, nil
	if err != nil {
		own.close()
		return opened, err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.members[m.Key()] = own
	return opened, nil
}

// take removes what was opened for an upstream from the group; nil if there is nothing.
func (g *group) take(key string) *openMember {
	g.mu.Lock()
	defer g.mu.Unlock()
	m := g.members[key]
	delete(g.members, key)
	return m
}

func (g *group) closeAll() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, m := range g.members {
		m.close()
	}
	clear(g.members)
}

func (g *group) allSubscribed() (all []subscriber) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, m := range g.members {
		all = append(all, m.subscribed...)
	}
	return all
}

// ErrRestart is returned by [Changer.Change] if the set has to be opened again.
var ErrRestart = errors.New("the upstreams cannot change while they are followed")

// A Changer is an [Origin] whose upstreams can change while it is watched.
type Changer interface {
	// Change prepares that the upstreams of the set are those of next, which has the same
	// settings otherwise: it opens those that are added. If it fails, nothing has changed.
	Change(next *config.Set) (*Change, error)
}

// A Change is a prepared change of the upstreams of a set: Apply or Undo must be called.
type Change struct {
	Added, Changed, Removed []string // labels of upstreams

	group                   *group
	next                    *config.Set
	options                 []aggregator.Options
	added, changed, removed []string // their keys
}

// label returns how people know an upstream.
func label(m *config.Member) string {
	if m.Name != "" {
		return m.Name
	}
	return m.Origin.WithoutUser()
}

// Change implements [Changer].
func (g *group) Change(next *config.Set) (*Change, error) {
	all, err := g.options(next)
	if err != nil {
		return nil, err
	}
	if len(all) == 0 || !g.group.Fits(all) {
		return nil, ErrRestart
	}
	c := &Change{group: g, next: next, options: all}
	g.mu.Lock()
	was := make(map[string]config.Member, len(g.members))
	for key, m := range g.members {
		was[key] = m.config
	}
	g.mu.Unlock()
	for i := range next.Upstreams {
		m := &next.Upstreams[i]
		old, ok := was[m.Key()]
		delete(was, m.Key())
		switch {
		case ok && m.Same(&old):
		case ok:
			c.changed, c.Changed = append(c.changed, m.Key()), append(c.Changed, label(m))
		default:
			if err := c.add(i); err != nil {
				c.Undo()
				return nil, err
			}
			c.added, c.Added = append(c.added, m.Key()), append(c.Added, label(m))
		}
	}
	for key, m := range was {
		c.removed, c.Removed = append(c.removed, key), append(c.Removed, label(&m))
	}
	slices.Sort(c.Removed)
	return c, nil
}

// add adds the upstream with a number to the group.
func (c *Change) add(i int) error {
	g, callback := c.group, c.options[i].Follow.Callback
	u, err := g.group.Add(c.options[i], func(deliver func(context.Context, []destination.Change) error) (aggregator.Mirror, error) {
		return g.open(&c.next.Upstreams[i], callback, deliver)
	})
	if err != nil {
		if m := g.take(c.next.Upstreams[i].Key()); m != nil {
			m.close()
		}
		return err
	}
	g.callbacks.add(callback, u.Handler())
	return nil
}

// remove takes an upstream out of the group, and returns what was opened for it.
func (c *Change) remove(key string) *openMember {
	c.group.group.Remove(key)
	m := c.group.take(key)
	if m.callback != "" {
		c.group.callbacks.remove(m.callback)
	}
	return m
}

// Undo closes the upstreams that were added.
func (c *Change) Undo() {
	for _, key := range c.added {
		c.remove(key).close()
	}
}

// changeTime is how long hubs may take to end the subscriptions of an upstream that is
// followed again with another address.
const changeTime = 10 * time.Second

// Apply makes the change. An upstream that cannot be opened with its new settings is
// followed with those that it had, also in the configuration that Change was given; the
// error says so. The function that it returns ends the subscriptions of the upstreams that
// were removed, and closes them.
func (c *Change) Apply(ctx context.Context, failed func([]destination.Unsubscription, error)) (leave func(context.Context), err error) {
	g := c.group
	var errs []error
	var gone []*openMember
	for _, key := range c.removed {
		gone = append(gone, c.remove(key))
	}
	for _, key := range c.changed {
		i := slices.IndexFunc(c.next.Upstreams, func(m config.Member) bool { return m.Key() == key })
		m := &c.next.Upstreams[i]
		old := c.remove(key)
		if old.config.Origin.WithoutUser() != m.Origin.WithoutUser() {
			within, cancel := context.WithTimeout(ctx, changeTime)
			failed(g.unsubscribe(within, old))
			cancel()
		}
		old.close()
		err := c.add(i)
		if err == nil {
			continue
		}
		errs = append(errs, fmt.Errorf("upstream %s keeps the settings that it had: %w", label(m), err))
		*m = old.config
		if c.options, err = g.options(c.next); err == nil {
			err = c.add(i)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("upstream %s cannot be opened again and is not republished until the configuration is read again: %w", label(m), err))
		}
	}
	g.set.Config = c.next
	var keys []string
	for i := range c.next.Upstreams {
		keys = append(keys, c.next.Upstreams[i].Key())
	}
	if _, err := g.group.Arrange(ctx, keys); err != nil {
		errs = append(errs, err)
	}
	return func(ctx context.Context) {
		for _, m := range gone {
			failed(g.unsubscribe(ctx, m))
			m.close()
		}
	}, errors.Join(errs...)
}

// unsubscribe ends the subscriptions of an upstream that is not followed any more.
func (g *group) unsubscribe(ctx context.Context, m *openMember) ([]destination.Unsubscription, error) {
	u := g.upstream
	u.subscribed = func() []subscriber { return m.subscribed }
	return u.Unsubscribe(ctx, func(string) bool { return false })
}
