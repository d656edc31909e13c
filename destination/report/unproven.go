package report

import (
	"strings"

	"lockstep/internal/fetch"
)

// Unproven is one reason why a mirror may lack something that the Source has, or still
// have something that is gone: the Source's documents do not rule it out, or not all of
// them could be used.
type Unproven struct {
	Set     string `json:"set,omitempty"` // URI of the set; empty: all of the Source
	Reason  string `json:"reason"`
	Command string `json:"command,omitempty"` // resolves it; empty: no command does
	Needs   string `json:"needs,omitempty"`   // condition that has to be met first

	failed bool // it is a failure, which the error of the run states
}

// NewUnprovenFailure returns the reason that a run ended with err; command repeats it.
func NewUnprovenFailure(err error, command string) Unproven {
	return Unproven{Reason: fetch.Printable(err.Error()), Command: command, Needs: "its cause is corrected", failed: true}
}

// String returns the reason and its remedy.
func (u *Unproven) String() string {
	switch {
	case u.Command == "":
		return u.Reason + "; only the Source can close this: " + u.Needs
	case u.Needs != "":
		return u.Reason + "; " + u.Command + " closes it, once " + u.Needs
	}
	return u.Reason + "; " + u.Command + " closes it"
}

// IsFailure reports whether u describes a failure, which the error of the run
// states.
func (u *Unproven) IsFailure() bool { return u.failed }

// Repeats reports whether u gives the same reason as was, which may have other times and
// numbers: where a document stays unreadable, each run knows of a later time.
func (u *Unproven) Repeats(was Unproven) bool {
	return u.Set == was.Set && u.Needs == was.Needs && withoutDigits(u.Reason) == withoutDigits(was.Reason)
}

func withoutDigits(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '.' || '0' <= r && r <= '9' {
			return -1
		}
		return r
	}, s)
}

// A WithdrawnSet is a set that the Source Description no longer lists. Its files stay
// until a run that compares everything removes them.
type WithdrawnSet struct {
	URI       string `json:"uri"`
	Name      string `json:"name"`
	Resources int64  `json:"resources"` // of it in the mirror
}
