package destination_test

import (
	"context"
	"flag"
	"io"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"

	"lockstep/blob"
	"lockstep/blob/faultfs"
	"lockstep/destination"
	"lockstep/destination/journaltest"
	"lockstep/discover"
	"lockstep/internal/fetch"
	"lockstep/internal/historytest"
	"lockstep/resourcesync"
)

var follows = flag.Int("follows", 25, "how many lives TestFollow leads")

// A follower receives the changes of a mirror in a history: as a taker of changes,
// or as a Sink. It fails now and then.
type follower struct {
	*history
	has  map[string]string // contents, or hashes of them, by URI
	sink bool
	weak bool // fails at one of three batches
}

// TestFollow runs histories like those of TestHistories. In the end the follower
// has what the Source has, despite every crash and failure.
func TestFollow(t *testing.T) {
	t.Parallel()
	historytest.Run(t, *follows, *historySeed, 4, follow)
}

func follow(run *historytest.History) {
	t := run.T
	f := &follower{history: newHistory(run), has: map[string]string{}}
	f.sink = f.IntN(2) == 0
	f.Tracef("sink: %v", f.sink)
	f.change(5 + f.IntN(20))
	f.publish(t.Context())
	for range 1 + f.IntN(6) {
		switch f.IntN(6) {
		case 0:
			f.upset(f.Trouble())
			_ = f.run(nil)
			f.upset(nil)
		case 1, 2:
			_ = f.run(&faultfs.Faults{At: 1 + f.IntN(60)})
		case 3, 4:
			f.weak = true
			_ = f.run(nil)
			f.weak = false
		case 5:
			_ = f.run(nil)
		}
		if f.IntN(4) > 0 {
			f.change(1 + f.IntN(12))
			f.publish(t.Context())
		}
	}
	if err := f.run(nil); err != nil {
		if err = f.run(nil); err != nil {
			f.Fatalf("quiet run: %v", err)
		}
	}
	if !f.sink {
		f.same()
	}
	f.compare()
}

// run syncs once.
func (f *follower) run(fused *faultfs.Faults) error {
	c, err := fetch.New(fetch.Options{Home: discover.Home(f.srv.URL), Retries: -1, Jobs: f.pick(0, 1, 4)})
	f.Must(err)
	defer c.Close()
	o := destination.Options{MaxDelete: 100, AllVersions: f.IntN(3) == 0, Via: [...]string{"", "list", "dump", "dump"}[f.IntN(4)]}
	store, journal := f.store, f.journal
	switch {
	case f.sink:
		store = destination.NewSinkStore(f, destination.SinkOptions{Memory: 1000, Dir: f.dir})
		if fused != nil {
			fused.At = 1 + fused.At/6 // there are fewer writes
			journal = &journaltest.Faulty{Journal: journal, Faults: fused}
		}
	case fused != nil:
		store, journal = &faultfs.Dir{Dir: store.(*blob.Dir), Faults: fused}, &journaltest.Faulty{Journal: journal, Faults: fused}
	}
	if !f.sink {
		o.Deliver = f.deliver
	}
	d, err := destination.New(store, journal, c, o)
	f.Must(err)
	r, err := d.Sync(context.Background(), f.srv.URL)
	f.Tracef("sync: %s via %s, %+v, %v", counts(r), r.Via, r.By, err)
	return err
}

// fails returns an error now and then.
func (f *follower) fails() error {
	if f.weak && rand.IntN(3) == 0 {
		f.Tracef("the follower fails")
		return errBusy
	}
	return nil
}

func (f *follower) deliver(_ context.Context, batch []destination.Change) error {
	half := rand.IntN(len(batch) + 1)
	err := f.fails()
	for i, c := range batch {
		if err != nil && i == half {
			break // it has taken some, and gets them again
		}
		if f.has[c.URI] = c.Hashes.Get(resourcesync.SHA256); c.Kind == resourcesync.Deleted {
			delete(f.has, c.URI)
		}
	}
	return err
}

// Apply makes a follower a Sink.
func (f *follower) Apply(_ context.Context, batch []destination.Delivery) error {
	err := f.fails()
	half := rand.IntN(len(batch) + 1)
	for i := range batch {
		d := &batch[i]
		f.Tracef("the follower is given %s %s", d.Kind, d.URI)
		if err != nil && i == half {
			break
		}
		if d.Kind == resourcesync.Deleted {
			delete(f.has, d.URI)
			continue
		}
		data, rerr := io.ReadAll(d.Open())
		if rerr != nil {
			return rerr
		}
		f.has[d.URI] = string(data)
	}
	return err
}

// compare compares what the follower has with what the Source holds.
func (f *follower) compare() {
	f.Helper()
	want := map[string]string{}
	f.mu.Lock()
	for uri, text := range f.now {
		if want[uri] = text; !f.sink {
			h := resourcesync.NewHasher(resourcesync.SHA256)
			_, _ = h.Write([]byte(text))
			want[uri] = h.Sum().Get(resourcesync.SHA256)
		}
	}
	f.mu.Unlock()
	if d := cmp.Diff(want, f.has); d != "" {
		f.Fatalf("the follower has (-want +got)\n%.2000s", d)
	}
}
