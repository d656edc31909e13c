package websub

import (
	"net/url"
	"slices"
	"strings"
)

// parameters is the order in which a hub's parameters are added to a callback.
var parameters = [...]string{"hub.mode", "hub.topic", "hub.challenge", "hub.lease_seconds", "hub.reason"}

// VerificationURL returns callback with parameters added, as a hub calls it to
// verify or to deny: hub.mode first, other parameters in alphabetical order
// after those of the Recommendation. An existing query of the callback stays in
// front, unchanged (WS-H-10).
func VerificationURL(callback string, added url.Values) string {
	callback, _, _ = strings.Cut(callback, "#") // is never sent
	var b strings.Builder
	b.WriteString(callback)
	sep := byte('?')
	if strings.Contains(callback, "?") {
		sep = '&'
	}
	if strings.HasSuffix(callback, "?") || strings.HasSuffix(callback, "&") {
		sep = 0
	}
	add := func(name string) {
		for _, v := range added[name] {
			if sep != 0 {
				b.WriteByte(sep)
			}
			b.WriteString(url.QueryEscape(name) + "=" + url.QueryEscape(v))
			sep = '&'
		}
	}
	for _, name := range parameters {
		add(name)
	}
	names := make([]string, 0, len(added))
	for name := range added {
		if !slices.Contains(parameters[:], name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		add(name)
	}
	return b.String()
}
