package sourceflags

import (
	"strconv"
	"strings"

	"lockstep/cmd/lockstep/internal/term"
)

// rehashDefault is how many percent of the files are read again in a day.
const rehashDefault = "1%"

// parseShare reads a share of the files: 1%, 0.5, 0.
func parseShare(s string) (float64, error) {
	f, err := strconv.ParseFloat(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(s), "%")), 64)
	if err != nil || !(f >= 0 && f <= 100) {
		return 0, term.Usage(term.Usagef("--rehash %q: want percent of the files in a day, from 0 to 100", s), "as 1%, or 0 for none")
	}
	return f / 100, nil
}
