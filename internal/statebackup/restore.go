package statebackup

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"lockstep/destination"
	"lockstep/destination/filename"
	"lockstep/destination/journal/part"
	"lockstep/internal/private"
	"lockstep/internal/statedir"
	"lockstep/storage"
	"lockstep/storage/sqlite"
)

// Errors of [Restore].
var (
	ErrFormat   = errors.New("this is not a backup of lockstep, or a part of it is missing")
	ErrOccupied = errors.New("it is not empty")
	ErrDamaged  = errors.New("the state in the backup is damaged")
)

// Restore restores a state from the file of a backup to a directory that does not exist or is
// empty, to the directory of a mirror that has no state, or to an empty PostgreSQL database. The
// databases are brought up to date and checked first. A directory is complete or not there at all. A PostgreSQL database
// is refused by all processes until it is complete; if Restore was interrupted, it continues. A Source that
// is restored restarts the history of its changes, so that Destinations compare everything. A mirror
// that is restored compares everything with its next run.
func Restore(ctx context.Context, file, place string, now time.Time) (r Result, err error) {
	about, err := ReadAbout(file)
	if err != nil {
		return r, err
	}
	r = Result{About: about, File: file}
	if storage.IsURL(place) || about.Kind == Database {
		return r, r.restoreDatabase(ctx, place, now)
	}
	target, err := r.target(place)
	if err != nil {
		return r, err
	}
	if err := private.MakeDirs(filepath.Dir(target)); err != nil {
		return r, fmt.Errorf("restore %s: %w", place, err)
	}
	temp, err := os.MkdirTemp(filepath.Dir(target), filepath.Base(target)+".restore-")
	if err != nil {
		return r, fmt.Errorf("restore %s: %w", place, err)
	}
	defer func() { _ = os.RemoveAll(temp) }() // renamed by then, or of no use
	if err = r.extract(ctx, temp); err == nil {
		err = r.finish(ctx, temp, target, now)
	}
	if err != nil {
		return r, fmt.Errorf("restore %s: %w", place, err)
	}
	return r, nil
}

// target returns the directory that is to be made.
func (r *Result) target(place string) (string, error) {
	target := filepath.Clean(place)
	if real, err := filepath.EvalSymlinks(target); err == nil {
		target = real // systemd, for instance, has links in /var/lib
	}
	if r.Kind == Mirror {
		target = filepath.Join(target, filename.StateDir)
	}
	entries, err := os.ReadDir(target)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return "", fmt.Errorf("restore %s: %w", place, err)
	case len(entries) > 0:
		return "", fmt.Errorf("restore to %s: %w", target, ErrOccupied)
	}
	return target, nil
}

// ReadAbout returns what a backup is.
func ReadAbout(file string) (About, error) {
	var about About
	err := read(file, func(h *tar.Header, content io.Reader) error {
		if h.Name != aboutName {
			return ErrFormat
		}
		text, err := io.ReadAll(io.LimitReader(content, 1<<20))
		if err != nil {
			return err
		}
		if json.Unmarshal(text, &about) != nil || about.Format == 0 {
			return ErrFormat
		}
		if about.Format > format {
			return fmt.Errorf("a later version of lockstep has written it (format %d)", about.Format)
		}
		return errEnough
	})
	if err != nil && !errors.Is(err, errEnough) {
		return about, err
	}
	if about.Format == 0 {
		return about, fmt.Errorf("read the backup %s: %w", file, ErrFormat)
	}
	return about, nil
}

// errEnough ends a reading.
var errEnough = errors.New("enough was read")

// read calls member for each member of an archive.
func read(file string, member func(h *tar.Header, content io.Reader) error) error {
	f, err := os.Open(file)
	if err != nil {
		return fmt.Errorf("read the backup: %w", err)
	}
	defer func() { _ = f.Close() }() // it was only read
	wrap := func(err error) error {
		if errors.Is(err, gzip.ErrHeader) || errors.Is(err, gzip.ErrChecksum) || errors.Is(err, tar.ErrHeader) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
			err = ErrFormat
		}
		return fmt.Errorf("read the backup %s: %w", file, err)
	}
	z, err := gzip.NewReader(f)
	if err != nil {
		return wrap(err)
	}
	t := tar.NewReader(z)
	for {
		h, err := t.Next()
		if errors.Is(err, io.EOF) {
			// The checksum is behind the end of the archive.
			if _, err := io.Copy(io.Discard, z); err != nil {
				return wrap(err)
			}
			return nil
		}
		if err == nil {
			err = member(h, t)
		}
		if errors.Is(err, errEnough) {
			return err
		}
		if err != nil {
			return wrap(err)
		}
	}
}

// extract writes the members below dir. A file that occurs again replaces the earlier one.
func (r *Result) extract(ctx context.Context, dir string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }() // it holds a descriptor only
	files := map[string]bool{}
	err = read(r.File, func(h *tar.Header, content io.Reader) error {
		if err := ctx.Err(); err != nil || h.Name == aboutName {
			return err
		}
		name := strings.TrimSuffix(h.Name, "/")
		if r.Kind == Mirror && name == filename.StateDir {
			name = "."
		} else if r.Kind == Mirror {
			var ok bool
			if name, ok = strings.CutPrefix(name, filename.StateDir+"/"); !ok {
				return ErrFormat
			}
		}
		if name == "." {
			r.owner = ownerOf(h)
			return nil
		}
		if !fs.ValidPath(name) {
			return ErrFormat
		}
		if h.Typeflag == tar.TypeDir {
			return root.MkdirAll(filepath.FromSlash(name), private.DirMode)
		}
		if h.Typeflag != tar.TypeReg {
			return ErrFormat
		}
		if isDatabase(name) {
			r.Databases++
		} else if !files[name] {
			files[name] = true
			r.Files++
		}
		r.Bytes += h.Size
		return writeMember(root, name, h, content)
	})
	if err == nil && r.Databases == 0 {
		err = ErrFormat
	}
	return err
}

// writeMember writes a member durably. Its mode is at most that of a file of its owner, and of
// what the archive says.
func writeMember(root *os.Root, name string, h *tar.Header, content io.Reader) error {
	if dir := path.Dir(name); dir != "." {
		if err := root.MkdirAll(filepath.FromSlash(dir), private.DirMode); err != nil {
			return err
		}
	}
	f, err := root.OpenFile(filepath.FromSlash(name), os.O_WRONLY|os.O_CREATE|os.O_TRUNC, fs.FileMode(h.Mode).Perm()&0o666)
	if err != nil {
		return err
	}
	if _, err = io.Copy(f, content); err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	return root.Chtimes(filepath.FromSlash(name), h.ModTime, h.ModTime)
}

// finish checks what was extracted to temp, and makes it the target.
func (r *Result) finish(ctx context.Context, temp, target string, now time.Time) error {
	state := &Place{Dir: temp}
	err := state.walk(func(rel string, d fs.DirEntry) error {
		if !isDatabase(rel) || d.IsDir() {
			return nil
		}
		return prepare(ctx, filepath.Join(temp, filepath.FromSlash(rel)), rel)
	})
	if err != nil {
		return err
	}
	if r.Kind == Directory {
		if err := statedir.MarkRestored(statedir.Files(temp), r.restored(now)); err != nil {
			return err
		}
	}
	if err := r.owner.give(temp); err != nil {
		return err
	}
	if err := syncDirs(temp); err != nil {
		return err
	}
	if err := os.Remove(target); err != nil && !errors.Is(err, fs.ErrNotExist) { // it is empty
		return err
	}
	if err := os.Rename(temp, target); err != nil {
		return err
	}
	return private.SyncDir(filepath.Dir(target))
}

// prepare brings the schema of a database up to date, records in the Journals of mirrors that they were restored, and
// refuses a database that is damaged.
func prepare(ctx context.Context, file, name string) error {
	to, err := sqlite.Options{Unfinished: true}.Open(file)
	if err != nil {
		return err
	}
	if err := errors.Join(MarkMirrors(ctx, to.Journal()), to.Close()); err != nil {
		return err
	}
	db, err := storage.OpenReader(ctx, file)
	if err != nil {
		return err
	}
	found, err := db.Check(ctx)
	if err = errors.Join(err, db.Close()); err == nil && len(found) > 0 {
		err = fmt.Errorf("%w: %s: %s", ErrDamaged, name, found[0].String())
	}
	return err
}

// MarkMirrors records that the mirrors were restored whose Journal this is, or which have parts of it: their next runs
// compare everything.
func MarkMirrors(ctx context.Context, j interface {
	part.Whole
	Documents(context.Context) ([]string, error)
}) error {
	names, err := j.Documents(ctx)
	if err == nil {
		err = destination.MarkRestored(ctx, j)
	}
	last := ""
	for _, name := range names { // those of a part are together
		if mirror, _, isPart := strings.Cut(name, " "); err == nil && isPart && mirror != last {
			last, err = mirror, destination.MarkRestored(ctx, part.Of(j, mirror))
		}
	}
	return err
}

// syncDirs makes the directories below dir durable.
func syncDirs(dir string) error {
	return filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		return private.SyncDir(name)
	})
}

// restoreDatabase restores the backup of a PostgreSQL database to an empty one.
func (r *Result) restoreDatabase(ctx context.Context, place string, now time.Time) (err error) {
	if !storage.IsURL(place) {
		return fmt.Errorf("restore %s: the backup is that of a PostgreSQL database: %w", place, errors.ErrUnsupported)
	}
	if r.Kind != Database {
		return fmt.Errorf("restore %s: the backup is that of a directory: %w", storage.WithoutPassword(place), errors.ErrUnsupported)
	}
	temp, err := os.MkdirTemp("", "lockstep-restore-")
	if err != nil {
		return fmt.Errorf("restore the database: %w", err)
	}
	defer func() { _ = os.RemoveAll(temp) }() // of no use any more
	if err := r.extract(ctx, temp); err != nil {
		return err
	}
	file := filepath.Join(temp, databaseName)
	if err := prepare(ctx, file, databaseName); err != nil {
		return err
	}
	if err := r.markDatabase(file, now); err != nil {
		return err
	}
	from, err := storage.OpenReader(ctx, file)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, from.Close()) }()
	to, err := storage.Open(ctx, place)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, to.Close()) }()
	free, err := to.IsUnfinished(ctx)
	if err == nil && !free {
		free, err = to.IsEmpty(ctx)
	}
	if err == nil && !free {
		err = fmt.Errorf("restore to %s: %w", storage.WithoutPassword(place), ErrOccupied)
	}
	if err != nil {
		return err
	}
	_, err = storage.Copy(ctx, from, to, func(string, int64) {})
	return err
}

// markDatabase records in the file of a database that it was restored, if it is that of a Source.
func (r *Result) markDatabase(file string, now time.Time) error {
	db, err := sqlite.Open(file)
	if err != nil {
		return err
	}
	notes := statedir.Rows{Journal: db.Journal()}
	used, err := statedir.IsUsed(notes)
	if err == nil && used {
		err = errors.Join(statedir.ForgetLocal(notes), statedir.MarkRestored(notes, r.restored(now)))
	}
	return errors.Join(err, db.Close())
}

// restored says when the state was restored, and of which time it is.
func (r *Result) restored(now time.Time) statedir.Restored {
	return statedir.Restored{Saved: r.Saved, Restored: now.UTC().Truncate(time.Second)}
}
