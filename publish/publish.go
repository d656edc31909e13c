// Package publish publishes a directory as a ResourceSync Source, as the command
// lockstep publish does.
//
//	report, err := publish.Dir(ctx, "/var/www", publish.Options{BaseURL: "https://data.example.org/"})
//
// [Dir] writes the documents beside the files, or to another directory, for the
// web server that serves them. Call it again after changes: it writes a Change
// List of what was created, updated and deleted since. Calls of this package and
// of the command use the same state and can take turns.
//
// Package source has everything else, such as several sets, dumps, feeds, and a
// handler that serves documents without a web server.
package publish

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"lockstep/blob"
	intakedir "lockstep/intake/dir"
	"lockstep/internal/mediatype"
	"lockstep/internal/statedir"
	"lockstep/source"
	"lockstep/storage/sqlite"
)

// ErrUnreadable reports that files could not be read. They are published as they
// were before, if they were, and all others as they are; the Report lists them.
var ErrUnreadable = errors.New("some files could not be read: they are not published, or still in the last known state")

// Options configures a publication. Only BaseURL is required; the defaults are
// those of the command.
type Options struct {
	// BaseURL is the URL below which the web server serves the files and the
	// documents.
	BaseURL string

	Out     string   // directory for the documents; default: the directory of the files
	State   string   // directory for what is known of the files; default: one per directory of files, below $XDG_STATE_HOME/lockstep or ~/.local/state/lockstep
	Include []string // globs on relative paths, with ** for any number of directories; default: all files
	Exclude []string // globs on relative paths; stronger than Include

	// AllowEmpty permits the deletion of everything if the directory has no files.
	// Otherwise an empty directory, which may not be mounted, is an error.
	AllowEmpty bool

	// TakeOver permits replacing documents that were published to Out from another
	// state directory. Destinations then compare everything.
	TakeOver bool

	Logger *slog.Logger // default: discards
}

// A Report is the result of a publication.
type Report struct {
	CapabilityList string // its URI: lockstep sync and mirror.Sync accept it as an address
	Resources      int64  // published
	Created        int64  // since the last publication
	Updated        int64
	Deleted        int64
	Written        bool     // false: nothing has changed, and no document was written
	Unreadable     []string // files that could not be read, with the reason: the first 100
}

// rehashShare is the share of the files that is read again in a day although
// nothing suggests that they have changed, as by the command.
const rehashShare = 0.01

// Dir publishes the files of a directory once. It computes the hashes of files
// that are new or have changed (SHA-256 and MD5), and writes the documents that
// have to change: first parts, then indexes, then entry documents, so that clients
// see a consistent state at any moment, even if the process is killed.
//
// An error that wraps [ErrUnreadable] comes with a Report. If another process
// publishes from the same state, or Out belongs to another state, nothing is
// written.
func Dir(ctx context.Context, dir string, o Options) (_ Report, err error) {
	if err := o.settle(dir); err != nil {
		return Report{}, fmt.Errorf("publish %s: %w", dir, err)
	}
	if err := statedir.Make(o.State, o.Logger); err != nil {
		return Report{}, err
	}
	release, err := statedir.Lock(o.State, "publish")
	if err != nil {
		return Report{}, err
	}
	defer release()
	db, err := sqlite.Open(filepath.Join(o.State, "catalog.db"))
	if err != nil {
		return Report{}, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	docs, err := statedir.Documents(o.Out, o.State)
	if err != nil {
		return Report{}, err
	}
	defer func() { err = errors.Join(err, docs.Close()) }()
	if _, err := docs.Sweep(ctx, slices.Values([]string{})); err != nil {
		o.Logger.WarnContext(ctx, "cannot remove unfinished documents", slog.Any("err", err))
	}
	claim, err := claimOut(ctx, docs, &o)
	if err != nil {
		return Report{}, err
	}
	list, err := source.CapabilityListURI(o.BaseURL, source.DefaultSet)
	if err != nil {
		return Report{}, err
	}
	files, err := intakedir.New(dir, db.Catalog(), list, intakedir.Options{
		BaseURI: o.BaseURL, Include: o.Include, Exclude: o.Exclude, AllowEmpty: o.AllowEmpty, TempDir: o.State,
	})
	if err != nil {
		return Report{}, err
	}
	defer func() { err = errors.Join(err, files.Close()) }()
	src, err := source.New(db.Catalog(), docs, source.Options{
		BaseURL: o.BaseURL, Sets: []source.Set{{Name: source.DefaultSet}}, Temp: o.State, Logger: o.Logger,
		Type: mediatype.Of, Static: true, Restart: claim.Restarts(),
	})
	if err != nil {
		return Report{}, err
	}
	if err := claim.Take(ctx); err != nil {
		return Report{}, err
	}
	r, err := publishOnce(ctx, files, src, &o)
	if err == nil {
		err = claim.Published(ctx)
	}
	if err == nil && len(r.Unreadable) > 0 {
		err = fmt.Errorf("publish %s: %w: %s", dir, ErrUnreadable, strings.Join(r.Unreadable, ", "))
	}
	r.CapabilityList = list
	return r, err
}

// publishOnce brings the catalog in step with the files, and the documents with
// the catalog.
func publishOnce(ctx context.Context, files *intakedir.Dir, src *source.Source, o *Options) (r Report, err error) {
	scan, err := files.Scan(ctx)
	if err != nil {
		return r, err
	}
	rehasher := intakedir.NewRehasher(files, intakedir.RehashOptions{
		Share: rehashShare, State: filepath.Join(o.State, "origin-"+source.DefaultSet+"-rehash.json"),
		OnDamage: func(d intakedir.Damage) {
			o.Logger.WarnContext(ctx, "damage: the bytes of the file have changed, its size and times have not",
				slog.String("path", d.Path), slog.String("uri", d.URI))
		},
	})
	if _, err := rehasher.Step(ctx); err != nil && ctx.Err() == nil {
		o.Logger.WarnContext(ctx, "read files again", slog.String("err", err.Error()))
	}
	published, err := src.Publish(ctx)
	if err != nil {
		return r, fmt.Errorf("write documents to %s: %w", o.Out, err)
	}
	r = Report{Created: scan.Created, Updated: scan.Updated, Deleted: scan.Deleted, Written: published.Written}
	for i := range published.Sets {
		r.Resources += published.Sets[i].Resources
	}
	for _, p := range scan.Unreadable.First {
		r.Unreadable = append(r.Unreadable, p.String())
	}
	return r, nil
}

// settle checks the options and fills in the defaults.
func (o *Options) settle(dir string) error {
	if _, err := source.BaseURL(o.BaseURL); err != nil {
		return err
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if info, err := os.Stat(dir); err != nil {
		return errors.Unwrap(err) // which does not repeat the path
	} else if !info.IsDir() {
		return errors.New("it is not a directory")
	}
	if o.Out == "" {
		o.Out = dir
	}
	if o.State == "" {
		var err error
		if o.State, err = statedir.Default(dir, true, os.LookupEnv); err != nil {
			return fmt.Errorf("%w; set Options.State", err)
		}
	}
	if path, err := statedir.RealPath(dir); err == nil && slices.Contains(strings.Split(filepath.ToSlash(path), "/"), ".lockstep") {
		return errors.New("it is inside a directory called .lockstep, where Lockstep keeps its own state")
	}
	for what, place := range map[string]string{"state": o.State, "documents": o.Out} {
		rel, below := statedir.Inside(dir, place)
		if !below || what == "documents" && rel == "." || strings.Contains("/"+rel+"/", "/.lockstep/") {
			continue
		}
		return fmt.Errorf("the %s in %s would be published; use a directory elsewhere, or below %s", what, place, filepath.Join(dir, ".lockstep"))
	}
	return nil
}

// claimOut claims the place of the documents for the state, which is locked.
func claimOut(ctx context.Context, docs blob.Store, o *Options) (*statedir.Claim, error) {
	state := statedir.In(o.State)
	if _, ours := statedir.Inside(o.State, o.Out); ours {
		return statedir.OwnClaim(state)
	}
	return statedir.NewClaim(ctx, docs, o.Out, state, o.TakeOver)
}
