// Package netrc reads netrc files, which have the logins of a user at hosts.
package netrc

import "strings"

// Entry returns the login for host: that of its machine entry, else of the
// default entry after all of them.
func Entry(text, host string) (login, password string, ok bool) {
	var here, found bool
	tokens := tokensOf(text)
	for i := 0; i < len(tokens); i++ {
		value := ""
		if i+1 < len(tokens) {
			value = tokens[i+1]
		}
		switch tokens[i] {
		case "machine", "default":
			if found {
				return login, password, true
			}
			here = tokens[i] == "default" || strings.EqualFold(value, host)
			found = here
			if tokens[i] == "machine" {
				i++
			}
		case "login", "account", "password":
			if here && tokens[i] == "login" {
				login = value
			}
			if here && tokens[i] == "password" {
				password = value
			}
			i++
		}
	}
	return login, password, found
}

// tokensOf splits text at blanks, without comments and without macros, which
// end at the next empty line. A quoted token may contain blanks.
func tokensOf(text string) []string {
	var tokens []string
	macro := false
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if macro {
			macro = line != ""
			continue
		}
		for line != "" && line[0] != '#' {
			var token string
			token, line = nextToken(line)
			if token == "macdef" {
				macro = true
				break
			}
			tokens = append(tokens, token)
		}
	}
	return tokens
}

func nextToken(line string) (token, rest string) {
	if line[0] == '"' {
		var b strings.Builder
		for i := 1; i < len(line); i++ {
			switch {
			case line[i] == '\\' && i+1 < len(line):
				i++
				b.WriteByte(line[i])
			case line[i] == '"':
				return b.String(), strings.TrimLeft(line[i+1:], " \t")
			default:
				b.WriteByte(line[i])
			}
		}
		return b.String(), ""
	}
	if i := strings.IndexAny(line, " \t"); i >= 0 {
		return line[:i], strings.TrimLeft(line[i:], " \t")
	}
	return line, ""
}
