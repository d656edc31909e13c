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
	"slices"
	"time"

	"lockstep/internal/private"
	"lockstep/storage"
	"lockstep/storage/sqlite"
)

const (
	// aboutName is the first member of a backup.
	aboutName = "lockstep-backup.json"

	format = 1

	// databaseName is the member that has what was in a PostgreSQL database.
	databaseName = "postgres.db"
)

// About describes a backup.
type About struct {
	Format int       `json:"format"`
	Saved  time.Time `json:"saved"`  // when it was begun
	Kind   Kind      `json:"kind"`   // of the state
	Host   string    `json:"host"`   // on which it was made
	Origin string    `json:"origin"` // the directory or database, without a password
}

// A Kind is a kind of state.
type Kind string

// The kinds.
const (
	Directory Kind = "directory" // of a Source, a hub, or an Aggregator
	Mirror    Kind = "mirror"    // .lockstep in the directory of a mirror, or of its state
	Database  Kind = "database"  // in PostgreSQL
)

// A Result is what was written or restored.
type Result struct {
	About
	File      string `json:"file"`
	Databases int    `json:"databases"`
	Files     int    `json:"files"` // besides databases
	Bytes     int64  `json:"bytes"` // of the file

	owner *owner // of the state that is restored; nil: not known
}

// Backup writes the state in a directory, or in a PostgreSQL database, to a new file: a tar
// archive, compressed with gzip. Processes may use the state meanwhile: each database is copied as
// it is at one instant, and a file that a database refers to is in the copy, because files are
// copied before the databases as well as after them.
func Backup(ctx context.Context, place, file string, now time.Time) (r Result, err error) {
	if _, err := os.Lstat(file); err == nil {
		return r, fmt.Errorf("write the backup: %s: %w", file, fs.ErrExist)
	}
	b := &backup{seen: map[string]fileState{}}
	host, _ := os.Hostname() // only for people
	b.result = Result{File: file, About: About{Format: format, Saved: now.UTC().Truncate(time.Second), Host: host, Kind: Database, Origin: storage.WithoutPassword(place)}}
	if !storage.IsURL(place) {
		if b.place, err = Find(place); err != nil {
			return r, err
		}
		b.result.Kind = Directory
		if b.place.Mirror {
			b.result.Kind = Mirror
		}
		if b.result.Origin, err = filepath.Abs(place); err != nil {
			return r, err
		}
	}
	// Beside the file, where there has to be room anyway.
	if b.temp, err = os.MkdirTemp(filepath.Dir(file), filepath.Base(file)+".tmp-"); err != nil {
		return r, fmt.Errorf("write the backup: %w", err)
	}
	defer func() { _ = os.RemoveAll(b.temp) }() // of use to no one
	if err := b.write(ctx, place); err != nil {
		return r, fmt.Errorf("back up %s: %w", b.result.Origin, err)
	}
	if err := os.Link(filepath.Join(b.temp, "archive"), file); err != nil { // unlike Rename it replaces nothing
		if errors.Is(err, fs.ErrExist) {
			return r, fmt.Errorf("write the backup: %w", err)
		}
		if err := os.Rename(filepath.Join(b.temp, "archive"), file); err != nil { // a file system without hard links
			return r, fmt.Errorf("write the backup: %w", err)
		}
	}
	return b.result, private.SyncDir(filepath.Dir(file))
}

// A backup is one under way.
type backup struct {
	place  *Place // nil: it is a PostgreSQL database
	temp   string
	tar    *tar.Writer
	result Result
	seen   map[string]fileState // of the files that were written
}

// A fileState distinguishes versions of a file.
type fileState struct {
	size     int64
	modified time.Time
}

func (b *backup) write(ctx context.Context, place string) error {
	f, err := os.OpenFile(filepath.Join(b.temp, "archive"), os.O_WRONLY|os.O_CREATE|os.O_EXCL, private.FileMode)
	if err != nil {
		return err
	}
	z := gzip.NewWriter(f)
	b.tar = tar.NewWriter(z)
	if err = b.about(); err == nil {
		if b.place == nil {
			err = b.database(ctx, place)
		} else {
			err = b.directory(ctx)
		}
	}
	if err == nil {
		err = errors.Join(b.tar.Close(), z.Close(), f.Sync())
	}
	if info, serr := f.Stat(); serr == nil {
		b.result.Bytes = info.Size()
	}
	return errors.Join(err, f.Close())
}

func (b *backup) about() error {
	text, err := json.MarshalIndent(b.result.About, "", "\t")
	if err != nil {
		return err
	}
	h := &tar.Header{Typeflag: tar.TypeReg, Name: aboutName, Mode: 0o600, Size: int64(len(text)), ModTime: b.result.Saved, Format: tar.FormatPAX}
	if err := b.tar.WriteHeader(h); err != nil {
		return err
	}
	_, err = b.tar.Write(text)
	return err
}

// directory writes the files, the databases, and the files that are new since, until there are no databases that
// were not written: other processes may create some meanwhile.
func (b *backup) directory(ctx context.Context) error {
	copied := map[string]bool{}
	for {
		databases, err := b.files(ctx)
		databases = slices.DeleteFunc(databases, func(rel string) bool { return copied[rel] })
		if err == nil && len(databases) == 0 && b.result.Databases == 0 {
			err = ErrNoState // they were removed meanwhile
		}
		if err != nil || len(databases) == 0 {
			return err
		}
		sortDatabases(databases)
		for _, rel := range databases {
			copied[rel] = true
			if err := b.copyDatabase(ctx, rel); err != nil {
				return err
			}
		}
	}
}

// copyDatabase writes a database as it is at one instant, or nothing if it was removed meanwhile.
func (b *backup) copyDatabase(ctx context.Context, rel string) error {
	file, copied := filepath.Join(b.place.Dir, filepath.FromSlash(rel)), filepath.Join(b.temp, "database")
	if err := sqlite.Snapshot(ctx, file, copied); err != nil {
		if _, gone := os.Lstat(file); errors.Is(gone, fs.ErrNotExist) {
			return nil
		}
		return err
	}
	if err := b.member(rel, copied); err != nil {
		return err
	}
	b.result.Databases++
	return os.Remove(copied)
}

// files writes the files that were not written yet, or have changed since, and returns the databases, which it does not
// write: their logs are not in the copy. It leaves out a content that became smaller, because the rest of it may be in
// use by a database that was copied meanwhile.
func (b *backup) files(ctx context.Context) (databases []string, err error) {
	err = b.place.walk(func(rel string, d fs.DirEntry) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		if isDatabase(rel) && !d.IsDir() {
			databases = append(databases, rel)
			return nil
		}
		info, err := d.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		state := fileState{info.Size(), info.ModTime()}
		if was, ok := b.seen[rel]; ok && (d.IsDir() || was == state || state.size < was.size && isContent(rel)) {
			return nil
		} else if !ok && !d.IsDir() {
			b.result.Files++
		}
		b.seen[rel] = state
		if d.IsDir() {
			return b.header(info, rel+"/")
		}
		err = b.member(rel, filepath.Join(b.place.Dir, filepath.FromSlash(rel)))
		if errors.Is(err, fs.ErrNotExist) {
			return nil // it was removed meanwhile
		}
		return err
	})
	return databases, err
}

// member writes a file under a name. What is appended meanwhile is left out.
func (b *backup) member(name, file string) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // it was only read
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if err := b.header(info, path.Clean(name)); err != nil {
		return err
	}
	if _, err = io.CopyN(b.tar, f, info.Size()); errors.Is(err, io.EOF) {
		err = errors.New("it became shorter while it was copied")
	}
	if err != nil {
		return fmt.Errorf("copy %s: %w", file, err)
	}
	return nil
}

// header writes the header of a file or directory. The owner of the state is that of its directory.
func (b *backup) header(info fs.FileInfo, name string) error {
	h, err := tar.FileInfoHeader(info, "")
	if err != nil {
		return err
	}
	h.Name, h.Format = name, tar.FormatPAX
	h.AccessTime, h.ChangeTime = time.Time{}, time.Time{}
	return b.tar.WriteHeader(h)
}

// database writes what is in a PostgreSQL database, as a SQLite file.
func (b *backup) database(ctx context.Context, url string) (err error) {
	from, err := storage.OpenReader(ctx, url)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, from.Close()) }()
	copied := filepath.Join(b.temp, "database")
	if err := copyInto(ctx, from, copied); err != nil {
		return err
	}
	b.result.Databases++
	return b.member(databaseName, copied)
}

// copyInto copies a database to the SQLite database in a file.
func copyInto(ctx context.Context, from *storage.DB, file string) error {
	to, err := storage.Open(ctx, file)
	if err != nil {
		return err
	}
	_, err = storage.Copy(ctx, from, to, func(string, int64) {})
	return errors.Join(err, to.Close())
}
