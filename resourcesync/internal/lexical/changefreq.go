package lexical

// ChangeFreq reports whether s is one of the words of RS-XML-14.
func ChangeFreq[T string | []byte](s T) bool {
	switch string(s) {
	case "always", "hourly", "daily", "weekly", "monthly", "yearly", "never":
		return true
	}
	return false
}
