package xmlscan

// An Interner stores the few texts that nearly every record repeats, so that
// they are allocated once. The zero value is ready to use.
type Interner struct {
	last  string
	texts map[string]string
}

// Get returns b as a string.
func (in *Interner) Get(b []byte) string {
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
