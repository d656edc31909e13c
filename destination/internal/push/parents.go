package push

import (
	"context"

	"lockstep/discover"
	"lockstep/internal/fetch"
	"lockstep/resourcesync"
)

// Parents remembers which of the Capability Lists that notifications on the channel
// of a set name are that of the set. The zero value is ready to use.
type Parents struct {
	known map[string]bool
}

// maxParents limits what is remembered, and so the number of addresses that a
// channel can make us request.
const maxParents = 16

// IsSet reports whether up is the Capability List at set, or leads to it
// (RN-RX-07). If the notification names none, the channel identifies the set.
func (p *Parents) IsSet(ctx context.Context, c *fetch.Client, set, up string, refuse func(uri string) string) bool {
	if up == "" || up == set {
		return true
	}
	if is, ok := p.known[up]; ok {
		return is
	}
	if refuse(up) != "" || len(p.known) >= maxParents {
		return false
	}
	doc, err := discover.Open(ctx, c, up, discover.Validators{})
	if err != nil {
		return false // not remembered: the failure may be temporary
	}
	_ = doc.Close() // only its address is needed
	is := doc.Final == set
	if !is && doc.Header.Capability == resourcesync.CapabilityList && doc.Final != up {
		own, err := discover.Open(ctx, c, set, discover.Validators{})
		if err == nil {
			_ = own.Close() // likewise
			is = own.Final == doc.Final
		}
	}
	if p.known == nil {
		p.known = map[string]bool{}
	}
	p.known[up] = is
	return is
}
