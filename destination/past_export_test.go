package destination

import (
	"context"
	"io"
	"time"

	"lockstep/destination/internal/history"
	"lockstep/destination/journal"
)

// SetClock replaces the clock of the mirror.
func (d *Destination) SetClock(clock func() time.Time) { d.clock = clock }

// An Old is a resource as a mirror once held it.
type Old struct {
	URI     string
	Known   bool   // whether it is known if the mirror had it, and with which content
	Content string // where Err is nil
	Err     error  // why the content is unavailable
}

// Past returns the state of a set of the mirror at an instant, with contents, and
// the earliest instant whose state is known.
func (d *Destination) Past(ctx context.Context, at time.Time, set int) (olds []Old, since time.Time, err error) {
	p, err := history.At(ctx, d.journal, at, set)
	if err != nil {
		return nil, p.Since, err
	}
	for h, err := range p.Held {
		if err != nil {
			return nil, p.Since, err
		}
		o := Old{URI: h.URI, Known: h.Path != ""}
		if o.Known {
			o.Content, o.Err = d.keptText(ctx, &h)
		}
		olds = append(olds, o)
	}
	return olds, p.Since, nil
}

func (d *Destination) keptText(ctx context.Context, h *journal.Held) (string, error) {
	r, err := keptContent(d).Open(ctx, h.URI, h.Hashes, h.Length)
	if err != nil {
		return "", err
	}
	defer r.Close()
	b, err := io.ReadAll(r)
	return string(b), err
}

// ErrNoPast is the error of Past where the state is unknown.
var ErrNoPast = history.ErrUnknown

// SetPatience sets for how long a set may be slow while others wait.
func (d *Destination) SetPatience(patience time.Duration) { d.patience = patience }
