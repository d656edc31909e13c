package admin

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"lockstep/hub"
)

// A Dependency is what a process cannot do its work without.
type Dependency struct {
	Public string // all that readiness says of a failure to the public: its cause names files or hosts
	Check  func(context.Context) error
}

// Rarely returns a check that uses a result of check for some time: a bucket need not be
// asked for each of many monitors.
func Rarely(check func(context.Context) error) func(context.Context) error {
	var mu sync.Mutex // guards what follows
	var last time.Time
	var result error
	return func(ctx context.Context) error {
		mu.Lock()
		defer mu.Unlock()
		if now := time.Now(); last.IsZero() || now.Sub(last) >= rarely {
			result, last = check(ctx), now
		}
		return result
	}
}

// rarely is how long a result is used: shorter than monitors wait between two checks.
const rarely = 5 * time.Second

// Database is the dependency on a database.
func Database(check func(context.Context) error) Dependency {
	return Dependency{"the database does not work", check}
}

// A Readiness says whether a process can do its work. The cause of a failure is logged,
// once for each time it begins.
type Readiness struct {
	log          *slog.Logger
	dependencies []Dependency

	mu      sync.Mutex // guards failing; held while the dependencies are checked
	failing bool
}

// NewReadiness returns the readiness of a process with these dependencies.
func NewReadiness(log *slog.Logger, dependencies ...Dependency) *Readiness {
	return &Readiness{log: log, dependencies: dependencies}
}

// A notReadyError says to the public that a process is not ready.
type notReadyError struct {
	public string
	cause  error
}

func (e *notReadyError) Error() string { return e.public }

// WithCause returns the text of an error of [Readiness.Ready] for the operator, with its
// cause; "" for nil.
func WithCause(err error) string {
	if err == nil {
		return ""
	}
	if e, ok := errors.AsType[*notReadyError](err); ok {
		return e.public + ": " + e.cause.Error()
	}
	return err.Error()
}

// readinessLimit is how long all checks may take.
const readinessLimit = 5 * time.Second

// Ready returns nil, or why the process is not ready.
func (r *Readiness) Ready() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), readinessLimit)
	defer cancel()
	for _, d := range r.dependencies {
		err := d.Check(ctx)
		switch {
		case errors.Is(err, hub.ErrNotReady):
			return err
		case err != nil && !r.failing:
			r.failing = true
			r.log.Error("not ready", slog.String("err", err.Error()))
		}
		if err != nil {
			return &notReadyError{d.Public, err}
		}
	}
	if r.failing {
		r.failing = false
		r.log.Warn("ready again")
	}
	return nil
}
