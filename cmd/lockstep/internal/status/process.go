package status

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"lockstep/cmd/lockstep/internal/health"
	"lockstep/cmd/lockstep/internal/hubserver"
	"lockstep/cmd/lockstep/internal/term"
	"lockstep/cmd/lockstep/internal/upstreams"
	"lockstep/hub/status"
	"lockstep/internal/fetch"
)

// Ask asks the process for its state.
func (s *Service) Ask(ctx context.Context) (*health.Process, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	p := &health.Process{Upstreams: []upstreams.Row{}}
	err := s.read(ctx, upstreams.Path, p)
	if err != nil && !errors.Is(err, errNotThere) {
		return nil, err
	}
	known := err == nil
	switch p.Hub, err = s.askHub(ctx); {
	case errors.Is(err, errNotThere) && !known:
		return nil, fmt.Errorf("the process at %s is no serve, follow or hub, or is of an earlier version", s.name)
	case err != nil && !errors.Is(err, errNotThere):
		return nil, err
	}
	if !known {
		p.Kind, p.At = health.KindHub, time.Now().UTC().Truncate(time.Millisecond)
	}
	p.Settle()
	return p, nil
}

// maxWorst is how many subscriptions are listed.
const maxWorst = 100

// askHub asks the hub of the process.
func (s *Service) askHub(ctx context.Context) (*health.Hub, error) {
	var stats struct {
		URL string `json:"url"`
		status.Stats
	}
	if err := s.read(ctx, hubserver.APIPath, &stats); err != nil {
		return nil, err
	}
	h := health.HubOf(stats.URL, &stats.Stats)
	if h.Lacking == 0 && h.Failing == 0 {
		return h, nil
	}
	var list struct {
		Subscriptions []status.Subscription `json:"subscriptions"`
	}
	if err := s.read(ctx, fmt.Sprintf("%s/subscriptions?behind=true&limit=%d", hubserver.APIPath, maxWorst), &list); err != nil {
		return nil, err
	}
	h.Worst = list.Subscriptions
	return h, nil
}

// A Public is what a service says of itself to everybody.
type Public struct {
	Kind    string       `json:"kind"` // "service"
	URL     string       `json:"url"`
	State   health.State `json:"state"`
	Summary string       `json:"summary"`
	Details []string     `json:"details,omitempty"` // what is not as it should be
}

// AskPublic asks the process whether it lives and is ready.
func (s *Service) AskPublic(ctx context.Context) (*Public, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	status, text, err := s.get(ctx, "healthz")
	switch {
	case err != nil:
		return nil, err
	case status != http.StatusOK || strings.TrimSpace(string(text)) != "ok":
		return nil, term.WithHint(fmt.Errorf("%s is no service of lockstep: status %d at %shealthz", s.name, status, s.pages),
			"give the base URL of a lockstep serve or hub, or the address of a follow --listen; for a mirror, its directory")
	}
	status, text, err = s.get(ctx, "readyz")
	if err != nil {
		return nil, err
	}
	p := &Public{Kind: "service", URL: s.name, State: health.OK, Summary: s.name + " is ready"}
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); line != "" && line != "ok" && len(p.Details) < maxDetails {
			p.Details = append(p.Details, fetch.Printable(line))
		}
	}
	switch {
	case status == http.StatusServiceUnavailable:
		p.State, p.Summary = health.Starting, s.name+" lives and is not ready"
	case status != http.StatusOK:
		return nil, fmt.Errorf("the process at %s answers with status %d at %sreadyz", s.name, status, s.pages)
	case len(p.Details) > 0:
		p.State, p.Summary = health.Failing, s.name+" is ready, with problems"
	}
	return p, nil
}

// maxDetails is how many lines about problems are shown.
const maxDetails = 100

// Print implements [health.Result].
func (p *Public) Print(io term.IO) {
	io.Printf("%s\n", p.Summary)
	for _, line := range p.Details {
		io.Printf("  %s\n", line)
	}
}

// Check implements [health.Result].
func (p *Public) Check() error {
	switch p.State {
	case health.OK:
		return nil
	case health.Starting:
		return fmt.Errorf("not ready: %w", health.ErrStarting)
	}
	return fmt.Errorf("%s %w", term.Count(len(p.Details), "set"), health.ErrFailing)
}
