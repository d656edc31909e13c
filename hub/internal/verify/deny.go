package verify

import (
	"context"
	"errors"
	"log/slog"
	"net/url"
	"time"

	"lockstep/hub/hubstore"
	"lockstep/hub/internal/call"
	"lockstep/websub"
)

// maxDenials caps the denials waiting to be sent.
const maxDenials = 10_000

// Deny notifies a subscriber that its subscription or its request is denied
// (WS-V-02). It does not wait, and the answer is ignored (WS-V-04).
func (v *Verifier) Deny(s hubstore.Subscription, reason string) {
	target, err := url.Parse(s.Callback)
	if err != nil {
		return // nothing there was ever verified
	}
	if v.denials.Add(1) > maxDenials {
		v.denials.Add(-1)
		return
	}
	added := url.Values{"hub.mode": {websub.ModeDenied}, "hub.topic": {s.Topic}}
	if reason != "" {
		added.Set("hub.reason", reason)
	}
	address := websub.VerificationURL(s.Callback, added)
	v.calls.Add(target, call.Known, time.Time{}, func(ctx context.Context) {
		var status *statusError
		if _, err := v.caller.get(ctx, address, 0); err == nil || errors.As(err, &status) || ctx.Err() != nil {
			v.denied(s)
			return
		}
		v.calls.Add(target, call.Known, v.o.Clock().Add(v.o.RetryFirst), func(ctx context.Context) {
			_, _ = v.caller.get(ctx, address, 0) // one retry, and no more
			v.denied(s)
		})
	})
}

func (v *Verifier) denied(s hubstore.Subscription) {
	v.denials.Add(-1)
	v.report.write(slog.LevelInfo, "denied", s.Topic, s.Callback)
}
