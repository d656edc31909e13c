package alert

import (
	"context"
	"strings"
	"time"

	"lockstep/cmd/lockstep/internal/term"
)

const (
	// defaultFailureAfter keeps a restart of a Source, or of a router, from waking people.
	defaultFailureAfter = time.Minute

	// aliveEvery is how often a service says that all is well: monitors count in minutes.
	aliveEvery = time.Minute

	lookEvery = time.Second
)

// A Service informs of how a service is doing. A nil Service informs of nothing.
type Service struct {
	watch *watch
	after time.Duration
}

// Service checks the flags of a service.
func (o *Flags) Service(r Run, io term.IO) (*Service, error) {
	if o.failureAfter < 0 {
		return nil, term.Usagef("--failure-after %s: want 0s or more", o.failureAfter)
	}
	if o.onFailure == "" && o.pingURL == "" {
		return nil, nil
	}
	w, err := o.open(r, io)
	return &Service{w, o.failureAfter}, err
}

// Run looks after a service until ctx ends. problem returns what is wrong with it at
// present, or "" if all is well.
func (s *Service) Run(ctx context.Context, problem func() string) error {
	if s == nil {
		return nil
	}
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	var failing, alive time.Time // since when it fails; when it was last reported that all is well
	reported := false            // the failure
	for {
		text := problem()
		switch {
		case text == "":
			if reported || time.Since(alive) >= aliveEvery {
				s.watch.inform(ctx, "all is well\n", false)
				alive = time.Now()
			}
			failing, reported = time.Time{}, false
		case failing.IsZero():
			failing = time.Now()
			fallthrough
		case !reported && time.Since(failing) >= s.after:
			if reported = time.Since(failing) >= s.after; reported {
				s.watch.inform(ctx, strings.TrimSuffix(text, "\n")+"\n", true)
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}
