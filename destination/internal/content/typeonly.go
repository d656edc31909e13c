package content

import "strings"

// TypeOnly returns a media type without its parameters, in lower case.
func TypeOnly(t string) string {
	t, _, _ = strings.Cut(t, ";")
	return strings.ToLower(strings.TrimSpace(t))
}
