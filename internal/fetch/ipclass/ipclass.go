// Package ipclass classifies IP addresses, and hosts that are written as addresses, by their
// distance from the public internet.
package ipclass

import (
	"net/netip"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// A Class is the distance of an address from the public internet.
type Class uint8

// The classes, from the nearest to the public internet to the most restricted.
const (
	Public   Class = iota
	Private        // of a network that is not public
	Loopback       // of this machine
	Never          // of no host: link-local, multicast, unspecified, reserved
)

// Ranges net/netip has no method for.
var (
	thisNetwork = netip.MustParsePrefix("0.0.0.0/8")      // RFC 1122: this host
	sharedNAT   = netip.MustParsePrefix("100.64.0.0/10")  // RFC 6598: behind a carrier's NAT
	ietf        = netip.MustParsePrefix("192.0.0.0/24")   // RFC 6890
	benchmark   = netip.MustParsePrefix("198.18.0.0/15")  // RFC 2544
	reserved    = netip.MustParsePrefix("240.0.0.0/4")    // RFC 1112, with broadcast
	nat64       = netip.MustParsePrefix("64:ff9b::/96")   // RFC 6052: IPv4 in the last four bytes
	nat64local  = netip.MustParsePrefix("64:ff9b:1::/48") // RFC 8215
	sixToFour   = netip.MustParsePrefix("2002::/16")      // RFC 3056: IPv4 in bytes 2 to 5
	teredo      = netip.MustParsePrefix("2001::/32")      // RFC 4380: IPv4 inverted in the last four
	compatible  = netip.MustParsePrefix("::/96")          // RFC 4291: IPv4 in the last four, obsolete
	siteLocal   = netip.MustParsePrefix("fec0::/10")      // RFC 3879, obsolete
)

// Of returns the class of a, and its name; IPv4 within IPv6 counts as IPv4.
func Of(a netip.Addr) (class Class, name string) {
	a = a.Unmap().WithZone("")
	switch {
	case !a.IsValid() || a.IsUnspecified():
		return Never, "unspecified"
	case a.IsLoopback():
		return Loopback, "loopback"
	case a.IsMulticast():
		return Never, "multicast"
	case a.IsLinkLocalUnicast():
		return Never, "link-local"
	case thisNetwork.Contains(a):
		return Never, "unspecified"
	case reserved.Contains(a):
		return Never, "reserved"
	case a.IsPrivate(), sharedNAT.Contains(a), ietf.Contains(a), benchmark.Contains(a),
		siteLocal.Contains(a), nat64local.Contains(a):
		return Private, "private"
	}
	if v4, ok := embedded(a); ok {
		return Of(v4)
	}
	return Public, ""
}

// embedded returns the IPv4 address to which a translator would send a's
// packets.
func embedded(a netip.Addr) (netip.Addr, bool) {
	b := a.As16()
	switch {
	case !a.Is6():
		return netip.Addr{}, false
	case nat64.Contains(a), compatible.Contains(a):
		return netip.AddrFrom4([4]byte(b[12:])), true
	case sixToFour.Contains(a):
		return netip.AddrFrom4([4]byte(b[2:6])), true
	case teredo.Contains(a):
		return netip.AddrFrom4([4]byte{^b[12], ^b[13], ^b[14], ^b[15]}), true
	}
	return netip.Addr{}, false
}

// Literal returns the address that a host is written as, or that it always means; ok is false
// for all other names.
func Literal(host string) (a netip.Addr, ok bool) {
	name := strings.TrimRight(host, ".")
	if lower := strings.ToLower(name); lower == "localhost" || strings.HasSuffix(lower, ".localhost") { // RFC 6761, 6.3
		return netip.AddrFrom4([4]byte{127, 0, 0, 1}), true
	}
	a, err := netip.ParseAddr(name)
	return a, err == nil
}

// EndsInNumber reports whether the last label of a host is a number, which is so of addresses
// but of no name. Programs take a host like 127.1 or 0x7f000001, which [Literal] refuses, for
// different addresses.
func EndsInNumber(host string) bool {
	host = strings.TrimRight(host, ".")
	last := strings.ToLower(host[strings.LastIndexByte(host, '.')+1:])
	if hex, ok := strings.CutPrefix(last, "0x"); ok {
		return strings.Trim(hex, "0123456789abcdef") == ""
	}
	return last != "" && strings.Trim(last, "0123456789") == ""
}

// Fold returns a host with the digits, letters and dots of ASCII that net/http may make of
// those of other scripts, and without the characters that it may leave out.
func Fold(host string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '。':
			return '.'
		case r < utf8.RuneSelf || unicode.IsLetter(r) || unicode.IsDigit(r):
			return r
		}
		return -1
	}, norm.NFKC.String(host))
}
