// Package health determines the state of services and mirrors from what is known of them, and
// says it: in one sentence and a table, in the same words wherever it is shown.
package health

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"lockstep/aggregator"
	"lockstep/cmd/lockstep/internal/term"
	"lockstep/cmd/lockstep/internal/upstreams"
	"lockstep/internal/fetch"
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

// A Row is a line of a table, about a set, an upstream or a mirror.
type Row struct {
	Name, State   string
	Success, Next time.Time
	Pending       int64
	Resources     *int64
	Err, Hint     string
}

// timeForm is how times are shown: in UTC, and as such.
const timeForm = "2006-01-02 15:04:05Z"

// PrintRows prints a table below a sentence, and what to do about errors. first is the title
// of the first column.
func PrintRows(io term.IO, first string, rows []Row, now time.Time) {
	if len(rows) == 0 {
		return
	}
	lines := [][]string{{first, "STATE", "LAST SUCCESS", "AGE", "NEXT", "PENDING", "RESOURCES", "ERROR"}}
	var hints []string
	for _, r := range rows {
		success, age, next, resources := "-", "-", "-", "-"
		if !r.Success.IsZero() {
			success, age = r.Success.UTC().Format(timeForm), Span(max(now.Sub(r.Success), 0))
		}
		if !r.Next.IsZero() {
			next = "now"
			if d := r.Next.Sub(now); d > 0 {
				next = "in " + Span(d)
			}
		}
		if r.Resources != nil {
			resources = term.Thousands(*r.Resources)
		}
		lines = append(lines, []string{r.Name, r.State, success, age, next, term.Thousands(r.Pending), resources, r.Err})
		if r.Hint != "" && !slices.Contains(hints, r.Hint) {
			hints = append(hints, r.Hint)
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

// RowOf returns the line of an upstream or a set.
func RowOf(u *upstreams.Row) Row {
	r := Row{Name: u.Label(), State: string(u.State), Success: u.LastSuccess, Next: u.Next, Pending: u.Pending, Resources: u.Resources, Err: u.Error, Hint: u.Hint}
	if how, ok := channels[u.Channel]; ok && u.State == aggregator.StateFollowing {
		r.State = how
	}
	return r
}

// channels say how an upstream is followed.
var channels = map[string]string{"hub": "hub", "events": "event stream", "poll": "polling"}

// Span returns a duration in its largest unit, for people.
func Span(d time.Duration) string {
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

// asFarAsKnown follows what says that a mirror is in step, if it is not known to be complete.
const asFarAsKnown = ", as far as it can be known"

// PrintUnproven prints below a sentence why a mirror is not known to be complete.
func PrintUnproven(io term.IO, reasons []string) {
	if len(reasons) == 0 {
		return
	}
	more := ""
	if n := len(reasons) - 1; n > 0 {
		more = "; and " + term.Count(n, "other reason") + ", which --json lists"
	}
	io.Printf("  not known to be complete: %s%s\n", reasons[0], more)
}

// UnknownPending is the number of pending resources that is not known.
const UnknownPending = -1

// InStep says that a mirror is in step with a Source, as far as it can be known if there are reasons
// why it is not known to be complete, or since when it is not.
func InStep(source string, state State, success, since, now time.Time, pending int64, unproven []string) string {
	var text string
	source = fetch.Printable(source)
	switch {
	case state == OK:
		text = "in step with " + source
		if !success.IsZero() {
			text += " as of " + Span(max(now.Sub(success), 0)) + " ago"
		}
		if len(unproven) > 0 {
			text += asFarAsKnown
		}
	case state == Starting:
		return "not yet in step with " + source
	default:
		text = "not in step with " + source
		if !since.IsZero() {
			text += ": failing for " + Span(max(now.Sub(since), 0))
		}
		if success.IsZero() {
			text += "; it has never been in step, as far as is known"
		} else {
			text += "; last in step " + Span(max(now.Sub(success), 0)) + " ago"
		}
	}
	if pending == UnknownPending {
		return text
	}
	return text + "; " + term.Thousands(pending) + " pending"
}
