package api

// Queued returns how many requests wait for the one that is carried out.
func (s *Set) Queued() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.queue)
}
