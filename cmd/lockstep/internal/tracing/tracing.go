// Package tracing has what the commands share that compare copies of resources with
// their origins: a flag, what is printed, and errors.
package tracing

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"lockstep/cmd/lockstep/internal/term"
	"lockstep/internal/provenance"
)

// ErrAltered reports copies that are not what their origins published.
var ErrAltered = errors.New("altered on the way")

// ErrUnchecked reports copies that could not be compared with their origins.
var ErrUnchecked = errors.New("could not be compared with the origin")

// ParseSample reads the value of --sample: a number, or -1 for all.
func ParseSample(s string) (int, error) {
	if s == "all" {
		return provenance.SampleAll, nil
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < 0 {
		return 0, term.Usagef("--sample %q: want a number, or all", s)
	}
	return n, nil
}

// Err returns the error with which a command ends, if any.
func Err(r *provenance.Report) error {
	switch {
	case r.Altered > 0:
		return fmt.Errorf("%w: %s", ErrAltered, term.Count(r.Altered, "resource"))
	case r.Unchecked > 0:
		return fmt.Errorf("%s %w", term.Count(r.Unchecked, "resource"), ErrUnchecked)
	case r.Copies == 0:
		return term.WithHint(errors.New("no resource has a via link to an origin"), "--origin is for what an Aggregator republishes")
	}
	return nil
}

// maxShown is how many findings are printed.
const maxShown = 1000

// Lines prints findings as they arrive: those that could not be checked to stderr, as
// all that failed, the others to stdout.
type Lines struct {
	IO    term.IO
	Quiet bool // nothing goes to stdout
	n     int64
}

// Add prints a finding.
func (l *Lines) Add(f *provenance.Finding) {
	if l.n++; l.n > maxShown {
		return
	}
	line := fmt.Sprintf("%s: %s: origin %s: %s\n", f.Verdict, f.URI, f.Origin, f.Cause)
	switch {
	case f.Verdict == provenance.Unchecked:
		l.IO.Errorf("%s", line)
	case !l.Quiet:
		l.IO.Printf("%s", line)
	}
}

// End prints how many findings were not printed.
func (l *Lines) End() {
	if l.n > maxShown && !l.Quiet {
		l.IO.Printf("… and %s more\n", term.Thousands(l.n-maxShown))
	}
}

// Print prints the counts of a report.
func Print(io term.IO, r *provenance.Report) {
	var parts []string
	for _, p := range []struct {
		n    int64
		what string
	}{
		{r.Identical, "identical"}, {r.Changed, "changed since"}, {r.Gone, "gone"}, {r.Altered, "altered on the way"},
		{r.Unclear, "unclear"}, {r.Unchecked, "unchecked"},
	} {
		if p.n > 0 {
			parts = append(parts, term.Thousands(p.n)+" "+p.what)
		}
	}
	io.Printf("  origins: %s of %s with a via link compared", term.Thousands(r.Checked-r.Unchecked), term.Count(r.Copies, "resource"))
	if r.Checked < r.Copies {
		io.Printf(" (--seed %d)", r.Seed)
	}
	if len(parts) > 0 {
		io.Printf(": %s", strings.Join(parts, ", "))
	}
	if r.WithoutVia > 0 {
		io.Printf("; %s without a via link", term.Thousands(r.WithoutVia))
	}
	io.Printf("\n")
}
