package api_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"lockstep/catalog"
	"lockstep/intake"
	"lockstep/intake/api"
)

// A severed catalog loses the answer to an Apply, as a database does if the connection to
// it breaks during the commit, and answers nothing until it is connected again.
type severed struct {
	catalog.Catalog
	next, down atomic.Bool
}

var errSevered = errors.New("connection reset by peer")

func (c *severed) Apply(ctx context.Context, set string, us []catalog.Update) (catalog.Applied, error) {
	a, err := c.Catalog.Apply(ctx, set, us)
	if err == nil && c.next.Swap(false) {
		c.down.Store(true)
		return catalog.Applied{}, errSevered
	}
	return a, err
}

func (c *severed) Status(ctx context.Context, set string) (catalog.Status, error) {
	if c.down.Load() {
		return catalog.Status{}, errSevered
	}
	return c.Catalog.Status(ctx, set)
}

// TestAPIWatchAfterAnUnknownResult: Watch reports a change that may have been made, and
// Options.Changed is called, before the client learns from a repetition that it was.
func TestAPIWatchAfterAnUnknownResult(t *testing.T) {
	t.Parallel()
	for _, key := range []string{"", "A"} {
		cat := &severed{Catalog: catalog.NewMem(nil)}
		notified := make(chan string, 10)
		a := newAPI(t, cat, api.Options{Changed: func(set string) { notified <- set }})
		r := put("http://x", `{"length":1}`)
		status := 200 // the change was made, but the first request is not known
		if key != "" {
			r, status = r.key(key), 201
		}
		cat.next.Store(true)
		a.want(r, 500)
		cat.down.Store(false)
		a.want(r, status)
		if len(notified) != 1 {
			t.Errorf("key %q: Options.Changed was called %d times, want once", key, len(notified))
		}
		ctx, stop := context.WithCancelCause(t.Context())
		reports := 0
		timer := time.AfterFunc(time.Minute, func() { stop(errors.New("a minute has passed")) })
		err := a.api.Set("papers").Watch(ctx, func(intake.Report) {
			reports++
			stop(errEnough)
		})
		timer.Stop()
		if reports != 1 || !errors.Is(err, errEnough) {
			t.Errorf("key %q: %d reports, %v; want one", key, reports, err)
		}
	}
}
