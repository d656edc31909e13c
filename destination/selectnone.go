package destination

// nothingSelected returns a [SelectionError] if the sets list resources, and the
// selection matches none of them. A set that was not compared in this run counts
// as it was when it was.
func (s *session) nothingSelected(sets []*setState) error {
	if s.past != nil || !s.d.selects.Restricts() {
		return nil
	}
	var listed int64
	for _, set := range sets {
		if set.Unselected {
			continue
		}
		if set.Matched > 0 || !set.Planned && s.counts[set.Number] > 0 {
			return nil
		}
		listed += set.Listed
	}
	if listed == 0 {
		return nil
	}
	return &SelectionError{Listed: listed}
}
