package source

import (
	"bytes"

	"lockstep/source/internal/names"
)

// hintMark stands near the beginning of a hint page of ours. Any other is its
// owner's.
const hintMark = "<!-- Written by lockstep. -->"

// hint returns the page that stands beside the documents, for people and for
// programs that look at HTML: it links to the Capability Lists of the sets that
// cover it (RS-DISC-03). It says nothing that changes with the resources.
func (s *Source) hint(sets []Set) ([]byte, error) {
	return s.render(sets, nil, "A ResourceSync Source", "", names.Hint)
}

func ourHint(data []byte) bool {
	return bytes.Contains(data[:min(len(data), 100)], []byte(hintMark))
}
