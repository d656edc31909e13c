package oaipmh

import (
	"fmt"
	"net/url"
	"strings"
)

// ParseAddress parses the address of a repository as users give it: its base URL,
// which may have metadataPrefix and set in its query, as in a request; prefix is
// [DublinCore] if there is none. It removes other arguments of OAI-PMH, and keeps
// those that belong to the base URL; it refuses from and until, because the
// harvester chooses them.
func ParseAddress(address string) (base, prefix, set string, err error) {
	address, _, _ = strings.Cut(address, "#")
	base, query, _ := strings.Cut(address, "?")
	prefix = DublinCore
	var rest []string
	for arg := range strings.SplitSeq(query, "&") {
		name, value, _ := strings.Cut(arg, "=")
		value, err := url.QueryUnescape(value)
		if err != nil {
			return "", "", "", fmt.Errorf("address %.200q: %w", address, err)
		}
		switch name {
		case "metadataPrefix":
			prefix = value
		case "set":
			set = value
		case "verb", "identifier", "resumptionToken", "":
		case "from", "until":
			return "", "", "", fmt.Errorf("address %.200q: all records are harvested, so %s has no place in it", address, name)
		default:
			rest = append(rest, arg)
		}
	}
	if prefix == "" {
		return "", "", "", fmt.Errorf("address %.200q: metadataPrefix is empty", address)
	}
	if len(rest) > 0 {
		base += "?" + strings.Join(rest, "&")
	}
	return base, prefix, set, nil
}

// URL returns the address of a request to the repository at base. args are
// names and values in turn, in this order; those without a value are omitted. A
// query of base precedes them; a fragment is removed.
func URL(base string, verb Verb, args ...string) string {
	base, _, _ = strings.Cut(base, "#")
	var b strings.Builder
	b.WriteString(base)
	switch {
	case !strings.Contains(base, "?"):
		b.WriteByte('?')
	case !strings.HasSuffix(base, "?") && !strings.HasSuffix(base, "&"):
		b.WriteByte('&')
	}
	b.WriteString("verb=")
	b.WriteString(string(verb))
	for i := 0; i+1 < len(args); i += 2 {
		if args[i+1] != "" {
			b.WriteString("&" + args[i] + "=" + escape(args[i+1]))
		}
	}
	return b.String()
}

// escape escapes a value according to OAI-PMH 2.0, 3.1.1.3.
func escape(s string) string { return strings.ReplaceAll(url.QueryEscape(s), "+", "%20") }

// RecordURL returns the address of a record in the repository at base, in the
// format of a prefix.
func RecordURL(base, prefix, identifier string) string {
	return URL(base, VerbGetRecord, "metadataPrefix", prefix, "identifier", identifier)
}

// ParseRecordURL parses a result of [RecordURL]; ok is false for any other URI.
func ParseRecordURL(uri string) (base, prefix, identifier string, ok bool) {
	at := strings.LastIndex(uri, "verb=GetRecord&metadataPrefix=")
	if at < 1 || uri[at-1] != '?' && uri[at-1] != '&' {
		return "", "", "", false
	}
	base = uri[:at]
	rest := strings.TrimPrefix(uri[at:], "verb=GetRecord&metadataPrefix=")
	p, i, found := strings.Cut(rest, "&identifier=")
	prefix, err1 := url.QueryUnescape(p)
	identifier, err2 := url.QueryUnescape(i)
	base = base[:len(base)-1]
	if !found || err1 != nil || err2 != nil || RecordURL(base, prefix, identifier) != uri {
		return "", "", "", false
	}
	return base, prefix, identifier, true
}
