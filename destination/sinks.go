package destination

import (
	"lockstep/destination/internal/apply"
	"lockstep/destination/sink"
)

// Programs that receive resources in place of files. Package sink declares these names.
type (
	Sink        = sink.Sink
	Describer   = sink.Describer
	Delivery    = sink.Delivery
	SinkStore   = sink.Store
	SinkOptions = sink.Options
)

// DefaultSinkMemory has space for many small records, or a large one.
const DefaultSinkMemory = sink.DefaultMemory

// NewSinkStore returns a store for [New] that delivers to s.
func NewSinkStore(s Sink, o SinkOptions) *SinkStore { return sink.NewStore(s, o) }

// isForgetful reports whether the store keeps nothing.
func (d *Destination) isForgetful() bool { return apply.IsForgetful(d.store) }
