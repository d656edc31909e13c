package resourcesync

// textOf reads the text of the element whose start tag is at hand, up to its
// end, without white space around it. What it returns is good until the next
// one.
func (r *Reader) textOf() ([]byte, error) {
	text, raw, err := r.s.Text()
	r.blanks = len(raw) - len(text)
	return text, err
}
