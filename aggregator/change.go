package aggregator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"lockstep/destination"
	"lockstep/intake"
)

// Fits reports whether the group can come to consist of these upstreams by Add, Remove and
// Arrange. It cannot if own URIs can be those of two of them, and could not when it was
// made.
func (g *Group) Fits(upstreams []Options) bool { return g.merge != nil || !overlap(upstreams) }

// errName is returned for an upstream with the name of another one.
var errName = errors.New("another upstream has this name")

// Add adds an upstream to the group, with a name that no other has. Its mirror is opened
// at once, as by [New]; Arrange has it followed.
func (g *Group) Add(o Options, open func(deliver func(context.Context, []destination.Change) error) (Mirror, error)) (*Upstream, error) {
	if slices.ContainsFunc(g.all(), func(m *groupMember) bool { return m.o.Name == o.Name }) {
		return nil, fmt.Errorf("add upstream %s: %w", o.Name, errName)
	}
	m, err := g.open(o, open)
	if err != nil {
		return nil, err
	}
	m.added = true
	g.mu.Lock()
	defer g.mu.Unlock()
	g.members = append(slices.Clone(g.members), m)
	return m.Upstream, nil
}

// Remove ends following the upstream with a name, and takes it out of the group. When it
// returns the mirror is not used any more. What is published of the upstream remains until
// Arrange, but is not served.
func (g *Group) Remove(name string) {
	g.mu.Lock()
	i := slices.IndexFunc(g.members, func(m *groupMember) bool { return m.o.Name == name })
	if i < 0 {
		g.mu.Unlock()
		return
	}
	m := g.members[i]
	g.members = slices.Delete(slices.Clone(g.members), i, i+1)
	delete(g.failing, name)
	started, ended := m.started, m.ended
	g.mu.Unlock()
	if started {
		close(m.quit)
		<-ended
	}
	if g.merge != nil {
		g.merge.remove(name)
	}
}

// Arrange gives the upstreams the priority of their names, brings the set in step with
// those that there are now, and has Watch follow those that were added.
func (g *Group) Arrange(ctx context.Context, names []string) (intake.Report, error) {
	t := &intake.Tally{Reporter: &g.events, Start: time.Now()}
	g.mu.Lock()
	g.members = slices.Clone(g.members)
	slices.SortStableFunc(g.members, func(a, b *groupMember) int {
		return cmp.Compare(slices.Index(names, a.o.Name), slices.Index(names, b.o.Name))
	})
	g.mu.Unlock()
	if g.merge != nil {
		g.merge.arrange(names)
	}
	err := g.settle(ctx, t)
	select {
	case g.arranged <- struct{}{}:
	default: // Watch has not seen the last one yet
	}
	return t.Report(), err
}
