package source

// IsPublishing reports whether documents are being switched: another publication would
// wait.
func IsPublishing(s *Source) bool {
	if s.publishing.TryLock() {
		s.publishing.Unlock()
		return false
	}
	return true
}
