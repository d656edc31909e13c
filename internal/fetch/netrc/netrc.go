// Package netrc reads netrc files, which have the logins of a user at hosts.
package netrc

import (
	"slices"
	"strings"
)

// Entry returns the login for host: that of its machine entry, else of the
// default entry after all of them.
func Entry(text, host string) (login, password string, ok bool) {
	s := scanner{text: text}
	for {
		word, more := s.keyword()
		if !more {
			return login, password, ok
		}
		switch word {
		case "machine", "default":
			if ok {
				return login, password, true
			}
			if ok = word == "default"; !ok {
				name, named := s.value()
				ok = named && strings.EqualFold(name, host)
			}
		case "login", "account", "password":
			value, _ := s.value() // without one it is empty
			if ok && word == "login" {
				login = value
			}
			if ok && word == "password" {
				password = value
			}
		}
	}
}

// keywords may begin a line.
var keywords = []string{"machine", "default", "login", "account", "password", "macdef"}

// A scanner reads the tokens of a netrc file, which are separated by blanks.
type scanner struct {
	line   string // rest of the current line
	begins bool   // line is all of it
	text   string // the lines after it
}

// keyword returns the next token in the place of a keyword. It skips comments, and macros,
// which end at the next empty line.
func (s *scanner) keyword() (word string, ok bool) {
	for s.find() {
		if s.line[0] == '#' {
			s.line = ""
			continue
		}
		if word := s.token(); word != "macdef" {
			return word, true
		}
		for s.nextLine() && s.line != "" {
		}
	}
	return "", false
}

// value returns the next token as the value of a keyword. An unquoted keyword that begins a
// line is none, nor is machine: if a value is missing, the next entry must not become a
// part of this one.
func (s *scanner) value() (word string, ok bool) {
	for s.find() {
		if s.begins && s.line[0] == '#' {
			s.line = ""
			continue
		}
		word, _ := nextToken(s.line)
		if s.line[0] != '"' && (word == "machine" || s.begins && slices.Contains(keywords, word)) {
			return "", false
		}
		return s.token(), true
	}
	return "", false
}

// find moves to the next line with a token, unless the current one has another.
func (s *scanner) find() bool {
	for s.line == "" {
		if !s.nextLine() {
			return false
		}
	}
	return true
}

func (s *scanner) nextLine() bool {
	more := s.text != ""
	s.line, s.text, _ = strings.Cut(s.text, "\n")
	s.line, s.begins = strings.TrimSpace(s.line), true
	return more
}

// token returns the next token of the line. A quoted token may contain blanks.
func (s *scanner) token() (word string) {
	word, s.line = nextToken(s.line)
	s.begins = false
	return word
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
