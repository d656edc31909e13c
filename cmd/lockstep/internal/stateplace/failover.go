package stateplace

import (
	"context"
	"errors"

	"lockstep/destination/journal"
	"lockstep/internal/statebackup"
	"lockstep/storage/postgres"
)

// docTimeline is the document of a Journal that names the timeline of the server of its last owner.
const docTimeline = "timeline"

// own takes a database for this process. If a standby has become its server since the last owner began, it may
// lack what that has done to mirrors: then they compare everything.
func own(ctx context.Context, db *postgres.DB, o postgres.OwnOptions) (*postgres.Owner, error) {
	owner, err := db.Own(ctx, o)
	if err != nil {
		return nil, err
	}
	if err := compareTimelines(ctx, db, owner.Timeline()); err != nil {
		return nil, errors.Join(err, owner.Close())
	}
	return owner, nil
}

func compareTimelines(ctx context.Context, db *postgres.DB, present string) error {
	j := db.Journal()
	last, err := j.Load(ctx, docTimeline)
	if err != nil || present == "" || string(last) == present {
		return err
	}
	if last != nil {
		if err := statebackup.MarkMirrors(ctx, j); err != nil {
			return err
		}
	}
	return j.Record(ctx, journal.Batch{Save: map[string][]byte{docTimeline: []byte(present)}})
}
