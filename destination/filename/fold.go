package filename

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"
)

// literal holds the bytes that our Source leaves unescaped in a URI's segments.
// It escapes all others, in upper case.
var literal = func() (t [256]bool) {
	for c := range t {
		t[c] = c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' ||
			c < utf8.RuneSelf && strings.IndexByte("-._~!$&'()*+,;=:@", byte(c)) >= 0
	}
	return t
}()

// byteNames holds a string of each byte, to avoid allocating one.
var byteNames = func() (t [256]string) {
	for c := range t {
		t[c] = string([]byte{byte(c)})
	}
	return t
}()

// escape returns %XX.
func escape(c byte) string {
	const digits = "0123456789ABCDEF"
	return string([]byte{'%', digits[c>>4], digits[c&15]})
}

// unhex returns the value of a hexadecimal digit, or -1.
func unhex(c byte) int {
	switch {
	case '0' <= c && c <= '9':
		return int(c - '0')
	case 'a' <= c && c <= 'f':
		return int(c-'a') + 10
	case 'A' <= c && c <= 'F':
		return int(c-'A') + 10
	}
	return -1
}

// refused reports whether some file system refuses names with this byte.
func refused(c byte) bool {
	return c < ' ' || c == 0x7f || strings.IndexByte(`<>:"/|?*\`, c) >= 0
}

// ambiguous reports whether some file system may confuse a name that contains
// this byte with another.
func ambiguous(c byte) bool { return 'A' <= c && c <= 'Z' || c >= utf8.RuneSelf }

// devices are the names that Windows reserves for devices, with any extension.
const devices = " con prn aux nul conin$ conout$ com0 com1 com2 com3 com4 com5 com6 com7 com8 com9 com¹ com² com³" +
	" lpt0 lpt1 lpt2 lpt3 lpt4 lpt5 lpt6 lpt7 lpt8 lpt9 lpt¹ lpt² lpt³ clock$ "

func device(name string) bool {
	name, _, _ = strings.Cut(name, ".")
	name = strings.TrimRight(name, " ")
	return name != "" && !strings.Contains(name, " ") && strings.Contains(devices, " "+strings.ToLower(name)+" ")
}

// natural reports whether file systems that normalize names leave these unchanged,
// and none ignores one of their characters.
func natural(comps []component) bool {
	for _, c := range comps {
		if !utf8.ValidString(c.name) || !norm.NFC.IsNormalString(c.name) || strings.ContainsFunc(c.name, ignorable) {
			return false
		}
	}
	return true
}

// ignorable reports whether some file system compares names without r.
func ignorable(r rune) bool {
	return r >= utf8.RuneSelf && (unicode.In(r, unicode.Cf, unicode.Cc, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector) ||
		r == 0x34f || !unicode.In(r, unicode.L, unicode.M, unicode.N, unicode.P, unicode.S, unicode.Z))
}

// fold returns the same string for names that are the same on some file system.
func fold(name string) string {
	ascii := true
	for i := range len(name) {
		ascii = ascii && name[i] < utf8.RuneSelf
	}
	if ascii {
		return strings.ToLower(name)
	}
	name = strings.Map(func(r rune) rune {
		if ignorable(r) && r != utf8.RuneError {
			return -1
		}
		return r
	}, norm.NFD.String(name))
	return norm.NFD.String(cases.Fold().String(name))
}

// Key returns the same string for paths that may be the same on this mirror's file
// system: the path itself unless names are portable.
func (p *Mapping) Key(path string) string {
	if !p.portable {
		return path
	}
	return fold(path)
}
