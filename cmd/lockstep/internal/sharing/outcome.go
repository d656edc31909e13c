package sharing

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"lockstep/cmd/lockstep/internal/mirror"
	"lockstep/cmd/lockstep/internal/term"
	"lockstep/destination"
	"lockstep/destination/journal"
)

// document is the name of the document of the Journal with the outcome of the last run.
const document = "shared-run"

// recordTime is how long the database may take to record an outcome: its connection may have broken unnoticed.
const recordTime = time.Minute

// An outcome is the result of a run, as its coordinator records it for the others.
type outcome struct {
	Run    int64              `json:"run"` // token of the coordinator
	Report destination.Report `json:"report"`
	Error  string             `json:"error,omitempty"`
	Hint   string             `json:"hint,omitempty"`
	Kind   string             `json:"kind,omitempty"` // of the error, which decides on the exit code
}

// Kinds of errors.
const (
	kindIncomplete = "incomplete"
	kindRefused    = "refused"
	kindUsage      = "usage"
)

// record records the result of a run for the other processes.
func record(t *mirror.Turn, j journal.Journal, r *destination.Report, err error) error {
	o := outcome{Run: t.Token, Report: *r}
	if err != nil {
		o.Error, o.Hint = err.Error(), term.HintOf(err)
		_, usage := errors.AsType[term.UsageError](err)
		switch {
		case errors.Is(err, destination.ErrIncomplete):
			o.Kind = kindIncomplete
		case errors.Is(err, destination.ErrRefused):
			o.Kind = kindRefused
		case usage:
			o.Kind = kindUsage
		}
	}
	text, err := json.Marshal(o)
	if err != nil {
		return fmt.Errorf("record the result for the other processes: %w", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), recordTime)
	defer cancel()
	return j.Record(ctx, journal.Batch{Save: map[string][]byte{document: text}})
}

// read returns the result of the last run; nil: there is none.
func read(ctx context.Context, j journal.Journal) (*outcome, error) {
	text, err := j.Load(ctx, document)
	if err != nil || text == nil {
		return nil, err
	}
	var o outcome
	if err := json.Unmarshal(text, &o); err != nil {
		return nil, fmt.Errorf("read the result of another process: %w", err)
	}
	return &o, nil
}

// A remoteError is the error of a run in another process.
type remoteError struct {
	text string
	is   error // may be nil
}

func (e *remoteError) Error() string { return e.text }
func (e *remoteError) Unwrap() error { return e.is }

// err returns the error of the run.
func (o *outcome) err() error {
	if o.Error == "" {
		return nil
	}
	e := &remoteError{text: o.Error}
	switch o.Kind {
	case kindIncomplete:
		e.is = destination.ErrIncomplete
	case kindRefused:
		e.is = destination.ErrRefused
	case kindUsage:
		return term.Usage(e, o.Hint)
	}
	if o.Hint != "" {
		return term.WithHint(e, o.Hint)
	}
	return e
}
