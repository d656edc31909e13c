// Package status finds out how services and mirrors are, and shows it: in one sentence and a
// table, or as JSON. It asks processes, through their admin sockets or at their addresses,
// and reads the state of mirrors on which no process works.
package status

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"lockstep/aggregator"
	"lockstep/cmd/lockstep/internal/term"
	"lockstep/cmd/lockstep/internal/upstreams"
)

// ErrFailing reports that something does not work as it should.
var ErrFailing = errors.New("failing")

// A State is that of a service or a mirror.
type State string

// The states.
const (
	OK       State = "ok"
	Failing  State = "failing"  // the last attempt failed, or the last run did not bring the mirror into step
	Starting State = "starting" // it has not been in step yet, and has not failed
	Stopped  State = "stopped"  // a service that does not run
)

// A Result is the state of what was asked for. Its JSON is what --json prints.
type Result interface {
	// Print prints it for people: a sentence, and a table.
	Print(io term.IO)
	// Check returns an error that wraps [ErrFailing] unless the state is OK.
	Check() error
}

// A row is a line of a table, about a set, an upstream or a mirror.
type row struct {
	name, state   string
	success, next time.Time
	pending       int64
	resources     *int64
	err, hint     string
}

// printRows prints a table below a sentence, and what to do about errors. first is the title
// of the first column.
func printRows(io term.IO, first string, rows []row, now time.Time) {
	if len(rows) == 0 {
		return
	}
	lines := [][]string{{first, "STATE", "LAST SUCCESS", "AGE", "NEXT", "PENDING", "RESOURCES", "ERROR"}}
	var hints []string
	for _, r := range rows {
		success, age, next, resources := "-", "-", "-", "-"
		if !r.success.IsZero() {
			success, age = r.success.Local().Format(time.DateTime), span(max(now.Sub(r.success), 0))
		}
		if !r.next.IsZero() {
			next = "now"
			if d := r.next.Sub(now); d > 0 {
				next = "in " + span(d)
			}
		}
		if r.resources != nil {
			resources = term.Thousands(*r.resources)
		}
		lines = append(lines, []string{r.name, r.state, success, age, next, term.Thousands(r.pending), resources, r.err})
		if r.hint != "" && !slices.Contains(hints, r.hint) {
			hints = append(hints, r.hint)
		}
	}
	io.Printf("\n")
	for _, line := range layOut(lines, io.Columns()) {
		io.Printf("%s\n", line)
	}
	for _, hint := range hints {
		io.Printf("hint: %s\n", hint)
	}
}

// rowOf returns the line of an upstream or a set.
func rowOf(u *upstreams.Row) row {
	r := row{name: u.Label(), state: string(u.State), success: u.LastSuccess, next: u.Next, pending: u.Pending, resources: u.Resources, err: u.Error, hint: u.Hint}
	if how, ok := channels[u.Channel]; ok && u.State == aggregator.StateFollowing {
		r.state = how
	}
	return r
}

// channels say how an upstream is followed.
var channels = map[string]string{"hub": "hub", "events": "event stream", "poll": "polling"}

// span returns a duration in its largest unit, for people.
func span(d time.Duration) string {
	switch {
	case d < 2*time.Minute:
		return fmt.Sprintf("%d s", d/time.Second)
	case d < 2*time.Hour:
		return fmt.Sprintf("%d min", d/time.Minute)
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h", d/time.Hour)
	}
	return fmt.Sprintf("%d d", d/(24*time.Hour))
}

// unknownPending is the number of pending resources that is not known.
const unknownPending = -1

// inStep says that a mirror is in step with a Source, or since when it is not.
func inStep(source string, state State, success, since, now time.Time, pending int64) string {
	var text string
	switch {
	case state == OK:
		text = "in step with " + source
		if !success.IsZero() {
			text += " as of " + span(max(now.Sub(success), 0)) + " ago"
		}
	case state == Starting:
		return "not yet in step with " + source
	default:
		text = "not in step with " + source
		if !since.IsZero() {
			text += ": failing for " + span(max(now.Sub(since), 0))
		}
		if success.IsZero() {
			text += "; it has never been in step, as far as is known"
		} else {
			text += "; last in step " + span(max(now.Sub(success), 0)) + " ago"
		}
	}
	if pending == unknownPending {
		return text
	}
	return text + "; " + term.Thousands(pending) + " pending"
}
