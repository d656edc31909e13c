package destination

// emit hands an event to the callback.
func (d *Destination) emit(e Event) {
	if d.opts.OnEvent == nil {
		return
	}
	d.eventMu.Lock()
	defer d.eventMu.Unlock()
	d.opts.OnEvent(e)
}
