package following

import (
	"cmp"
	"errors"
	"log/slog"
	"time"

	"lockstep/cmd/lockstep/internal/report"
	"lockstep/cmd/lockstep/internal/sharing"
	"lockstep/cmd/lockstep/internal/term"
	"lockstep/destination"
	"lockstep/destination/lock"
	"lockstep/internal/fetch"
	"lockstep/internal/lastrun"
	"lockstep/internal/mirrordir"
)

// recordEvery is the shortest interval between two records of the state of the mirror: they
// are for the time after a process that was killed.
const recordEvery = time.Minute

// A record is the last one of the state of the mirror.
type record struct {
	at    time.Time
	error string
}

// recordState records the state of the mirror beside it, unless that was done a short time ago
// and nothing but the time has changed.
func recordState(f *Run, status *destination.FollowStatus, now time.Time) {
	run, known := lastRunOf(status)
	f.mu.Lock()
	recent := now.Sub(f.recorded.at) < recordEvery && f.recorded.error == run.Error
	f.mu.Unlock()
	if known && !recent {
		recordRun(f, run, status, now)
	}
}

// recordEnd records the state of the mirror when following has ended with err.
func recordEnd(f *Run, status *destination.FollowStatus, err error) {
	if sharing.IsLost(err) {
		return // another process works on the mirror, and records its state
	}
	run, known := lastRunOf(status)
	f.mu.Lock()
	last, closed := f.last, f.closed
	f.mu.Unlock()
	if _, inUse := errors.AsType[*lock.InUseError](last); inUse && closed {
		return // likewise
	}
	switch ended := errors.Is(err, term.ErrInterrupted); {
	case run.Error != "":
	case closed: // the Follower gave up, and was to be started again
		run.Result, run.Error = mirrordir.ResultOf(last), report.ErrorText(last)
	case err != nil && !ended:
		run.Result, run.Error, run.Hint = mirrordir.ResultOf(err), report.ErrorText(err), term.HintOf(err)
	case !known:
		run.Result = lastrun.Interrupted
	}
	recordRun(f, run, status, time.Now())
}

// recordRun records a run, with its totals and its sets.
func recordRun(f *Run, run lastrun.Run, status *destination.FollowStatus, now time.Time) {
	if f.lastRun == nil {
		return
	}
	for i := range status.Sets {
		set := &status.Sets[i]
		if text := errorOf(set); text != "" || !set.InStep.IsZero() {
			run.Sets = append(run.Sets, lastrun.Set{URI: set.URI, Error: text})
		}
	}
	run.Unproven = mirrordir.UnprovenOf(unprovenOf(status))
	f.mu.Lock()
	f.recorded = record{now, run.Error}
	sum := &f.tally.Report
	run.Source, run.Command, run.Began, run.Ended = fetch.WithoutUser(f.o.Source), "follow", f.started.UTC(), now.UTC()
	run.Created, run.Updated, run.Deleted, run.Failed, run.Refused = sum.Created, sum.Updated, sum.Deleted, sum.Failed, sum.Refused
	if run.Requests, run.Bytes = f.link.traffic().requests, f.link.traffic().bytes; run.Error != "" {
		if run.Hint = cmp.Or(run.Hint, f.hint); run.Result != lastrun.Refused {
			run.Result = mirrordir.ResultOf(cmp.Or(f.last, ErrFirstSync))
		}
	}
	f.mu.Unlock()
	if err := lastrun.Record(f.lastRun, run); err != nil {
		f.o.Out.Logger(f.io).Warn("the state of the mirror is not recorded", slog.Any("err", err))
	}
}

// lastRunOf returns what the status of a Follower says of the mirror; known is false as long as
// a set has neither been in step nor failed.
func lastRunOf(s *destination.FollowStatus) (run lastrun.Run, known bool) {
	run.Result, run.SyncedUntil = lastrun.InStep, syncedUntil(s)
	run.Error, run.Hint, run.FailingSince, run.Attempts = s.Error, s.Hint, s.FailingSince, s.Attempts
	if run.Error != "" {
		run.Result = lastrun.Failed
	}
	for i := range s.Sets {
		set := &s.Sets[i]
		if i == 0 || set.InStep.Before(run.LastSuccess) {
			run.LastSuccess = set.InStep
		}
		if text := errorOf(set); text != "" && run.Error == "" {
			run.Error, run.Hint, run.FailingSince, run.Attempts = text, set.Hint, set.FailingSince, set.Attempts
			if run.Result = lastrun.Failed; set.Refused != "" {
				run.Result = lastrun.Refused
			}
		}
	}
	return run, run.Error != "" || !run.LastSuccess.IsZero()
}

// errorOf returns why a set is not in step; empty: it is, or has not been looked at.
func errorOf(set *destination.SetStatus) string { return cmp.Or(set.Refused, set.Error) }
