package recent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"time"

	"lockstep/internal/private"
)

// FileName is the name of the file in a state directory.
const FileName = "recent.json"

// maxFile is how large a file is that is read: what is saved is smaller.
const maxFile = 1 << 20

const (
	observeEvery = 10 * time.Second // reading counters of a hub with 100,000 subscriptions takes some milliseconds
	saveEvery    = time.Minute      // what a killed process did since is forgotten
)

// Load reads what was remembered before the process was started. What cannot be used is
// logged, and forgotten.
func (h *History) Load(ctx context.Context, log *slog.Logger) {
	if err := h.load(); err != nil && !errors.Is(err, fs.ErrNotExist) {
		log.WarnContext(ctx, "what was recorded of throughput and errors is lost", slog.Any("err", err))
	}
}

// load reads it, unless that has been done, and returns why it cannot be used.
func (h *History) load() error {
	h.loading.Do(func() { h.unusable = h.read() })
	return h.unusable
}

func (h *History) read() error {
	info, err := os.Stat(h.path)
	switch {
	case err != nil:
		return err
	case info.Size() > maxFile:
		return fmt.Errorf("%s is larger than anything that was saved there", h.path)
	}
	data, err := os.ReadFile(h.path)
	if err != nil {
		return err
	}
	if err := h.decode(data); err != nil {
		return fmt.Errorf("read %s: %w", h.path, err)
	}
	return nil
}

// Run observes until ctx ends, and saves what it has seen.
func (h *History) Run(ctx context.Context, log *slog.Logger) error {
	h.Load(ctx, log)
	tick := time.NewTicker(observeEvery)
	defer tick.Stop()
	saved, failed := time.Now(), false
	for {
		select {
		case <-ctx.Done():
			h.count(time.Now()) // errors are those of stopping
			if err := h.save(); err != nil {
				log.WarnContext(ctx, "throughput and errors are not recorded", slog.Any("err", err))
			}
			return nil
		case <-tick.C:
		}
		now := time.Now()
		h.Observe(now)
		if now.Sub(saved) < saveEvery {
			continue
		}
		err := h.save()
		if err != nil && !failed {
			log.WarnContext(ctx, "throughput and errors are not recorded", slog.Any("err", err))
		}
		saved, failed = now, err != nil
	}
}

// save saves the memory if it has changed.
func (h *History) save() error {
	data, err := h.encode()
	if data == nil || err != nil {
		return err
	}
	if err := private.Replace(h.path, data); err != nil {
		h.mu.Lock()
		h.changed = true
		h.mu.Unlock()
		return err
	}
	return nil
}

// version is that of the form in which the memory is saved.
const version = 1

// saved is the memory in the state.
type saved struct {
	Version int                   `json:"version"`
	Counted map[string]savedTrack `json:"counted"` // by the name of the counter
	Errors  []Problem             `json:"errors,omitempty"`
}

type savedTrack struct {
	Hour []savedPoint `json:"hour,omitempty"` // those in which something was done
	Day  []savedPoint `json:"day,omitempty"`
}

// A savedPoint is a point: the time in seconds since 1970, count, failed, bytes, and pairs of
// a class of latencies and how many durations it has.
type savedPoint []int64

// encode returns the memory to be saved; nil if it has not changed since.
func (h *History) encode() ([]byte, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.changed || h.path == "" {
		return nil, nil
	}
	s := saved{Version: version, Counted: map[string]savedTrack{}, Errors: h.errors.problems}
	for i := range h.counters {
		s.Counted[h.counters[i].Name] = savedTrack{h.hours[i].save(), h.days[i].save()}
	}
	h.changed = false
	return json.Marshal(s)
}

// decode adds what was saved to what is known.
func (h *History) decode(data []byte) error {
	var s saved
	if err := json.Unmarshal(data, &s); err != nil {
		return err
	}
	if s.Version != version {
		return fmt.Errorf("it has version %d, and this program knows version %d", s.Version, version)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := range h.counters {
		t := s.Counted[h.counters[i].Name]
		h.hours[i].restore(t.Hour)
		h.days[i].restore(t.Day)
	}
	h.errors.problems = s.Errors[:min(len(s.Errors), mostErrors)]
	return nil
}

func (k *track) save() (all []savedPoint) {
	for i := range k.points {
		p := &k.points[i]
		if p.At.IsZero() {
			continue
		}
		s := savedPoint{p.At.Unix(), p.Count, p.Failed, p.Bytes}
		for class, n := range p.Latency {
			if n != 0 {
				s = append(s, int64(class), n)
			}
		}
		all = append(all, s)
	}
	return all
}

// restore puts saved points in their places. Damaged ones are left out.
func (k *track) restore(all []savedPoint) {
	for _, s := range all {
		if len(s) < 4 || len(s)%2 != 0 || s[0] < 0 {
			continue
		}
		d := Total{Count: s[1], Failed: s[2], Bytes: s[3]}
		for i := 4; i < len(s); i += 2 {
			if s[i] >= 0 && s[i] < latencies {
				d.Latency[s[i]] += s[i+1]
			}
		}
		at := time.Unix(s[0], 0)
		if p, began := k.at(at); !p.At.After(began) { // of two of one place, the newer one is in the span
			k.add(at, &d)
		}
	}
}
