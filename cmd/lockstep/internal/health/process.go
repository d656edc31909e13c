package health

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"lockstep/aggregator"
	"lockstep/cmd/lockstep/internal/term"
	"lockstep/cmd/lockstep/internal/upstreams"
)

// A Process is what a running serve, follow or hub says of itself.
type Process struct {
	upstreams.Process
	State     State           `json:"state"`
	Summary   string          `json:"summary"`
	Upstreams []upstreams.Row `json:"upstreams"`
	Hub       *Hub            `json:"hub,omitempty"` // of serve: the one embedded in it
}

// Settle determines the state and the sentence.
func (p *Process) Settle() {
	p.State = OK
	switch {
	case p.Kind == KindHub:
		p.Summary = "hub at " + p.Hub.sentence()
		return
	case p.Destination != "":
		p.State, p.Summary = p.following()
		return
	}
	failing, unnotified := p.failing(), p.unnotified()
	if failing+unnotified > 0 {
		p.State = Failing
	}
	if p.Mirrors > 0 {
		p.Summary = p.followingAll(failing)
		return
	}
	var parts []string
	if n := len(p.Origins); n > 0 || len(p.Upstreams) == 0 {
		parts = append(parts, term.Count(max(n, p.Sets-len(p.Upstreams)), "set"))
	}
	if n := len(p.Upstreams); n > 0 {
		parts = append(parts, term.Count(n, "upstream"))
	}
	if failing > 0 {
		parts = append(parts, fmt.Sprintf("%d failing", failing))
	}
	if p.State == OK && p.Standby != "" {
		parts = append(parts, "standby; "+p.Standby+" publishes")
	} else if p.State == OK {
		parts = append(parts, "all well")
	}
	p.Summary = "serving " + p.BaseURL + ": " + strings.Join(parts, ", ")
	switch {
	case unnotified == 1 && p.Sets == 1:
		p.Summary += "; its hub has not been notified"
	case unnotified > 0:
		p.Summary += "; the hub of " + term.Count(unnotified, "set") + " has not been notified"
	}
	if !p.Published.IsZero() {
		p.Summary += "; last published " + Span(max(p.At.Sub(p.Published), 0)) + " ago"
	}
	if p.Hub != nil && p.Hub.Subscriptions > 0 {
		p.Summary += "; hub with " + p.Hub.counts()
	}
}

// following returns the state of a mirror that is followed, and says it.
func (p *Process) following() (State, string) {
	state, source, pending := OK, "the Source", int64(0)
	var success, since time.Time
	for i := range p.Upstreams {
		u := &p.Upstreams[i]
		source, pending = u.URL, pending+u.Pending
		switch {
		case u.State == aggregator.StateFailing:
			state = Failing
		case u.LastSuccess.IsZero() && state == OK:
			state = Starting
		}
		if i == 0 || u.LastSuccess.Before(success) {
			success = u.LastSuccess
		}
		if since.IsZero() || !u.Since.IsZero() && u.Since.Before(since) {
			since = u.Since
		}
	}
	return state, InStep(source, state, success, since, p.At, pending, p.unproven()) + "; following into " + p.Destination
}

// followingAll says how the mirrors are that the process follows, and whether some have not
// been in step yet.
func (p *Process) followingAll(failing int) string {
	starting := 0
	for i := range p.Upstreams {
		if u := &p.Upstreams[i]; u.State != aggregator.StateFailing && u.LastSuccess.IsZero() {
			starting++
		}
	}
	if p.State == OK && starting > 0 {
		p.State = Starting
	}
	text := "following " + term.Count(p.Mirrors, "mirror") + ", " + term.Count(len(p.Upstreams), "set")
	switch {
	case failing > 0:
		return text + fmt.Sprintf(": %d failing", failing)
	case starting > 0:
		return text + fmt.Sprintf(": %d not yet in step", starting)
	}
	if text += ": all in step"; len(p.unproven()) > 0 {
		text += asFarAsKnown
	}
	return text
}

// unproven returns why mirrors are not known to be complete.
func (p *Process) unproven() (reasons []string) {
	for i := range p.Upstreams {
		reasons = append(reasons, p.Upstreams[i].Unproven...)
	}
	return reasons
}

// failing returns how many upstreams and origins are failing.
func (p *Process) failing() int {
	n := 0
	for _, rows := range [][]upstreams.Row{p.Origins, p.Upstreams} {
		for i := range rows {
			if rows[i].State == aggregator.StateFailing {
				n++
			}
		}
	}
	return n
}

// unnotified returns how many sets are published, but have a hub that cannot be notified of
// their changes.
func (p *Process) unnotified() int {
	n := 0
	for i := range p.Origins {
		if r := &p.Origins[i]; r.State == upstreams.StatePublished && r.Error != "" {
			n++
		}
	}
	return n
}

// Check implements [Result].
func (p *Process) Check() error {
	n, of := p.failing(), len(p.Origins)+len(p.Upstreams)
	what := "upstream"
	if len(p.Upstreams) == 0 || p.Destination != "" || p.Mirrors > 0 {
		what = "set"
	}
	switch {
	case p.State == Starting:
		return fmt.Errorf("not yet in step: %w", ErrStarting)
	case n == 0 && p.unnotified() > 0:
		return fmt.Errorf("the notification of hubs is %w", ErrFailing)
	case n == 0:
		return nil
	case of == 1:
		return fmt.Errorf("the %s is %w", what, ErrFailing)
	case len(p.Upstreams) > 0 && len(p.Origins) > 0:
		what = "set and upstream"
	}
	return fmt.Errorf("%d of %s %s %w", n, term.Count(of, what), IsAre(n), ErrFailing)
}

// ErrStarting reports that something has not been in step yet.
var ErrStarting = errors.New("it is starting")

// IsAre returns the verb for n things.
func IsAre(n int) string {
	if n == 1 {
		return "is"
	}
	return "are"
}

// Print implements [Result].
func (p *Process) Print(io term.IO) {
	io.Printf("%s\n", p.Summary)
	PrintUnproven(io, p.unproven())
	var rows []Row
	for _, all := range [][]upstreams.Row{p.Origins, p.Upstreams} {
		for i := range all {
			rows = append(rows, RowOf(&all[i]))
		}
	}
	title := "SET"
	if len(p.Upstreams) > 0 && p.Destination == "" && p.Mirrors == 0 {
		title = "UPSTREAM"
	}
	PrintRows(io, title, rows, p.At)
	if p.Hub != nil {
		p.Hub.printBehind(io)
	}
}
