package bitstream_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"lockstep/bitstream"
	"lockstep/blob"
	"lockstep/catalog"
	"lockstep/memento"
	"lockstep/resourcesync"
	"lockstep/vault"
)

// TestVersions: each version that a resource had is stored, in order, and the
// record names the current one.
func TestVersions(t *testing.T) {
	t.Parallel()
	for _, begun := range []bool{true, false} {
		p := newPast(t)
		if begun {
			p.mark()
		}
		p.apply(p.put("a", "one", time.Time{}), p.put("b", "b", time.Time{}))
		if !begun { // RS-CHL: a state before the first Mark is not part of the history
			p.mark()
		}
		p.now = p.now.Add(time.Hour)
		if a := p.apply(p.put("a", "one", p.now)); a.Unchanged != 1 {
			t.Errorf("applied %+v", a)
		}
		p.apply(p.put("a", "two", time.Time{}))
		p.now = p.now.Add(time.Hour)
		p.apply(p.gone("a"))
		p.apply(p.put("a", "one", time.Time{}), p.gone("c"), p.put("c", "c", time.Time{}))
		p.apply(p.put("a", "three", time.Time{}), p.gone("a"), p.put("a", "four", time.Time{}), p.gone("b"))
		// Content that could never be read is not invented: it was "four", twice.
		for name, want := range map[string]string{"a": "one two gone one four gone four", "b": "b gone", "c": "c"} {
			if got := p.story(name); got != want {
				t.Errorf("begun %v: %s was %q, want %q", begun, name, got, want)
			}
		}
		p.check()
	}
}

// TestVersionTimes: the time of a version is its last modification if possible,
// else that of its capture, and later versions have later times.
func TestVersionTimes(t *testing.T) {
	t.Parallel()
	p := newPast(t)
	p.mark()
	old := time.Date(2001, 3, 20, 20, 35, 0, 123_456_789, time.UTC)
	us := func(t time.Time) time.Time { return t.Truncate(time.Microsecond) }
	now := p.now
	for i, tt := range []struct {
		text    string
		lastmod time.Time
		now     time.Time
		want    time.Time
	}{
		{"modified long ago", old, now, us(old)},
		{"the same second, later", old.Add(time.Microsecond), now, us(old.Add(time.Microsecond))},
		{"the same time", old, now, now},
		{"modified before the last", old.Add(time.Hour), now.Add(time.Second), now.Add(time.Second)},
		{"in the future", now.AddDate(1, 0, 0), now.Add(time.Minute), now.Add(time.Minute)},
		{"unknown, and the clock went back", time.Time{}, now, now.Add(time.Minute + time.Microsecond)},
		{"known, between the last and now", now.Add(2 * time.Minute), now.Add(3 * time.Minute), now.Add(2 * time.Minute)},
	} {
		p.now = tt.now
		p.apply(p.put("a", tt.text, tt.lastmod))
		vs := p.versions("a")
		if len(vs) != i+1 || !vs[i].At.Equal(tt.want) || p.text(vs[i]) != tt.text {
			t.Fatalf("%s: versions %+v, want the last at %v", tt.text, vs, tt.want)
		}
	}
	p.check()
}

// TestAdopt: existing resources get a version, and no change is numbered.
func TestAdopt(t *testing.T) {
	t.Parallel()
	for _, hashes := range []resourcesync.Algorithm{resourcesync.SHA256, resourcesync.MD5, 0} {
		p := newPast(t)
		inner := p.inner
		must2 := func(us ...catalog.Update) {
			_, err := inner.Apply(t.Context(), set, us)
			must(t, err)
		}
		_, err := inner.Mark(t.Context(), set)
		must(t, err)
		plain := func(u catalog.Update) catalog.Update {
			h := resourcesync.NewHasher(hashes)
			_, _ = io.WriteString(h, p.files[u.URI])
			if u.Hashes = h.Sum(); hashes == 0 {
				u.Hashes = nil
			}
			return u
		}
		if hashes == 0 {
			plain = func(u catalog.Update) catalog.Update { u.Hashes = nil; return u }
		}
		day := p.now.AddDate(0, -1, 0)
		for i := range 600 {
			must2(plain(p.put(fmt.Sprint("old", i), fmt.Sprint("text ", i), day)))
		}
		must2(plain(p.put("changed", "before", day)), plain(p.put("lost", "before", day)))
		p.files[base+"changed"] = "after"
		delete(p.files, base+"lost")
		last, err := inner.Status(t.Context(), set)
		must(t, err)
		for range 2 {
			a, err := p.keeper.Adopt(t.Context(), set, nil)
			must(t, err)
			if a.Resources != 602 || a.Missing != 1 || !p.keeper.Missing(set) {
				t.Errorf("adopted %+v, want 1 of 602 missing", a)
			}
		}
		st, err := inner.Status(t.Context(), set)
		must(t, err)
		if st.Last != last.Last+1 { // of the one that had changed
			t.Errorf("hashes %v: %d changes numbered, want 1", hashes, st.Last-last.Last)
		}
		for i := range 600 {
			if got, want := p.story(fmt.Sprint("old", i)), fmt.Sprint("text ", i); got != want {
				t.Errorf("%q was kept, want %q", got, want)
			}
		}
		vs := p.versions("old7")
		if !vs[0].At.Equal(day) || !p.record("old7").Lastmod.Equal(day) || vs[0].Seq != int64(p.record("old7").Seq) {
			t.Errorf("version %+v of %+v", vs[0], p.record("old7"))
		}
		if got := p.story("changed"); got != "after" {
			t.Errorf("of what had changed there is %q", got)
		}
		p.apply(plain(p.put("old7", "new", time.Time{})), p.put("lost", "found", time.Time{}))
		if p.story("old7") != "text 7 new" || p.story("lost") != "found" {
			t.Errorf("later %q, %q", p.story("old7"), p.story("lost"))
		}
		p.mark()
	}
}

// TestAdoptAgain: versions that are stored again have the same addresses, and
// changes in between are not hidden.
func TestAdoptAgain(t *testing.T) {
	t.Parallel()
	p := newPast(t)
	p.mark()
	p.apply(p.put("a", "a1", time.Time{}), p.put("b", "b1", time.Time{}), p.put("c", "c1", time.Time{}))
	was := p.record("a").Links
	p.opts.Versions.Ending = true
	p.restart()
	if a, err := p.keeper.Withdraw(t.Context(), set, nil); err != nil || a.Changed != 3 || a.Missing != 0 {
		t.Fatal(a, err)
	}
	if l := p.record("a").Links; len(l) > 0 {
		t.Errorf("links %+v left", l)
	}
	p.now = p.now.Add(time.Hour)
	p.apply(p.put("b", "b2", time.Time{}), p.gone("c"))
	p.apply(p.put("b", "b3", time.Time{}), p.put("c", "c2", time.Time{}))
	p.mark()
	for name, want := range map[string]string{"a": "a1", "b": "b1 unkept", "c": "c1 gone unkept"} {
		if got := p.story(name); got != want {
			t.Errorf("while none are kept: %s is %q, want %q", name, got, want)
		}
	}
	p.opts.Versions.Ending = false
	p.restart()
	if a, err := p.keeper.Adopt(t.Context(), set, nil); err != nil || a.Changed != 3 {
		t.Fatal(a, err)
	}
	for name, want := range map[string]string{"a": "a1", "b": "b1 unkept b3", "c": "c1 gone unkept c2"} {
		if got := p.story(name); got != want {
			t.Errorf("kept again: %s is %q, want %q", name, got, want)
		}
	}
	if l := p.record("a").Links; len(l) != 1 || l[0].Href != was[0].Href { // ME-MM-02
		t.Errorf("the version of old has the link %+v, had %+v", l, was)
	}
	p.check()
}

// TestUnkept: a change whose bytes are unavailable creates no version, but records
// that the previous version is no longer current.
func TestUnkept(t *testing.T) {
	t.Parallel()
	p := newPast(t)
	p.mark()
	p.apply(p.put("a", "one", time.Time{}), p.put("b", "b", time.Time{}))
	two := p.put("a", "two", time.Time{})
	delete(p.files, base+"a")
	if a := p.apply(two); a.Updated != 1 {
		t.Errorf("applied %+v, want the update all the same", a)
	}
	if l := p.record("a").Links; len(l) > 0 || !p.keeper.Missing(set) || p.story("a") != "one unkept" {
		t.Errorf("links %+v, missing %v, %q", l, p.keeper.Missing(set), p.story("a"))
	}
	p.files[base+"a"] = "two"
	if a, err := p.keeper.Adopt(t.Context(), set, nil); err != nil || a.Missing != 0 || a.Changed != 1 {
		t.Error(a, err)
	}
	if p.keeper.Missing(set) || p.story("a") != "one unkept two" {
		t.Errorf("missing %v, %q", p.keeper.Missing(set), p.story("a"))
	}
	p.check()
}

// TestVaultFails: if bytes cannot be stored in the vault, or there is no index, no
// change is applied.
func TestVaultFails(t *testing.T) {
	t.Parallel()
	m := &mortal{Store: new(blob.Mem), Catalog: catalog.NewMem(nil)}
	m.steps.Store(-1)
	p := newPast(t, func(p *past) { p.blobs = m })
	p.mark()
	m.steps.Store(0)
	if _, err := p.cat.Apply(t.Context(), set, []catalog.Update{p.put("a", "text", time.Time{})}); !errors.Is(err, errKilled) || !strings.Contains(err.Error(), "keep prior version") {
		t.Error(err)
	}
	if st, err := p.inner.Status(t.Context(), set); err != nil || st.Last != 0 {
		t.Error(st, err)
	}
	m.steps.Store(-1)
	p.apply(p.put("a", "text", time.Time{}))
	p.check()

	// With Rescans, only changes that the vault does not accept wait.
	p.opts.Rescans = true
	p.restart()
	for range 3 {
		b, again := p.put("b", "new", time.Time{}), p.put("c", "text", time.Time{})
		m.steps.Store(0)
		if a := p.apply(b, again); a.Created > 1 || p.record("b") != nil {
			t.Errorf("applied %+v", a)
		}
		m.steps.Store(-1)
		for i, want := range []bool{true, true, false} { // the first scan fails
			called, err := p.keeper.OfferAgain(set, func() error {
				if i == 0 {
					return errKilled
				}
				return nil
			})
			if called != want || errors.Is(err, errKilled) != (i == 0) {
				t.Errorf("call %d scans: %v, %v, want %v", i, called, err, want)
			}
		}
	}
	p.apply(p.put("b", "new", time.Time{}))
	if p.story("b") != "new" || p.story("c") != "text" {
		t.Errorf("b %q, c %q", p.story("b"), p.story("c"))
	}
	p.check()
}

// A forgetful is an index that fails temporarily.
type forgetful struct {
	memento.Store
	fail bool
}

func (f *forgetful) Append(ctx context.Context, set string, cursor int64, vs []memento.Version) error {
	if f.fail {
		return errKilled
	}
	return f.Store.Append(ctx, set, cursor, vs)
}

// TestIndexBehind: after any failure, the index is updated before the next
// read.
func TestIndexBehind(t *testing.T) {
	t.Parallel()
	f := &forgetful{Store: memento.NewMem()}
	p := newPast(t, func(p *past) { p.index = f })
	p.mark()
	p.apply(p.put("a", "a1", time.Time{}), p.put("b", "b1", time.Time{}), p.put("c", "c1", time.Time{}), p.put("d", "d1", time.Time{}))
	f.fail = true
	p.apply(p.put("a", "a2", time.Time{}), p.gone("b"), p.gone("d"))
	if got := p.story("a"); got != "a1" {
		t.Errorf("a is %q", got)
	}
	if _, err := p.cat.Status(t.Context(), set); !errors.Is(err, errKilled) {
		t.Errorf("Status = %v, want the index's error", err)
	}
	if _, err := p.cat.Mark(t.Context(), set); !errors.Is(err, errKilled) {
		t.Errorf("Mark = %v, want the index's error", err)
	}
	for _, err := range p.cat.Changes(t.Context(), set, 0) {
		if !errors.Is(err, errKilled) {
			t.Errorf("Changes yield %v, want the index's error", err)
		}
	}
	f.fail = false
	_, err := p.cat.Status(t.Context(), set)
	must(t, err)
	want := func(when string, wants map[string]string) {
		t.Helper()
		for name, want := range wants {
			if got := p.story(name); got != want {
				t.Errorf("%s: %s is %q, want %q", when, name, got, want)
			}
		}
		p.check()
	}
	want("told again", map[string]string{"a": "a1 a2", "b": "b1 gone", "c": "c1", "d": "d1 gone"})

	// If the changes are no longer stored, from the current resources.
	f.fail = true
	p.apply(p.put("a", "a3", time.Time{}), p.put("b", "b2", time.Time{}))
	p.apply(p.put("a", "a4", time.Time{}), p.gone("c"), p.put("e", "e1", time.Time{}))
	m, err := p.inner.Mark(t.Context(), set)
	must(t, err)
	must(t, p.inner.Forget(t.Context(), set, m))
	f.fail = false
	p.restart()
	p.mark()
	want("found out", map[string]string{"a": "a1 a2 a4", "b": "b1 gone b2", "c": "c1 gone", "d": "d1 gone", "e": "e1"})
}

// TestRetainAndSweep: dropped versions are removed, but no published ones, nor
// those that are being stored.
func TestRetainAndSweep(t *testing.T) {
	t.Parallel()
	p := newPast(t)
	p.mark()
	for i := range 5 {
		p.now = p.now.Add(time.Minute)
		p.apply(p.put("a", fmt.Sprint(i), time.Time{}), p.put("b", fmt.Sprint("b", i), time.Time{}))
	}
	p.apply(p.gone("b"))
	// ME-RET-01: changes above 6 are published, and the state at 4.
	r, err := p.keeper.Retain(t.Context(), set, memento.Policy{Count: 1, FloorSeq: 6, SnapshotSeqs: []int64{4}})
	must(t, err)
	if p.story("a") != "1 3 4" || p.story("b") != "b1 b3 b4 gone" || r.Dropped != 4 || r.Kept != 6 {
		t.Errorf("a %q, b %q, %+v", p.story("a"), p.story("b"), r)
	}
	s, err := p.keeper.SweepVersions(t.Context())
	must(t, err)
	if s.Removed != 4 || s.Kept != 6 {
		t.Errorf("swept %+v", s)
	}
	p.story("a")
	p.story("b")
	if n, err := p.keeper.DropVersions(t.Context(), set); err != nil || n != 7 {
		t.Error(n, err)
	}
	if _, err := p.keeper.SweepVersions(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestSweepBeforeMark: versions that records name before there is an index are
// kept.
func TestSweepBeforeMark(t *testing.T) {
	t.Parallel()
	p := newPast(t)
	p.apply(p.put("a", "one", time.Time{}))
	_, err := p.keeper.SweepVersions(t.Context())
	must(t, err)
	p.mark()
	if p.story("a") != "one" {
		t.Errorf("a is %q", p.story("a"))
	}
}

// A swept catalog sweeps the vault before it applies anything.
type swept struct {
	catalog.Catalog
	sweep func()
}

func (s *swept) Apply(ctx context.Context, set string, us []catalog.Update) (catalog.Applied, error) {
	s.sweep()
	return s.Catalog.Apply(ctx, set, us)
}

// TestSweepBetween: durable bytes that nothing names yet are kept.
func TestSweepBetween(t *testing.T) {
	t.Parallel()
	s := &swept{Catalog: catalog.NewMem(nil)}
	p := newPast(t, func(p *past) { p.inner = s })
	s.sweep = func() {
		_, err := p.vault.Sweep(t.Context(), func(context.Context) iter.Seq2[vault.Digest, error] {
			return func(func(vault.Digest, error) bool) {} // the index as of a moment ago
		})
		must(t, err)
	}
	p.mark()
	p.apply(p.put("a", "one", time.Time{}), p.put("b", "b", time.Time{}))
	s.sweep = func() {}
	p.apply(p.put("a", "two", time.Time{}))
	if p.story("a") != "one two" || p.story("b") != "b" {
		t.Errorf("a %q, b %q", p.story("a"), p.story("b"))
	}
	p.check()
}

// TestChangesFromVault: the bytes of changes are those of versions, and stored
// once.
func TestChangesFromVault(t *testing.T) {
	t.Parallel()
	w := newWorld(t, t.TempDir(), nil, nil, bitstream.SetOptions{})
	v := vault.New(new(blob.Mem), vault.Options{})
	w.keeper = bitstream.New(w.store, bitstream.Options{Vault: v, Index: memento.NewMem()})
	o := bitstream.SetOptions{Past: true, Patches: &bitstream.PatchOptions{MaxBytes: 100, Put: w.puts.put}, Rescans: true, Versions: &bitstream.VersionOptions{Base: versionBase},
		Open: func(_ context.Context, r *catalog.Record) (io.ReadCloser, error) {
			return os.Open(filepath.Join(w.root, strings.TrimPrefix(r.URI, base)))
		}}
	w.cat = w.keeper.Catalog(w.inner, set, o)
	w.mark(t)
	large := strings.Repeat("large ", 100_000)
	for i := range 3 {
		for name, text := range map[string]string{"small": fmt.Sprint(i), "large": large + fmt.Sprint(i)} {
			write(t, w.root, name, text)
			u := catalog.Update{Record: catalog.Record{URI: base + name, Length: -1, Lastmod: time.Unix(int64(i+1), 0)}}
			_, err := w.cat.Apply(t.Context(), set, []catalog.Update{u})
			must(t, err)
		}
	}
	cs := w.changes(t)
	if len(cs) != 6 {
		t.Fatalf("%d changes, want 6", len(cs))
	}
	for _, c := range cs {
		if text, kept := w.past(t, &c); !kept || !strings.HasSuffix(text, fmt.Sprint(c.Lastmod.Unix()-1)) {
			t.Errorf("change %d is not kept", c.Seq)
		}
	}
	if n := w.blobs(t); n != 3 { // small ones, for patches
		t.Errorf("%d beside the vault, want 3", n)
	}
}

// TestIndexBehindADeletion: a resource comes back, with a modification time before its deletion,
// which the index does not have yet.
func TestIndexBehindADeletion(t *testing.T) {
	t.Parallel()
	f := &forgetful{Store: memento.NewMem()}
	p := newPast(t, func(p *past) { p.index = f })
	p.mark()
	lastmod := time.Now().Add(-time.Hour)
	p.now = time.Now()
	p.apply(p.put("a", "one", lastmod.Add(-time.Hour)))
	f.fail = true
	p.apply(p.gone("a"))
	f.fail = false
	p.apply(p.put("a", "two", lastmod)) // modified before the deletion
	if _, err := p.cat.Status(t.Context(), set); err != nil {
		t.Fatal(err)
	}
	if _, err := p.keeper.SweepVersions(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got, want := p.story("a"), "one gone two"; got != want {
		t.Errorf("a was %q, want %q", got, want)
	}
	p.check()
}
