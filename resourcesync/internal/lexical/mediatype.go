package lexical

import "strings"

// MediaType reports whether s is a media type, with or without parameters
// (RS-TYPE-01). It checks only the form of parameters.
func MediaType[T string | []byte](s T) bool {
	i := tokenEnd(s, 0)
	if i == 0 || i >= len(s) || s[i] != '/' {
		return false
	}
	end := tokenEnd(s, i+1)
	if end == i+1 {
		return false
	}
	if end == len(s) {
		return true
	}
	return validParameters(s, end)
}

// validParameters reports whether s from i on is a list of ;name=value.
func validParameters[T string | []byte](s T, i int) bool {
	for i = skipBlanks(s, i); i < len(s); i = skipBlanks(s, i) {
		if s[i] != ';' {
			return false
		}
		i = skipBlanks(s, i+1)
		if i == len(s) {
			return true // a trailing semicolon is harmless
		}
		end := tokenEnd(s, i)
		if end == i || end == len(s) || s[end] != '=' {
			return false
		}
		i = end + 1
		if i < len(s) && s[i] == '"' {
			for i++; i < len(s) && s[i] != '"'; i++ {
				if s[i] == '\\' {
					i++
				}
			}
			if i >= len(s) {
				return false
			}
			i++
			continue
		}
		if end = tokenEnd(s, i); end == i {
			return false
		}
		i = end
	}
	return true
}

// EndsBlank reports whether s ends with white space, which a Reader would
// remove.
func EndsBlank(s string) bool { return s != "" && strings.IndexByte(" \t\r\n", s[len(s)-1]) >= 0 }

// Encoding reports whether s is a content coding, or several separated by
// commas (RS-ENC-01).
func Encoding(s string) bool {
	for coding := range strings.SplitSeq(s, ",") {
		coding = strings.Trim(coding, " ")
		if coding == "" || tokenEnd(coding, 0) != len(coding) {
			return false
		}
	}
	return !EndsBlank(s) && s[0] != ' '
}

func skipBlanks[T string | []byte](s T, i int) int {
	for i < len(s) && (s[i] == ' ' || s[i] == '\t') {
		i++
	}
	return i
}

// tokenEnd returns the end of the token of RFC 9110 that begins at s[i].
func tokenEnd[T string | []byte](s T, i int) int {
	for i < len(s) && classes[s[i]]&classToken != 0 {
		i++
	}
	return i
}
