package postgres

import (
	"context"
	"database/sql"
	"testing"
	"time"

	"lockstep/hub/hubstore"
	"lockstep/storage/postgres/postgrestest"
)

// TestHubPausedWithinTransaction: a hub that is paused within a transaction delays the others for a short time only, and
// repeats the transaction when it goes on.
func TestHubPausedWithinTransaction(t *testing.T) {
	t.Parallel()
	url := postgrestest.URL(t)
	var hubs [2]*Hub
	for i := range hubs {
		db, err := Open(t.Context(), url)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = db.Close() })
		hubs[i] = db.Hub()
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*hubPause)
	defer cancel()
	paused, resume, ended := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	times := 0
	go func() {
		ended <- hubs[0].db.Update(ctx, func(tx *sql.Tx) error {
			if _, err := tx.ExecContext(ctx, `UPDATE hub_mark SET mark = mark + 1 WHERE id = 1`); err != nil {
				return err
			}
			if times++; times == 1 {
				close(paused)
				<-resume
			}
			_, err := tx.ExecContext(ctx, `UPDATE hub_mark SET mark = mark + 1 WHERE id = 1`)
			return err
		})
	}()
	<-paused
	began := time.Now()
	_, err := hubs[1].Append(ctx, []hubstore.Message{{Topic: "https://example.org/t", ID: "1", At: time.Now(), Body: []byte("x")}})
	if err != nil {
		t.Errorf("another hub could not write for %v: %v", time.Since(began), err)
	}
	close(resume)
	if err := <-ended; err != nil || times != 2 {
		t.Errorf("the hub that was paused wrote %d times: %v", times, err)
	}
}
