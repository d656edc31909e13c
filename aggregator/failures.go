package aggregator

import (
	"errors"
	"fmt"
	"strings"

	"lockstep/destination"
	"lockstep/intake"
)

// maxRemembered is how many failed resources an Upstream remembers, so that it does not
// name them again. A Destination lists no more of a run.
const maxRemembered = 1000

// A failures is what an Upstream knows of the failures of its runs, so that each is
// reported once. It is forgotten when the mirror is in step again. The zero value is ready
// to use.
type failures struct {
	resources map[string]bool // that were named, or counted among others; by URI
	document  string          // the cause why documents cannot be read, without their address
	text      string          // in which that was first reported
}

// take reports the resources that failed in a run and had not before. It returns an error
// if documents could not be read, the same one for as long as the cause is the same,
// whichever documents it affects. base is the base URL of this Source: permission to fetch
// what it has itself is no remedy.
func (f *failures) take(address, base string, r *destination.Report, t *intake.Tally) error {
	fresh, document, text := 0, "", ""
	for i := range r.Failures {
		e := &r.Failures[i]
		switch {
		case !e.IsResource():
			if text == "" {
				document, text = strings.ReplaceAll(e.Cause, e.URI, ""), configured(e.Cause)
			}
			continue
		case f.resources[e.URI] || len(f.resources) >= maxRemembered:
			continue
		case f.resources == nil:
			f.resources = make(map[string]bool)
		}
		f.resources[e.URI] = true
		switch fresh++; {
		case fresh > maxNamed:
		case isHere(e.URI, base):
			t.Unreadable(e.URI, fmt.Errorf("not republished: %w", ErrLoop))
		default:
			t.Unreadable(e.URI, errors.New(configured(e.Cause)))
		}
	}
	if fresh > maxNamed {
		t.Unreadable(address, fmt.Errorf("%s failed", more(fresh-maxNamed)))
	}
	if text == "" {
		f.document = ""
		return nil
	}
	if document != f.document {
		f.document, f.text = document, text
	}
	return errors.New(f.text)
}

// more returns a number of resources that are not named.
func more(n int) string {
	if n == 1 {
		return "1 more resource"
	}
	return fmt.Sprintf("%d more resources", n)
}

// configured returns a message of a Destination with the words for what an Aggregator
// configures, and what else its user can do.
func configured(text string) string { return words.Replace(text) }

var words = strings.NewReplacer(
	"run again with --max-delete ", "configure this upstream with max_delete: ",
	"if the mirror is to become one of the other Source, run sync with --baseline",
	"if it is the same collection at another address, stop serve, remove .lockstep in the mirror of this upstream, run lockstep sync --adopt from that address to the mirror, and start serve again",
	"run sync with --baseline", "stop serve, run lockstep sync --baseline from this address to the mirror of this upstream, and start serve again",
	"--include, --exclude and --type match none", "include, exclude and types match none",
	"allow it with --allow-host ", "allow it with allow_hosts: ",
)
