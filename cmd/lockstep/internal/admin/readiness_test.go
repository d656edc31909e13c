package admin_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"lockstep/cmd/lockstep/internal/admin"
	"lockstep/hub"
)

// TestReadiness: the public learns what fails and not why; the log has the cause, once.
func TestReadiness(t *testing.T) {
	t.Parallel()
	var database, documents error
	var log bytes.Buffer
	r := admin.NewReadiness(slog.New(slog.NewTextHandler(&log, nil)),
		admin.Database(func(context.Context) error { return database }),
		admin.Dependency{Public: "the documents cannot be read", Check: func(context.Context) error { return documents }})
	want := func(text string) {
		t.Helper()
		err := r.Ready()
		if got := fmt.Sprint(err); got != text {
			t.Errorf("Ready() = %s, want %s", got, text)
		}
		for _, cause := range []error{database, documents} {
			if cause != nil && !strings.HasSuffix(admin.WithCause(err), cause.Error()) {
				t.Errorf("%q is without the cause", admin.WithCause(err))
			}
			if cause != nil {
				break
			}
		}
		if err == nil && admin.WithCause(err) != "" {
			t.Errorf("%q is the cause of nothing", admin.WithCause(err))
		}
	}
	want("<nil>")
	documents = errors.New("get s3://secret/: connection refused")
	want("the documents cannot be read")
	want("the documents cannot be read")
	database = errors.New("open /srv/secret: disk I/O error")
	want("the database does not work")
	database, documents = nil, nil
	want("<nil>")
	if text := log.String(); strings.Count(text, "\n") != 2 || !strings.Contains(text, "connection refused") || !strings.Contains(text, "ready again") {
		t.Errorf("logged %q", text)
	}
	database = fmt.Errorf("the hub is loading: %w", hub.ErrNotReady)
	want(database.Error())
}

func TestRarely(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := 0
		check := admin.Rarely(func(context.Context) error {
			n++
			return nil
		})
		for range 10 {
			_ = check(t.Context())
			time.Sleep(time.Second)
		}
		if n != 2 {
			t.Errorf("checked %d times in ten seconds, want 2", n)
		}
	})
}
