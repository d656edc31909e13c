package destination

import (
	"context"
	"time"
)

// localShare bounds what looking at the mirror's own files costs a Follower: it
// rests this many times as long as the last look took.
const localShare = 20

// checkLocal looks at the files of the mirror before a set is brought into step,
// unless that was done a short time ago. Other sets with damaged files are asked
// to be looked at, too.
func (f *Follower) checkLocal(ctx context.Context, ses *session) error {
	start := time.Now()
	if rest := max(f.opts.Poll, localShare*f.localTook); !f.localAt.IsZero() && start.Sub(f.localAt) < rest {
		return nil
	}
	if err := ses.checkLocal(ctx); err != nil {
		return err
	}
	f.localAt, f.localTook = time.Now(), time.Since(start)
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, s := range f.sets {
		if s.state != nil && ses.damaged[s.state.Number] {
			f.ask(s, f.localAt)
		}
	}
	return nil
}
