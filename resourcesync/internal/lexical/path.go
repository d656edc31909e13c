package lexical

import "strings"

// Path reports whether s is a valid path of a file in a package: it begins with
// a slash and no segment is empty or leads elsewhere (RS-PATH-01, RS-ZIP-03).
func Path(s string) bool {
	return strings.HasPrefix(s, "/") && ClosedPath(s)
}

// ClosedPath is Path without the leading slash.
func ClosedPath(s string) bool {
	if strings.IndexByte(s, 0) >= 0 {
		return false
	}
	for seg := range strings.SplitSeq(strings.TrimPrefix(s, "/"), "/") {
		if seg == "" || seg == "." || seg == ".." {
			return false
		}
	}
	return true
}
