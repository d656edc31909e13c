package resourcesync

// textOf reads the text of the element whose start tag was just read, up to its
// end, without surrounding white space. The result is valid until the next
// call.
func (r *Reader) textOf() ([]byte, error) {
	text, raw, err := r.s.Text()
	r.blanks = len(raw) - len(text)
	return text, err
}
