package recent_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"lockstep/cmd/lockstep/internal/recent"
)

// A work is what a process does in a test.
type work struct {
	mu       sync.Mutex // guards what follows
	total    recent.Total
	problems []recent.Problem
}

func (w *work) do(n int64, took time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.total.Count += n
	w.total.Bytes += 10 * n
	w.total.Latency.Add(took, n)
}

func (w *work) fail(all ...recent.Problem) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.problems = all
}

func (w *work) history(dir string) *recent.History {
	return recent.New(dir, func() []recent.Problem {
		w.mu.Lock()
		defer w.mu.Unlock()
		return w.problems
	}, recent.Counter{Name: "work", Total: func() recent.Total {
		w.mu.Lock()
		defer w.mu.Unlock()
		return w.total
	}})
}

// counts returns the counts of the steps in which there was something, by how many steps ago
// they began.
func counts(points []recent.Point) string {
	var all []string
	for i, p := range slices.Backward(points) {
		if p.Count != 0 {
			all = append(all, fmt.Sprintf("%d:%d", len(points)-1-i, p.Count))
		}
	}
	return strings.Join(all, " ")
}

// TestSpans: what was done is in its minute for an hour, and in its quarter of an hour for a day.
func TestSpans(t *testing.T) {
	t.Parallel()
	w := &work{}
	h := w.history("")
	start := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	for _, step := range []struct {
		after     time.Duration
		do        int64
		hour, day string
	}{
		{0, 5, "0:5", "0:5"},
		{59 * time.Second, 1, "0:6", "0:6"},
		{time.Minute, 2, "0:2 1:6", "0:8"},
		{16 * time.Minute, 3, "0:3 15:2 16:6", "0:3 1:8"},
		{59 * time.Minute, 0, "43:3 58:2 59:6", "2:3 3:8"},
		{60 * time.Minute, 0, "44:3 59:2", "3:3 4:8"},
		{2 * time.Hour, 0, "", "7:3 8:8"},
		{24*time.Hour + 14*time.Minute, 7, "0:7", "0:7 95:3"}, // in the places of the first
		{24*time.Hour + 30*time.Minute, 0, "16:7", "2:7"},
		{400 * 24 * time.Hour, 0, "", ""},
	} {
		now := start.Add(step.after)
		w.do(step.do, time.Second)
		h.Observe(now)
		hour, day := h.Points("work", recent.Hour(), now), h.Points("work", recent.Day(), now)
		if got := counts(hour); got != step.hour || len(hour) != 60 {
			t.Errorf("after %s: minutes %q of %d, want %q", step.after, got, len(hour), step.hour)
		}
		if got := counts(day); got != step.day || len(day) != 96 {
			t.Errorf("after %s: quarters %q of %d, want %q", step.after, got, len(day), step.day)
		}
		if last := hour[59].At; last.After(now) || now.Sub(last) >= time.Minute {
			t.Errorf("after %s: the last minute began at %s", step.after, last)
		}
	}
	if got := h.Points("play", recent.Hour(), start); got != nil {
		t.Errorf("of what is not counted: %v", got)
	}
}

func TestLatency(t *testing.T) {
	t.Parallel()
	var l recent.Latency
	if q := l.Quantile(0.5); q != 0 {
		t.Errorf("without durations: %s", q)
	}
	l.Add(10*time.Millisecond, 90)
	l.Add(3*time.Second, 10)
	for q, want := range map[float64][2]time.Duration{
		0.5:  {8 * time.Millisecond, 16 * time.Millisecond},
		0.95: {2 * time.Second, 4100 * time.Millisecond},
		1:    {2 * time.Second, 4100 * time.Millisecond},
	} {
		if got := l.Quantile(q); got < want[0] || got > want[1] {
			t.Errorf("quantile %g: %s, want %s to %s", q, got, want[0], want[1])
		}
	}
	l.Add(-time.Second, 1)
	l.Add(1e6*time.Hour, 1)
	if n := l.Count(); n != 102 {
		t.Errorf("counted %d, want 102", n)
	}
}

// TestRestart: a process knows what the one before it did, up to a minute before that was killed.
func TestRestart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		run := func(w *work) (h *recent.History, stop func()) {
			ctx, cancel := context.WithCancel(t.Context())
			h = w.history(dir)
			done := make(chan struct{})
			go func() {
				defer close(done)
				_ = h.Run(ctx, slog.New(slog.DiscardHandler)) // it has no errors
			}()
			synctest.Wait()
			return h, func() { cancel(); <-done }
		}
		first := &work{}
		_, stop := run(first)
		first.do(3, time.Millisecond)
		first.fail(recent.Problem{What: "set a", Error: "no such directory", Hint: "mount it"})
		time.Sleep(2 * time.Minute)
		copied, err := os.ReadFile(filepath.Join(dir, recent.FileName)) // as a killed process leaves it
		if err != nil {
			t.Fatal(err)
		}
		first.do(4, 2*time.Second)
		stop()

		second := &work{}
		h, stop := run(second)
		now := time.Now()
		points := h.Points("work", recent.Day(), now)
		sum := recent.Total{}
		for i := range points {
			sum.Count, sum.Bytes = sum.Count+points[i].Count, sum.Bytes+points[i].Bytes
			for c, n := range points[i].Latency {
				sum.Latency[c] += n
			}
		}
		if sum != first.total {
			t.Errorf("after a restart: %+v, want %+v", sum, first.total)
		}
		if e := h.Errors(); len(e) != 1 || e[0].Hint != "mount it" || !e[0].Until.IsZero() {
			t.Errorf("errors %+v", e)
		}
		second.do(1, time.Millisecond)
		time.Sleep(11 * time.Second)
		if e := h.Errors(); len(e) != 1 || e[0].Until.IsZero() {
			t.Errorf("errors %+v, want one that is gone", e)
		}
		stop()

		if err := os.WriteFile(filepath.Join(dir, recent.FileName), copied, 0o600); err != nil {
			t.Fatal(err)
		}
		h, stop = run(&work{})
		if got := h.Points("work", recent.Hour(), time.Now()); !strings.Contains(counts(got), ":3") {
			t.Errorf("after a kill: %q, want the first 3", counts(got))
		}
		stop()
	})
}

// TestIdle: nothing is written while nothing happens, and once a minute while something does.
func TestIdle(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		path := filepath.Join(dir, recent.FileName)
		w := &work{}
		h := w.history(dir)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			_ = h.Run(ctx, slog.New(slog.DiscardHandler)) // it has no errors
		}()
		time.Sleep(time.Hour)
		if _, err := os.Stat(path); err == nil {
			t.Error("an idle process has written")
		}
		w.do(1, time.Second)
		time.Sleep(2 * time.Minute)
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		if _, err := os.Stat(path); err == nil {
			t.Error("it has written again, although nothing was done")
		}
		w.do(1, time.Second)
		cancel()
		<-done
		if info, err := os.Stat(path); err != nil || info.Mode().Perm()&0o077 != 0 {
			t.Errorf("after the end: %v, %v", info, err)
		}
	})
}

// TestDamaged: what cannot be read is reported and forgotten, and is replaced.
func TestDamaged(t *testing.T) {
	t.Parallel()
	now := time.Now()
	for name, content := range map[string]string{
		"empty": "", "no JSON": "x", "a later version": `{"version":2}`,
		"too large": strings.Repeat(" ", 2<<20), "null": "null", "wrong types": `{"version":1,"counted":[]}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			path := filepath.Join(dir, recent.FileName)
			if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
			w, log := &work{}, strings.Builder{}
			h := w.history(dir)
			h.Load(t.Context(), slog.New(slog.NewTextHandler(&log, nil)))
			if !strings.Contains(log.String(), path) {
				t.Errorf("logged %q", log.String())
			}
			w.do(1, time.Second)
			h.Observe(now)
			if got := counts(h.Points("work", recent.Hour(), now)); got != "0:1" {
				t.Errorf("points %q", got)
			}
		})
	}
	dir := t.TempDir()
	const odd = `{"version":1,"counted":{"work":{"hour":[[1],[],null,[-60,1,1,1],[60,1,1,1,99,5],[60,1,0,0,-1,3],[9223372036854775807,1,0,0]]}}}`
	if err := os.WriteFile(filepath.Join(dir, recent.FileName), []byte(odd), 0o600); err != nil {
		t.Fatal(err)
	}
	h := (&work{}).history(dir)
	h.Load(t.Context(), slog.New(slog.DiscardHandler)) // without a panic
}

// TestErrors: errors are there once, and are forgotten when they have been gone for a week, or
// are too many.
func TestErrors(t *testing.T) {
	t.Parallel()
	w := &work{}
	h := w.history("")
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	see := func(after time.Duration, texts ...string) []recent.Problem {
		now = now.Add(after)
		w.problems = nil
		for _, text := range texts {
			w.problems = append(w.problems, recent.Problem{What: "set", Error: text})
		}
		h.Observe(now)
		return h.Errors()
	}
	see(0, "a", "b")
	if all := see(time.Minute, "b"); len(all) != 2 || all[0].Error != "b" || !all[0].Until.IsZero() || all[1].Error != "a" || !all[1].Until.Equal(now) {
		t.Errorf("%+v", all)
	}
	if all := see(time.Minute, "a", "b"); len(all) != 2 || all[0].Times+all[1].Times != 1 || !all[1].Until.IsZero() {
		t.Errorf("an error that is there again: %+v", all)
	}
	see(time.Minute)
	if all := see(8 * 24 * time.Hour); len(all) != 0 {
		t.Errorf("after a week: %+v", all)
	}
	var many []string
	for i := range 200 {
		many = append(many, fmt.Sprint(i)+strings.Repeat("é", 5000))
	}
	if all := see(time.Minute, many...); len(all) != 50 || len(all[0].Error) > 1010 {
		t.Errorf("%d errors, the first of %d bytes", len(all), len(all[0].Error))
	}
}

// TestLookedAtFirst: what was remembered is there before Run begins.
func TestLookedAtFirst(t *testing.T) {
	t.Parallel()
	dir, done := t.TempDir(), int64(3)
	counted := recent.Counter{Name: "requests", Total: func() recent.Total { return recent.Total{Count: done} }}
	now := time.Now()
	last := recent.New(dir, nil, counted)
	ended, stop := context.WithCancel(t.Context())
	stop()
	if err := last.Run(ended, slog.New(slog.DiscardHandler)); err != nil { // it counts, and saves
		t.Fatal(err)
	}
	done = 0
	sum := int64(0)
	for _, p := range recent.New(dir, nil, counted).Points("requests", recent.Hour(), now.Add(time.Second)) {
		sum += p.Count
	}
	if sum != 3 {
		t.Errorf("%d requests are remembered, want 3", sum)
	}
}
