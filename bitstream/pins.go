package bitstream

import (
	"context"
	"encoding/hex"
	"sync"

	"lockstep/resourcesync"
)

// A digest is the SHA-256 of a representation.
type digest [32]byte

// digestOf returns the SHA-256 among hashes.
func digestOf(hs resourcesync.Hashes) (d digest, ok bool) {
	s := hs.Get(resourcesync.SHA256)
	copy(d[:], s)
	return d, len(s) == len(d)
}

// name returns the name of the blob with those bytes: in one of 256
// directories, so that none gets too large.
func (d digest) name() string {
	s := hex.EncodeToString(d[:])
	return s[:2] + "/" + s
}

// parseName parses the name of a Keeper's blob.
func parseName(name string) (d digest, ok bool) {
	if len(name) != 3+2*len(d) || name[2] != '/' || name[:2] != name[3:5] {
		return d, false
	}
	_, err := hex.Decode(d[:], []byte(name[3:]))
	return d, err == nil && d.name() == name // in lower case
}

// pins coordinate a sweep with users of bytes: bytes are pinned from before
// their presence is checked until the change that needs them is in the catalog,
// and a sweep does not remove pinned bytes.
type pins struct {
	mu     sync.Mutex                 // guards what follows
	held   map[digest]int             // number of pins
	recent map[digest]struct{}        // pinned at some time since watch; nil while there is no sweep
	doomed map[digest]<-chan struct{} // being removed; closed when that is done
}

// pin pins d. If it is being removed, pin waits for the end of the removal.
func (p *pins) pin(ctx context.Context, d digest) error {
	for {
		p.mu.Lock()
		gone, busy := p.doomed[d]
		if !busy {
			if p.held == nil {
				p.held = make(map[digest]int)
			}
			p.held[d]++
			if p.recent != nil {
				p.recent[d] = struct{}{}
			}
			p.mu.Unlock()
			return nil
		}
		p.mu.Unlock()
		select {
		case <-gone:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (p *pins) unpin(ds []digest) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, d := range ds {
		if p.held[d]--; p.held[d] == 0 {
			delete(p.held, d)
		}
	}
}

// watch begins to record pins. After it, the needed bytes are those that the
// catalog names and those that are recorded.
func (p *pins) watch() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.recent = make(map[digest]struct{}, len(p.held))
	for d := range p.held {
		p.recent[d] = struct{}{}
	}
}

func (p *pins) unwatch() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.recent = nil
}

// doom claims for removal those of ds that were not pinned since watch. They
// cannot be pinned until done is called.
func (p *pins) doom(ds []digest) (free []digest, done func()) {
	gone := make(chan struct{})
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.doomed == nil {
		p.doomed = make(map[digest]<-chan struct{})
	}
	for _, d := range ds {
		if _, used := p.recent[d]; !used {
			free = append(free, d)
			p.doomed[d] = gone
		}
	}
	return free, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		for _, d := range free {
			delete(p.doomed, d)
		}
		close(gone)
	}
}
