// Package mirrordir opens a mirror in a directory: its files, its state and its
// lock. Commands and package mirror open mirrors alike, so that each continues
// what the other has begun.
package mirrordir

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"lockstep/blob"
	"lockstep/bridge"
	"lockstep/destination"
	"lockstep/destination/filename"
	"lockstep/destination/journal"
	"lockstep/destination/lock"
	"lockstep/internal/fetch/shown"
	"lockstep/internal/lastrun"
	"lockstep/internal/note"
	"lockstep/storage/sqlite"
)

// Versions is the directory of a mirror with the versions that it keeps.
const Versions = filename.StateDir + "/versions"

// A Dir is an open mirror.
type Dir struct {
	Files    *blob.Dir
	Journal  journal.Journal
	Versions blob.Store
	Portable bool // the file system folds case or refuses characters
	closers  []interface{ Close() error }
}

// Check returns an error if there cannot be a mirror in the directory dest.
func Check(dest string) error {
	switch info, err := os.Stat(dest); {
	case err == nil && !info.IsDir():
		return fmt.Errorf("%s is not a directory", dest)
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("open the mirror: %w", err)
	}
	return nil
}

// Exists reports whether the directory dest contains a mirror.
func Exists(dest string) bool {
	_, err := os.Stat(filepath.Join(dest, filepath.FromSlash(destination.StateFile)))
	return !errors.Is(err, fs.ErrNotExist)
}

// Open locks the mirror in the directory dest and opens it. It creates what does
// not exist. If another process has locked it the error is a [lock.InUseError].
func Open(dest string) (*Dir, error) { return OpenWith(dest, sqlite.Options{}) }

// OpenWith is [Open] with options for the database of the mirror.
func OpenWith(dest string, o sqlite.Options) (_ *Dir, err error) {
	d := &Dir{}
	defer func() {
		if err != nil {
			err = errors.Join(err, d.Close())
		}
	}()
	held, err := lock.Acquire(dest)
	if err != nil {
		return nil, err
	}
	d.closers = append(d.closers, held)
	if d.Portable, err = filename.ProbePortable(State(dest)); err != nil {
		return nil, err
	}
	if d.Files, err = blob.NewDir(dest, blob.DirOptions{}); err != nil {
		return nil, fmt.Errorf("open the mirror: %w", err)
	}
	d.closers = append(d.closers, d.Files)
	versions, err := blob.NewDir(filepath.Join(dest, filepath.FromSlash(Versions)), blob.DirOptions{Tmp: "tmp", Private: true})
	if err != nil {
		return nil, fmt.Errorf("open the mirror: %w", err)
	}
	d.Versions = versions
	d.closers = append(d.closers, versions)
	db, err := o.Open(filepath.Join(dest, filepath.FromSlash(destination.StateFile)))
	if err != nil {
		return nil, err
	}
	d.Journal = db.Journal()
	d.closers = append(d.closers, db)
	return d, nil
}

// Close closes the mirror and releases its lock.
func (d *Dir) Close() error {
	var err error
	for i := len(d.closers) - 1; i >= 0; i-- {
		err = errors.Join(err, d.closers[i].Close())
	}
	d.closers = nil
	return err
}

// Harvest lets a Destination with the options do mirror feeds and repositories.
// What it has harvested is remembered in the mirror whose state is below dir; if
// dir is empty it is forgotten at the end of the run.
func Harvest(do *destination.Options, dir string, client *destination.Client) {
	o := bridge.Options{AllowHosts: do.AllowHosts, Logger: do.Logger}
	if dir != "" {
		o.Dir = State(dir)
	}
	do.Bridge = bridge.New(client, o).Open
}

// HTTPSHost is the name of the note that contains the host that receives credentials over https although the
// Source was given with http.
const HTTPSHost = "https-host"

// HTTPSNote returns the note for [RememberHTTPS] of a mirror whose state is below dir.
func HTTPSNote(dir string) note.Note { return note.File(filepath.Join(State(dir), HTTPSHost)) }

// RunNote returns the note for [RecordRun] of a mirror whose state is below dir.
func RunNote(dir string) note.Note { return note.File(filepath.Join(State(dir), lastrun.Name)) }

// RememberHTTPS lets the client use https if an earlier run was redirected to it,
// so that no further request with credentials is sent over http. If in is nil
// nothing is remembered.
func RememberHTTPS(client *destination.Client, in note.Note, log *slog.Logger) error {
	if in == nil {
		return nil
	}
	text, err := in.Read()
	if err != nil {
		return fmt.Errorf("read the https address of the Source: %w", err)
	}
	client.UseHTTPS(strings.TrimSpace(string(text)), func(host string) {
		if err := in.Write([]byte(host + "\n")); err != nil && log != nil {
			log.Warn("keep the https address of the Source", slog.String("err", err.Error()))
		}
	})
	return nil
}

// RecordRun records in a note of a mirror how a run of a command ended that
// began at a time. hint says what to do about err.
func RecordRun(in note.Note, command string, began time.Time, r *destination.Report, err error, hint string, interrupted bool) error {
	run := lastrun.Run{
		Source: r.Source, Command: command, Began: began.UTC(), Ended: time.Now().UTC(), Result: lastrun.InStep, NotBefore: r.NotBefore,
		SyncedUntil: r.SyncedUntil, At: r.At,
		Created: r.Created, Updated: r.Updated, Deleted: r.Deleted, Unchanged: r.Unchanged, Failed: r.Failed, Refused: r.Refused, Bytes: r.Bytes, Requests: r.Requests,
	}
	for i := range r.BySet {
		run.Sets = append(run.Sets, lastrun.Set{URI: r.BySet[i].URI, Error: shown.WithoutSecrets(r.BySet[i].Error)})
	}
	run.Unproven = UnprovenOf(r.Unproven)
	if err != nil {
		run.Result, run.Error, run.Hint = ResultOf(err), shown.WithoutSecrets(err.Error()), hint
	}
	if interrupted {
		run.Result = lastrun.Interrupted
	}
	return lastrun.Record(in, run)
}

// UnprovenOf returns for the record of a run why a mirror is not known to be complete, besides failures.
func UnprovenOf(all []destination.Unproven) (reasons []lastrun.Unproven) {
	for i := range all {
		if u := &all[i]; !u.IsFailure() {
			reasons = append(reasons, lastrun.Unproven{Set: u.Set, Reason: shown.WithoutSecrets(u.String())})
		}
	}
	return reasons
}

// ResultOf returns the result of a run that ended with err.
func ResultOf(err error) lastrun.Result {
	switch {
	case err == nil:
		return lastrun.InStep
	case errors.Is(err, destination.ErrRefused):
		return lastrun.Refused
	case errors.Is(err, destination.ErrIncomplete):
		return lastrun.Incomplete
	}
	return lastrun.Failed
}

// State returns the directory with the state of the mirror in the directory dest.
func State(dest string) string {
	return filepath.Dir(filepath.Join(dest, filepath.FromSlash(destination.StateFile)))
}
