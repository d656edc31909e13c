package vault

import (
	"context"
	"maps"
	"sync"
)

// pins coordinate a sweep with users of blobs. A user pins a blob before
// checking whether it exists: a sweep does not change pinned blobs, and a blob
// that it is removing or rewriting can be pinned when that is done.
type pins struct {
	mu       sync.Mutex                 // guards what follows
	held     map[Digest]int             // number of open or staged contents that use it
	holds    []*hold                    // not released; a running sweep has one, too
	busy     map[Digest]<-chan struct{} // being removed or rewritten; closed when done
	claimed  map[Digest]<-chan struct{} // being committed; closed when done
	sweeping bool
}

// A hold records what was pinned since it began, until a later one begins.
type hold struct{ pinned map[Digest]struct{} }

// pin pins d for as long as any current hold lasts and, if keep is set, until
// unpin. If d is busy it waits until it is not.
func (p *pins) pin(ctx context.Context, d Digest, keep bool) (sweeping bool, err error) {
	for {
		p.mu.Lock()
		done, busy := p.busy[d]
		if !busy {
			p.note(d, keep)
			sweeping = p.sweeping
			p.mu.Unlock()
			return sweeping, nil
		}
		p.mu.Unlock()
		if err := waitFor(ctx, done); err != nil {
			return false, err
		}
	}
}

func waitFor(ctx context.Context, done <-chan struct{}) error {
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (p *pins) note(d Digest, keep bool) {
	if n := len(p.holds); n > 0 {
		p.holds[n-1].pinned[d] = struct{}{}
	}
	if keep {
		if p.held == nil {
			p.held = make(map[Digest]int)
		}
		p.held[d]++
	}
}

func (p *pins) unpin(ds ...Digest) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, d := range ds {
		// A hold that began while d was pinned records it from here on.
		if n := len(p.holds); n > 0 {
			p.holds[n-1].pinned[d] = struct{}{}
		}
		if p.held[d]--; p.held[d] == 0 {
			delete(p.held, d)
		}
	}
}

// hold begins to record pins.
func (p *pins) hold() (release func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	h := &hold{pinned: make(map[Digest]struct{})}
	p.holds = append(p.holds, h)
	return sync.OnceFunc(func() { p.release(h) })
}

// release removes a hold. What was pinned since it began, was also pinned since
// the previous one began.
func (p *pins) release(h *hold) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range p.holds {
		if p.holds[i] != h {
			continue
		}
		if i > 0 {
			maps.Copy(p.holds[i-1].pinned, h.pinned)
		}
		p.holds = append(p.holds[:i], p.holds[i+1:]...)
		return
	}
}

// watch begins a sweep: it returns what is pinned now; later calls of pin learn
// that there is a sweep.
func (p *pins) watch() (now []Digest, unwatch func()) {
	release := p.hold()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sweeping = true
	for d := range p.held {
		now = append(now, d)
	}
	for _, h := range p.holds {
		for d := range h.pinned {
			now = append(now, d)
		}
	}
	return now, func() {
		p.mu.Lock()
		p.sweeping = false
		p.mu.Unlock()
		release()
	}
}

// take makes those of ds busy that are not pinned. They cannot be pinned until
// done is called.
func (p *pins) take(ds ...Digest) (free []Digest, done func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.busy == nil {
		p.busy = make(map[Digest]<-chan struct{})
	}
	gone := make(chan struct{})
	for _, d := range ds {
		if !p.pinned(d) {
			free = append(free, d)
			p.busy[d] = gone
		}
	}
	return free, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		for _, d := range free {
			delete(p.busy, d)
		}
		close(gone)
	}
}

func (p *pins) pinned(d Digest) bool {
	if p.held[d] > 0 {
		return true
	}
	for _, h := range p.holds {
		if _, has := h.pinned[d]; has {
			return true
		}
	}
	return false
}

// claim claims all of ds, which are pinned, for a commit: of two commits of the
// same content, the second waits and finds it there.
func (p *pins) claim(ctx context.Context, ds []Digest) (done func(), err error) {
	for {
		other, done := p.tryClaim(ds)
		if done != nil {
			return done, nil
		}
		if err := waitFor(ctx, other); err != nil {
			return nil, err
		}
	}
}

func (p *pins) tryClaim(ds []Digest) (other <-chan struct{}, done func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, d := range ds {
		if other, taken := p.claimed[d]; taken {
			return other, nil
		}
	}
	if p.claimed == nil {
		p.claimed = make(map[Digest]<-chan struct{})
	}
	mine := make(chan struct{})
	for _, d := range ds {
		p.claimed[d] = mine
	}
	return nil, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		for _, d := range ds {
			delete(p.claimed, d)
		}
		close(mine)
	}
}
