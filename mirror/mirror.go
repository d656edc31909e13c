// Package mirror keeps a directory in step with a ResourceSync Source, as the
// command lockstep sync does.
//
//	report, err := mirror.Sync(ctx, "https://example.org/", "copy", mirror.Options{})
//
// The first run fetches everything, each later run only the changes. Every file
// is verified before it gets its final name, and a run that was interrupted is
// continued by the next one, whether that is a call of this package or of the
// command: both use the same state, in the directory .lockstep of the mirror.
//
// [Open] is for programs that process the changes of a run ([Mirror.Changes]) or
// keep following the Source ([Mirror.Destination]). Package destination has
// everything else, such as mirrors in buckets and without files.
package mirror

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"time"

	"lockstep/blob"
	"lockstep/destination"
	"lockstep/destination/journal"
	"lockstep/internal/fetch"
	"lockstep/internal/mirrordir"
)

// Errors of a run, for errors.Is.
var (
	// ErrIncomplete reports that the mirror is not in step: resources failed or
	// were refused, or a document could not be read. Everything else was done;
	// the Report lists the failures. The next run tries them again.
	ErrIncomplete = destination.ErrIncomplete

	// ErrRefused reports that a run stopped for safety before it deleted or
	// replaced anything: it would have deleted too large a share of the mirror
	// (Options.MaxDelete), or the Source's documents are older than the mirror.
	ErrRefused = destination.ErrRefused
)

// Options configures a mirror. The zero value is ready to use, and its defaults
// are those of the command.
type Options struct {
	Sets       []string // names or URIs of the sets; default: all
	Include    []string // globs on the URI; default: all resources
	Exclude    []string // globs on the URI; stronger than Include
	With       []string // relations of links to resources that are selected with the one that has them: "describedby"
	Types      []string // globs on the media type; default: all
	AllowHosts []string // other hosts whose resources the Source may name; "*" is any

	// KeepDeleted keeps files whose resources the Source has deleted. By default
	// they are deleted, except in a mirror of a plain Sitemap, in which a missing
	// resource does not mean that it was deleted.
	KeepDeleted bool
	MaxDelete   int // percentage of the mirror that a run may delete; default 50; 100 permits everything

	BearerToken string      // sent to the Source, and to no other host
	Header      http.Header // likewise

	// Adjust, if not nil, may change all other options of the Destination and its
	// HTTP client. Both types belong to an experimental package.
	Adjust func(*destination.Options, *destination.ClientOptions)

	Logger *slog.Logger // default: discards
}

// A Report is the result of a run. Its JSON is that of lockstep sync --json.
type Report = destination.Report

// A Change is a resource that was created, updated or deleted in the mirror.
type Change = destination.Change

// Sync brings the directory dir into step with the Source at an address, once,
// and returns when that is done. It creates dir if it does not exist.
//
// The address is any address of a Source: a site, one of its pages, any of its
// documents, a plain Sitemap, a local file that is one of these, an Atom-PMH feed
// or an OAI-PMH repository. An error of finding it names the addresses that were
// tried.
//
// An error that wraps [ErrIncomplete] or [ErrRefused] comes with a Report. If
// another process works on dir, the error is a lock.InUseError. When ctx ends the
// error is its cause; progress is kept.
func Sync(ctx context.Context, source, dir string, o Options) (Report, error) {
	m, err := Open(source, dir, o)
	if err != nil {
		return Report{}, err
	}
	report, err := m.Sync(ctx)
	return report, errors.Join(err, m.Close())
}

// A Mirror is an open mirror. Its directory is locked until it is closed. At most
// one of its methods may run at a time.
type Mirror struct {
	source string
	path   string
	log    *slog.Logger // nil: none
	dir    *mirrordir.Dir
	client *destination.Client
	dest   *destination.Destination
}

// Open opens the mirror of a Source in the directory dir, for several runs or for
// other methods than [Mirror.Sync]. It creates dir if it does not exist, and sends
// no request. Close the Mirror when it is no longer needed.
func Open(source, dir string, o Options) (_ *Mirror, err error) {
	switch {
	case source == "":
		return nil, errors.New("open a mirror: the address of the Source is empty")
	case dir == "" || strings.Contains(dir, "://"):
		return nil, fmt.Errorf("open a mirror: %q is not a directory", dir)
	}
	do, co := o.split(dir)
	m := &Mirror{source: source, path: dir, log: o.Logger}
	if m.client, err = destination.NewClient(source, co); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, m.Close())
		}
	}()
	// First with a store in memory, so that unusable options create nothing.
	do.Versions = &blob.Mem{}
	if _, err := destination.New(&blob.Mem{}, &journal.Mem{}, m.client, do); err != nil {
		return nil, err
	}
	if err := mirrordir.Check(dir); err != nil {
		return nil, err
	}
	if m.dir, err = mirrordir.Open(dir); err != nil {
		return nil, err
	}
	do.Portable, do.Versions = m.dir.Portable, m.dir.Versions
	if err := mirrordir.RememberHTTPS(m.client, mirrordir.HTTPSNote(dir), do.Logger); err != nil {
		return nil, err
	}
	mirrordir.Harvest(&do, dir, m.client)
	m.dest, err = destination.New(m.dir.Files, m.dir.Journal, m.client, do)
	return m, err
}

// split returns the options of the Destination and of its client.
func (o *Options) split(dir string) (destination.Options, destination.ClientOptions) {
	do := destination.Options{
		Sets: o.Sets, Include: o.Include, Exclude: o.Exclude, Types: o.Types, With: o.With, AllowHosts: o.AllowHosts,
		MaxDelete: o.MaxDelete, Dest: dir, Logger: o.Logger,
	}
	if o.KeepDeleted {
		do.Delete = destination.DeleteKeep
	}
	co := destination.ClientOptions{
		BearerToken: o.BearerToken, Header: o.Header.Clone(), Proxy: fetch.EnvironmentProxy(os.LookupEnv), Logger: o.Logger,
	}
	if o.Adjust != nil {
		o.Adjust(&do, &co)
	}
	return do, co
}

// Sync brings the mirror into step once, like the function [Sync].
func (m *Mirror) Sync(ctx context.Context) (Report, error) {
	began := time.Now()
	r, err := m.dest.Sync(ctx, m.source)
	m.record("mirror.Sync", began, &r, err, ctx.Err() != nil)
	return r, err
}

// record records how a run ended, for lockstep status.
func (m *Mirror) record(command string, began time.Time, r *Report, err error, interrupted bool) {
	if r.DryRun {
		return
	}
	if rerr := mirrordir.RecordRun(mirrordir.RunNote(m.path), command, began, r, err, "", interrupted); rerr != nil && m.log != nil {
		m.log.Warn("the result of the run is not recorded", slog.Any("err", rerr)) // the caller has it
	}
}

// Changes brings the mirror into step and yields each change when it is durable.
// A change counts as processed when the loop requests the next one; if the loop
// ends early, or the process is killed, the remaining changes come first in the
// next run, so that each is yielded at least once. An error is yielded last.
// When the iteration has ended, *report, which may be nil, has the result.
func (m *Mirror) Changes(ctx context.Context, report *Report) iter.Seq2[Change, error] {
	return func(yield func(Change, error) bool) {
		began, left := time.Now(), true
		var r Report
		var failed error
		defer func() { // also when the loop panics
			if report != nil {
				*report = r
			}
			m.record("mirror.Changes", began, &r, failed, left || ctx.Err() != nil)
		}()
		for c, err := range m.dest.Changes(ctx, m.source, &r) {
			if failed = err; !yield(c, err) {
				left = err == nil
				return
			}
		}
		left = false
	}
}

// Destination returns the Destination of the mirror, which can also follow a
// Source, audit the mirror and restore earlier states. Its type belongs to an
// experimental package.
func (m *Mirror) Destination() *destination.Destination { return m.dest }

// Close closes the mirror and releases its lock.
func (m *Mirror) Close() error {
	m.client.Close()
	if m.dir == nil {
		return nil
	}
	return m.dir.Close()
}
