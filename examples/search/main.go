// Command search keeps a full-text index of a ResourceSync Source, and answers
// questions from it. It keeps no copies of the resources: each is indexed as it
// comes, and the next update brings what changed.
//
//	go run ./examples/search update https://example.org/ index
//	go run ./examples/search find index 'open access'
//
// It shows how a program uses a Destination: a Sink that takes resources in
// batches, and a Journal that remembers what the Sink has.
package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"

	_ "modernc.org/sqlite"

	"lockstep/destination"
	"lockstep/destination/lock"
	"lockstep/resourcesync"
	"lockstep/storage/sqlite"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

var errUsage = errors.New("usage: search update SOURCE DIR | search find DIR WORDS")

func run(ctx context.Context, args []string, out io.Writer) error {
	switch {
	case len(args) == 3 && args[0] == "update":
		return update(ctx, args[1], args[2], out)
	case len(args) == 3 && args[0] == "find":
		return find(ctx, args[1], args[2], out)
	}
	return errUsage
}

// update brings the index in dir into step with a Source.
func update(ctx context.Context, source, dir string, out io.Writer) (err error) {
	held, err := lock.Acquire(dir) // one update at a time; makes dir
	if err != nil {
		return err
	}
	defer held.Close()
	db, err := sqlite.Open(filepath.Join(dir, filepath.FromSlash(destination.StateFile)))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	idx, err := openIndex(ctx, dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, idx.db.Close()) }()
	client, err := destination.NewClient(source, destination.ClientOptions{})
	if err != nil {
		return err
	}
	defer client.Close()

	store := destination.NewSinkStore(idx, destination.SinkOptions{Dir: dir})
	d, err := destination.New(store, db.Journal(), client, destination.Options{Dest: dir})
	if err != nil {
		return err
	}
	report, err := d.Sync(ctx, source)
	fmt.Fprintf(out, "%d created, %d updated, %d deleted, %d failed\n", report.Created, report.Updated, report.Deleted, report.Failed)
	return err
}

// An index is a Sink.
type index struct{ db *sql.DB }

func openIndex(ctx context.Context, dir string) (*index, error) {
	db, err := sql.Open("sqlite", filepath.Join(dir, "index.db"))
	if err != nil {
		return nil, err
	}
	if _, err := db.ExecContext(ctx, `create virtual table if not exists records using fts5(uri unindexed, text)`); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return &index{db}, nil
}

// maxText bounds what is indexed of one resource.
const maxText = 1 << 20

// Apply takes a batch, all or nothing. A change may come twice, so it puts what
// it has in the place of what was there.
func (x *index) Apply(ctx context.Context, batch []destination.Delivery) error {
	tx, err := x.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() // does nothing after Commit
	for i := range batch {
		d := &batch[i]
		if _, err := tx.ExecContext(ctx, `delete from records where uri = ?`, d.URI); err != nil {
			return err
		}
		if d.Kind == resourcesync.Deleted {
			continue
		}
		text, err := io.ReadAll(io.LimitReader(d.Open(), maxText))
		if err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, `insert into records (uri, text) values (?, ?)`, d.URI, string(text)); err != nil {
			return err
		}
	}
	return tx.Commit()
}

// find prints the records that have the words, the best first.
func find(ctx context.Context, dir, words string, out io.Writer) (err error) {
	idx, err := openIndex(ctx, dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, idx.db.Close()) }()
	rows, err := idx.db.QueryContext(ctx,
		`select uri, snippet(records, 1, '[', ']', '…', 8) from records where records match ? order by rank limit 10`, words)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var uri, text string
		if err := rows.Scan(&uri, &text); err != nil {
			return err
		}
		fmt.Fprintf(out, "%s: %s\n", uri, text)
	}
	return rows.Err()
}
