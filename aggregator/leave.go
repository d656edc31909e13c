package aggregator

// Leave takes the Upstream out of its [Fleet]: it is not followed any more, and
// [Fleet.Statuses] does not return it. It does not end Watch.
func (u *Upstream) Leave() { u.o.Fleet.leave(u) }

// Leave takes all upstreams of the Group out of their [Fleet], as [Upstream.Leave] does.
func (g *Group) Leave() { g.o.Fleet.leave(g) }
