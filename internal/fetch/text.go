package fetch

import "lockstep/internal/fetch/shown"

// Printable returns s for use on a terminal and in one line of a log: see [shown.Printable].
func Printable(s string) string { return shown.Printable(s) }

// WithoutUser returns an address for display and storage: without user name and
// password.
func WithoutUser(address string) string { return shown.WithoutUser(address) }
