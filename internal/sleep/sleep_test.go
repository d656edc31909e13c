package sleep_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"lockstep/internal/sleep"
)

func TestFor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		if err := sleep.For(t.Context(), time.Hour); err != nil || time.Since(began) != time.Hour {
			t.Errorf("%v after %s, want nil after an hour", err, time.Since(began))
		}
		stop := errors.New("stop")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Minute, func() { cancel(stop) })
		began = time.Now()
		for _, want := range []time.Duration{time.Minute, time.Minute} { // the second time at once
			if err := sleep.For(ctx, time.Hour); !errors.Is(err, stop) || time.Since(began) != want {
				t.Errorf("%v after %s, want the cause after %s", err, time.Since(began), want)
			}
		}
		if err := sleep.For(ctx, 0); !errors.Is(err, stop) {
			t.Errorf("%v, want the cause", err)
		}
	})
}
