package resourcesync

// An interner keeps the few texts that nearly every entry repeats, so that they
// are allocated once.
type interner struct {
	last  string
	texts map[string]string
}

// get returns b as a string.
func (in *interner) get(b []byte) string {
	const maxTexts, maxLength = 256, 128
	if string(b) == in.last {
		return in.last
	}
	s, ok := in.texts[string(b)]
	if !ok {
		s = string(b)
		if in.texts == nil {
			in.texts = make(map[string]string)
		}
		if len(in.texts) < maxTexts && len(b) <= maxLength {
			in.texts[s] = s
		}
	}
	in.last = s
	return s
}

// textOf reads the text of the element whose start tag is at hand, up to its
// end, without white space around it. What it returns is good until the next
// one.
func (r *Reader) textOf() ([]byte, error) {
	text, raw, err := r.s.Text()
	r.blanks = len(raw) - len(text)
	return text, err
}
