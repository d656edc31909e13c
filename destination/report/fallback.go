package report

import (
	"fmt"

	"lockstep/destination/internal/wording"
)

// A Fallback names what was used in place of something that the Source offers and that
// could not be read.
type Fallback struct {
	Set      string `json:"set"`
	Missing  string `json:"missing"` // a capability, or [FallbackLoc]
	URI      string `json:"uri"`     // of it; of resources, the first
	Cause    string `json:"cause"`
	Used     string `json:"used"` // a capability, [FallbackRequests] or [FallbackMemento]
	UsedURI  string `json:"used_uri,omitempty"`
	Count    int64  `json:"count,omitempty"`    // of resources
	Unproven string `json:"unproven,omitempty"` // what remains uncertain with it
}

// What a [Fallback] may have besides capabilities.
const (
	FallbackLoc      = "loc"
	FallbackRequests = "single requests"
	FallbackMemento  = "memento"
)

// String returns a sentence on what was used in place of what.
func (f *Fallback) String() string {
	var text string
	switch {
	case f.Missing == FallbackLoc:
		text = fmt.Sprintf("set %s: %s read from mementos of the listed versions, because their addresses no longer have them; the first is %s: %s",
			f.Set, wording.Plural(f.Count, "resource"), f.URI, f.Cause)
	case f.Used == FallbackRequests:
		text = fmt.Sprintf("set %s: the %s cannot be used, so single requests are: %s", f.Set, wording.Capability(f.Missing), f.Cause)
	default:
		text = fmt.Sprintf("set %s: the %s cannot be read, so the %s %s is used: %s", f.Set, wording.Capability(f.Missing), wording.Capability(f.Used), f.UsedURI, f.Cause)
	}
	if f.Unproven != "" {
		text += "; " + f.Unproven
	}
	return text
}
