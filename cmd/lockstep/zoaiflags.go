package main

// settleOAI has every set offered to harvesters that does not say whether, if
// that is wanted.
func (o *serveOptions) settleOAI() {
	for i := range o.sets {
		if c := &o.sets[i]; o.All && c.OAIPMH == nil {
			c.OAIPMH = new(true)
		}
	}
}
