package source_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"
	"time"

	"lockstep/blob"
	"lockstep/source"
)

// A dumpWatch crawls dumps after each step that others can see.
type dumpWatch struct {
	*dumpWorld
	store blob.Store
	seen  map[string]string // what must not change
}

var immutableDump = regexp.MustCompile(`/(resourcedump|changedump)-[0-9]`)

// look holds that what is published is whole, comes to a state there was, and
// has not changed where it must not. Names seen once keep their bytes.
func (w *dumpWatch) look() error {
	read := reader(w.store)
	c, err := crawlDumps(read)
	if errors.Is(err, blob.ErrNotExist) && strings.Contains(err.Error(), "capabilitylist.xml") {
		return nil // nothing is published yet
	}
	if err != nil {
		return err
	}
	if !c.at.IsZero() {
		if err := w.truth(c); err != nil {
			return err
		}
	}
	for _, name := range append(c.names, c.packages...) {
		if !immutableDump.MatchString(name) {
			continue
		}
		data, err := read(name)
		if err != nil {
			return err
		}
		if old, known := w.seen[name]; known && old != string(data) {
			return fmt.Errorf("%s has changed", name)
		}
		w.seen[name] = string(data)
	}
	return nil
}

// truth holds that a crawl comes to what the set held once.
func (d *dumpWorld) truth(c *dumpCrawl) error {
	when := c.until
	if c.at.After(when) {
		when = c.at
	}
	got := make(map[string]string)
	for uri, content := range c.apply() {
		r := record(uri, content)
		got[uri] = digest(r.Length, r.Hashes)
	}
	if want := stateAt(d.world.past, when); !maps.Equal(got, want) {
		return fmt.Errorf("dump at %s and changes to %s come to %d resources, want %d", c.at, c.until, len(got), len(want))
	}
	if !c.from.IsZero() && c.from.After(c.at) {
		return fmt.Errorf("change dump from %s does not cover the resource dump's at %s", c.from, c.at)
	}
	return nil
}

// TestDumpCrashAnywhere plays one history again and again, with a fault at the
// first, the second, … step of writing, as TestCrashAnywhere does.
func TestDumpCrashAnywhere(t *testing.T) {
	t.Parallel()
	for _, crash := range []bool{false, true} { // a full disk, a dead process
		t.Run(fmt.Sprintf("crash=%v", crash), func(t *testing.T) {
			t.Parallel()
			stride := 20 // the more often, the longer: each play is a history of its own
			if crash {
				stride = 9 // what a crash leaves behind is the harder case
			}
			stride = apart(stride)
			for failAt := 1; ; failAt += stride {
				if reached := playDumpFault(t, failAt, crash); !reached {
					if failAt < 200 {
						t.Errorf("only %d steps", failAt)
					}
					return
				}
				if t.Failed() {
					t.Fatalf("with a fault at step %d", failAt)
				}
			}
		})
	}
}

func playDumpFault(t *testing.T, failAt int, crash bool) (reached bool) {
	t.Helper()
	d := newDumpWorld(t, source.Options{MaxEntries: 3, Keep: 10 * time.Hour, Grace: 2 * time.Hour, Workers: 1}, source.Set{
		ResourceDump: &source.ResourceDump{Every: 3 * time.Hour, PackageEntries: 2},
		ChangeDump:   &source.ChangeDump{Every: time.Hour, PackageEntries: 2},
	})
	store := faulty(d.docs, failAt, crash)
	watch := &dumpWatch{dumpWorld: d, store: d.docs, seen: make(map[string]string)}
	store.Faults.After = func() {
		if store.Faults.Steps() < failAt-1 {
			return // earlier runs were here
		}
		if err := watch.look(); err != nil {
			t.Errorf("step %d: %v", store.Faults.Steps(), err)
		}
	}
	faulty := *d.world
	faulty.docs = store
	s := faulty.source()
	further := 2 // publications after the one that failed
	publish := func() {
		_, err := s.Publish(context.Background())
		if err == nil {
			_, err = s.PublishDumps(context.Background())
		}
		if err != nil {
			if !errors.Is(err, errFault) {
				t.Errorf("publish = %v", err)
			}
			store.Faults.After()
			store.Faults.Restart()
			if crash {
				s = faulty.source()
			}
			d.pass(time.Minute)
			if failAt%2 == 1 {
				d.put(fmt.Sprintf("meanwhile=%d", failAt))
			}
			d.publish(s)
			d.dump(s)
		}
		if store.Faults.Steps() >= failAt {
			if err := watch.look(); err != nil {
				t.Error(err)
			}
			further--
		}
	}
	script := []string{"a=1 b=2 c=3", "d=4 e=5 b=3", "a=2 c", "f=1 g=1 h=1", "", "a=3 b e", "i=1", ""}
	for i := 0; i < len(script) && further > 0; i++ {
		if words := script[i]; words != "" {
			d.put(strings.Fields(words)...)
		}
		publish()
		d.pass(61 * time.Minute)
		if i == 3 || i == 5 {
			d.pass(5 * time.Hour)
		}
	}
	if reached = store.Faults.Steps() >= failAt; reached && !t.Failed() {
		d.pass(4 * time.Hour)
		d.publish(s)
		d.dump(s)
		d.holds(d.dumps())
		d.pass(3 * time.Hour)
		d.dump(s)
		for name := range d.files() { // no litter
			if !strings.HasSuffix(name, ".zip") {
				continue
			}
			if _, named := watch.seen[name]; !named {
				if err := watch.look(); err != nil {
					t.Error(err)
				}
				if _, named := watch.seen[name]; !named {
					t.Errorf("%s is left", name)
				}
			}
		}
	}
	return reached
}

// TestDumpRandomLives has sets change at random, behind the catalog's back as
// well, while publications fail or die at random steps; in the end lists and
// dumps tell the same (RS-CL-03).
func TestDumpRandomLives(t *testing.T) {
	t.Parallel()
	for seed := range uint64(8) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			randomLife(t, rand.New(rand.NewPCG(seed, 7)))
		})
	}
}

func randomLife(t *testing.T, random *rand.Rand) {
	t.Helper()
	d := newDumpWorld(t, source.Options{MaxEntries: 3 + random.IntN(5), Workers: 3, Keep: 20 * time.Hour, Grace: 3 * time.Hour}, source.Set{
		ResourceDump: &source.ResourceDump{Every: 5 * time.Hour, PackageEntries: 1 + random.IntN(6), PackageBytes: 20},
		ChangeDump:   &source.ChangeDump{Every: time.Hour, PackageEntries: 1 + random.IntN(6), PackageBytes: 20},
	})
	store := faulty(d.docs, 0, false)
	watch := &dumpWatch{dumpWorld: d, store: d.docs, seen: make(map[string]string)}
	faulty := *d.world
	faulty.docs = store
	s := faulty.source()
	for range 40 {
		for range random.IntN(6) {
			name := fmt.Sprintf("r%d", random.IntN(25))
			if _, there := d.live[d.opts.BaseURL+name]; there && random.IntN(3) == 0 {
				d.put(name)
			} else {
				d.put(fmt.Sprintf("%s=%d", name, random.IntN(1_000_000)))
			}
		}
		d.pass(time.Duration(random.IntN(200)) * time.Minute)
		store.Faults.Arm(1+random.IntN(150), faultMode(random.IntN(2), random.IntN(2) == 0))
		_, err := s.Publish(context.Background())
		if err == nil || random.IntN(2) == 0 {
			_, err1 := s.PublishDumps(context.Background())
			err = errors.Join(err, err1)
		}
		if err != nil {
			if !errors.Is(err, errFault) {
				t.Fatal(err)
			}
			store.Faults.Restart()
			if random.IntN(2) == 0 {
				s = faulty.source()
			}
		}
		if err := watch.look(); err != nil {
			t.Fatal(err)
		}
	}
	store.Faults.Restart()
	d.pass(6 * time.Hour)
	d.publish(s)
	d.dump(s)
	d.upToDate()
	d.holds(d.dumps())
}
