package site

import "lockstep/cmd/lockstep/internal/admin"

// channelFigures are what monitors learn of the notifications of a Source.
func (s *Site) channelFigures(out *admin.Figures) {
	if s.src == nil {
		return // it is about to be made
	}
	for _, c := range s.src.Channels() {
		out.Gauge("lockstep_source_event_streams", "Streams of events that are open.", float64(c.Streams), "set", c.Set)
		for _, h := range c.Hubs {
			labels := []string{"set", c.Set, "hub", h.URL}
			out.Gauge("lockstep_source_hub_behind", "Published changes that the hub has not been notified of yet.", float64(h.Behind), labels...)
			out.Counter("lockstep_source_notifications_total", "Notifications a hub accepted.", float64(h.Accepted), labels...)
			out.Counter("lockstep_source_notifications_refused_total", "Notifications a hub refused for good: their changes are a gap.", float64(h.Refused), labels...)
			out.Counter("lockstep_source_notification_failures_total", "Attempts to notify a hub that are repeated.", float64(h.Failures), labels...)
		}
	}
}
