// Package shown prepares addresses, and text from strangers, for messages and logs.
package shown

import (
	"fmt"
	"net/url"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"lockstep/internal/iri"
)

// maxText caps the length of untrusted text in one message.
const maxText = 2048

// Printable returns text, which may be an address or have some in it, for messages: like
// [Whole], and without secrets, as [WithoutSecrets] returns it.
func Printable(s string) string { return Whole(WithoutSecrets(s)) }

// Whole returns s for use on a terminal and in one line of a log: it escapes control
// characters, bidirectional formatting characters and invalid UTF-8, and truncates long
// text. It is for addresses that programs use, as fields of JSON: they have their query.
func Whole(s string) string {
	plain := len(s) <= maxText
	for i := 0; plain && i < len(s); i++ {
		plain = s[i] >= ' ' && s[i] < 0x7f
	}
	if plain {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); {
		if b.Len() >= maxText {
			b.WriteString("…")
			break
		}
		r, n := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && n == 1:
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case unicode.IsPrint(r):
			b.WriteRune(r)
		case r == '\n' || r == '\t' || r == '\r':
			b.WriteByte(' ')
		case r < 0x80:
			fmt.Fprintf(&b, `\x%02x`, r)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
		i += n
	}
	return b.String()
}

// WithoutUser returns an address for display and storage: without user name and
// password. Of an address without a scheme, which may also be the name of a file, it
// removes them if there is a password. It also removes a password that contains /, ? or #,
// which makes the address invalid, unless it has only digits up to there, like a port.
func WithoutUser(address string) string {
	head, rest := "", address
	before, after, found := strings.Cut(address, "://")
	if found = found && !strings.ContainsAny(before, "/?#@"); found {
		head, rest = before+"://", after
	}
	end := len(rest)
	prefix := protocol(rest)
	if i := strings.IndexAny(rest, "/?#"); i >= 0 && !((found || prefix != "") && iri.InPassword(rest[len(prefix):i])) {
		end = i
	}
	at := strings.LastIndexByte(rest[:end], '@')
	if !found {
		head = protocol(rest[:at+1])
		if _, password, ok := strings.Cut(rest[len(head):at+1], ":"); !ok || strings.Contains(password, `\`) {
			return address
		}
	}
	return head + rest[at+1:]
}

// protocol returns the prefix of an address by which users select another protocol than
// ResourceSync, with the colon, or "".
func protocol(address string) string {
	for _, p := range [...]string{"atom-pmh:", "oai-pmh:", "resourcesync:"} {
		if len(address) >= len(p) && strings.EqualFold(address[:len(p)], p) {
			return address[:len(p)]
		}
	}
	return ""
}

// WithoutQuery returns an address for display: without user, password and query.
func WithoutQuery(uri string) string {
	uri, _, _ = strings.Cut(WithoutUser(uri), "?")
	return Printable(uri)
}

// Redacted returns an address for display: without user and password, and without the
// values of parameters that by their names are secrets.
func Redacted(uri string) string {
	uri = WithoutUser(uri)
	head, query, ok := strings.Cut(uri, "?")
	if !ok {
		return Printable(uri)
	}
	query, fragment, hasFragment := strings.Cut(query, "#")
	parts := strings.Split(query, "&")
	for i, part := range parts {
		if name, _, ok := strings.Cut(part, "="); ok && secretName(name) {
			parts[i] = name + "=REDACTED"
		}
	}
	uri = head + "?" + strings.Join(parts, "&")
	if hasFragment {
		uri += "#" + fragment
	}
	return Printable(uri)
}

// RedactedIn returns text, a sentence about an address, with the address as [Redacted] shows
// it, and others as [WithoutSecrets] does.
func RedactedIn(text, uri string) string {
	redacted := Redacted(uri)
	if text = WithoutSecrets(text); redacted == uri || uri == "" {
		return text
	}
	return strings.ReplaceAll(strings.ReplaceAll(text, uri, redacted), Whole(uri), redacted)
}

// What may be secret in text: a user with a password, and a parameter of a query, also in the
// name of the file that a mirror has for such an address.
var (
	userInText      = regexp.MustCompile(`(://)[^\s/?#@:"'<>]*:[^\s/?#@"'<>]*@`)
	parameterInText = regexp.MustCompile(`([?&]|%~=3F)([^\s/?&#=:"'<>]+)=([^\s&#"'<>\\]*[^\s&#"'<>\\:;,.)…])`)
)

// WithoutSecrets returns text without what is secret in the addresses in it, by the rules of
// [Redacted].
func WithoutSecrets(text string) string {
	if strings.Contains(text, "@") {
		text = userInText.ReplaceAllString(text, "$1")
	}
	if !strings.Contains(text, "=") || !parameterInText.MatchString(text) {
		return text
	}
	return parameterInText.ReplaceAllStringFunc(text, func(s string) string {
		if m := parameterInText.FindStringSubmatch(s); secretName(m[2]) {
			return m[1] + m[2] + "=REDACTED"
		}
		return s
	})
}

// secretName reports whether a parameter of that name is probably a secret: a token, a
// password, or part of a signature.
func secretName(name string) bool {
	if plain, err := url.QueryUnescape(name); err == nil {
		name = plain
	}
	name = strings.ToLower(name)
	for _, word := range [...]string{"token", "secret", "passw", "pwd", "signature", "credential", "session", "auth", "apikey", "api_key", "api-key", "access_key", "accesskey"} {
		if strings.Contains(name, word) && name != "resumptiontoken" { // which is a position in a list
			return true
		}
	}
	return name == "sig" || name == "key" || name == "code"
}
