package fetch

import "lockstep/internal/fetch/shown"

// Printable returns text, which may be an address, for messages: see [shown.Printable].
func Printable(s string) string { return shown.Printable(s) }

// WithoutUser returns an address for display and storage: without user name and
// password.
func WithoutUser(address string) string { return shown.WithoutUser(address) }
