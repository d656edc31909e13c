// Package mirror opens mirrors for the commands that work on one: its place, state
// and client, which resources it has, and the programs that learn of its changes.
package mirror

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/pflag"

	"lockstep/blob"
	"lockstep/cmd/lockstep/internal/config"
	"lockstep/cmd/lockstep/internal/help"
	"lockstep/cmd/lockstep/internal/network"
	"lockstep/cmd/lockstep/internal/report"
	"lockstep/cmd/lockstep/internal/stateplace"
	"lockstep/cmd/lockstep/internal/term"
	"lockstep/destination"
	"lockstep/destination/filename"
	"lockstep/destination/journal"
	"lockstep/destination/lock"
	"lockstep/discover"
	"lockstep/internal/fetch"
	"lockstep/internal/mirrordir"
	"lockstep/internal/note"
	"lockstep/resourcesync"
	"lockstep/storage"
	"lockstep/storage/sqlite"
)

// Selection holds the flags that select the Source, the resources and the
// destination of a mirror; sync and audit share them.
type Selection struct {
	Source, Dest string // the arguments
	State        string
	Database     sqlite.Options // of the memory of a mirror in a directory
	Part         *Part          // of a database, which is the memory of a mirror in a bucket; nil: it has one of its own
	sets         []string
	include      []string
	exclude      []string
	types        []string
	filterFrom   string
	minSize      string
	maxSize      string
	minAge       string
	maxAge       string
	since        string
	prefer       []string
	with         []string
	maps         []string
	allowHosts   []string
}

func (o *Selection) Declare(all *pflag.FlagSet) {
	help.Grouped(all, help.SelectGroup, o.declareFlags)
}

func (o *Selection) declareFlags(flags *pflag.FlagSet) {
	flags.StringVar(&o.State, "state", "", "store the state of a mirror in a bucket in `DIR`, or in a PostgreSQL database, as postgres://user@host/database (a mirror in a directory contains its state)")
	o.DeclareWhich(flags)
	flags.StringVar(&o.filterFrom, "filter-from", "", "select resources by the rules in `FILE`, one a line: + GLOB or - GLOB; the first that matches the URI decides, and what none matches is selected")
	flags.StringVar(&o.minSize, "min-size", "", "only resources of at least `SIZE`, as 500k or 2Gi, and those of which the Source states no length")
	flags.StringVar(&o.maxSize, "max-size", "", "only resources of at most `SIZE`, and those of which the Source states no length")
	flags.StringVar(&o.minAge, "min-age", "", "take a new resource only when it was last modified `DURATION` ago, as 15m or 2d, or the Source does not say when")
	flags.StringVar(&o.maxAge, "max-age", "", "take a new resource only if it was last modified within `DURATION`, as 30d, or the Source does not say when; what DEST has stays when it grows older")
	flags.StringVar(&o.since, "since", "", "only resources last modified at `TIME` or later, a date or a time as 2026-05-01T12:00:00Z; those of which the Source does not say when, too")
	flags.StringArrayVar(&o.prefer, "prefer", nil, "where a resource has several representations, keep the one of media `TYPE`, as application/json or text/* (repeatable, best first)")
	flags.StringArrayVar(&o.with, "with", nil, "with each selected resource, those that its links of relation `REL` name, although --include, --type or --since leave them out; REL is describedby")
	flags.StringArrayVar(&o.maps, "map", nil, "put resources whose URIs begin with PREFIX into DIR below DEST, given as `PREFIX=DIR` (repeatable)")
	flags.StringArrayVar(&o.allowHosts, "allow-host", nil, "let the Source name resources on `HOST` besides its own; * is any (repeatable)")
}

// DeclareWhich declares the flags that say which resources are meant.
func (o *Selection) DeclareWhich(flags *pflag.FlagSet) {
	flags.StringArrayVar(&o.sets, "set", nil, "only the set with this `NAME` or URL (repeatable; default all)")
	flags.StringArrayVar(&o.include, "include", nil, "only resources whose URI matches `GLOB` (repeatable)")
	flags.StringArrayVar(&o.exclude, "exclude", nil, "no resources whose URI matches `GLOB` (repeatable; wins over --include)")
	flags.StringArrayVar(&o.types, "type", nil, "only resources of a media type that matches `GLOB`, as image/* (repeatable)")
}

// Options returns what the flags mean to a Destination.
func (o *Selection) Options() (destination.Options, error) {
	do := destination.Options{
		Sets: o.sets, Include: o.include, Exclude: o.exclude, Types: o.types, Prefer: o.prefer, With: o.with, AllowHosts: o.allowHosts, Dest: o.Dest,
	}
	if o.since != "" {
		since, err := resourcesync.ParseDatetime(o.since)
		if err != nil {
			return do, term.Usagef("--since %q: want a date, as 2026-05-01, or a time, as 2026-05-01T12:00:00Z", o.since)
		}
		do.Since = since.Time()
	}
	if err := o.filter(&do); err != nil {
		return do, err
	}
	var err error
	do.Maps, err = ParseMaps(o.maps)
	return do, err
}

// ParseMaps reads the values of --map.
func ParseMaps(values []string) ([]filename.Map, error) {
	var maps []filename.Map
	for _, v := range values {
		i := strings.LastIndexByte(v, '=') // a URI may hold one, the directory rarely does
		if i <= 0 || i == len(v)-1 {
			return nil, term.Usagef("--map %q: want PREFIX=DIR, as https://example.org/articles/=articles", fetch.WithoutUser(v))
		}
		maps = append(maps, filename.Map{Prefix: v[:i], Dir: v[i+1:]})
	}
	if _, err := filename.New(filename.Options{Origin: "https://source.invalid", Map: maps}); err != nil {
		return nil, term.Usagef("--%w", err)
	}
	return maps, nil
}

// A State is an open DEST: its files and its Journal.
type State struct {
	Store    blob.Store
	Journal  journal.Journal
	Versions blob.Store      // where versions are kept; nil where there is no mirror yet
	scratch  blob.Scratcher  // room for packages, where the store has none; may be nil
	state    string          // directory of its memory; "" where there is none yet
	https    note.Note       // the host of the Source that has switched to https; nil: not kept
	run      note.Note       // of the last run; nil: not kept
	lost     <-chan struct{} // closed when another process has taken the state; nil: none can
	mayWrite func() error    // why it has
	portable bool            // its file system folds or refuses names
	Close    func()
}

// OpenState opens DEST and locks it. With readOnly nothing is made in a DEST
// that is no mirror yet. c is for a DEST that is a bucket.
func OpenState(ctx context.Context, sel *Selection, readOnly bool, c BucketClient) (*State, error) {
	dest, log := sel.Dest, c.Log
	if err := sel.CheckPlace(c.LookupEnv); err != nil {
		return nil, err
	}
	switch {
	case IsBucket(dest) && sel.Part != nil:
		return openBucketPart(ctx, dest, stateplace.In(sel.State), sel.Part, c)
	case IsBucket(dest):
		place, err := stateplace.Parse(sel.State, c.LookupEnv)
		if err != nil {
			return nil, err
		}
		return openBucketMirror(ctx, dest, place, readOnly, c)
	}
	if err := mirrordir.Check(dest); err != nil {
		if _, ok := errors.AsType[*fs.PathError](err); ok && !errors.Is(err, syscall.ENOTDIR) {
			return nil, err
		}
		return nil, term.Usage(err, "")
	}
	if readOnly && !mirrordir.Exists(dest) {
		store, err := blob.NewDir(dest, blob.DirOptions{})
		if err != nil {
			return nil, fmt.Errorf("open the mirror: %w", err)
		}
		memory := &journal.Mem{}
		if _, err := os.Stat(dest); err == nil {
			memory.Scratch = dest // scratch files have no names there
		}
		return &State{Store: store, Journal: memory, Versions: &blob.Mem{}, Close: func() {}}, nil
	}
	if !readOnly && log != nil && isOthers(dest) {
		log.Warn("root writes into a mirror of another user, who cannot continue it then: run this as that user", slog.String("dir", dest))
	}
	m, err := mirrordir.OpenWith(dest, sel.Database)
	if err != nil {
		return nil, explainLock(err)
	}
	return &State{Store: m.Files, Journal: m.Journal, Versions: m.Versions, state: dest, https: mirrordir.HTTPSNote(dest), run: mirrordir.RunNote(dest), portable: m.Portable, Close: func() {
		if err := m.Close(); err != nil {
			log.Warn("close the mirror", slog.Any("err", err))
		}
	}}, nil
}

// CheckPlace refuses a DEST that cannot be one, and a state that does not belong to it.
func (o *Selection) CheckPlace(lookup func(string) (string, bool)) error {
	switch {
	case IsBucket(o.Dest) && o.State == "":
		return term.Usage(fmt.Errorf("%s: a mirror in a bucket keeps its state elsewhere", o.Dest),
			"give one with --state DIR, or a database as --state postgres://user@host/database; keep it, and use the same one with every command for this mirror")
	case IsBucket(o.Dest):
	case strings.Contains(o.Dest, "://"):
		return term.Usage(fmt.Errorf("%s: not a place for a mirror", o.Dest), "give a directory, or a bucket as s3://BUCKET/PREFIX")
	case o.State != "" && !config.FromEnvironment("state", o.State, lookup): // there it may be meant for serve
		return term.Usage(errors.New("--state is for mirrors in buckets"), "a mirror in a directory keeps its state in "+filepath.Join(o.Dest, ".lockstep"))
	}
	return nil
}

// IsMirror reports whether there is a mirror already.
func (o *Selection) IsMirror() bool {
	dir := o.Dest
	if IsBucket(dir) {
		dir = o.State
	}
	if storage.IsURL(dir) {
		return true // opening it shows that
	}
	_, err := os.Stat(database(dir))
	return err == nil
}

// Damaged says what to do about the database of a mirror that cannot be read.
const Damaged = "bring state.db back from a backup, or move the files state.db* away: sync --adopt then compares everything, and adopts the files that are right"

// lockMirror locks the mirror whose state is in dir.
func lockMirror(dir string) (*lock.Lock, error) {
	held, err := lock.Acquire(dir)
	return held, explainLock(err)
}

// explainLock adds a hint to the error about a mirror that is in use, or whose state is damaged.
func explainLock(err error) error {
	if errors.Is(err, sqlite.ErrDamaged) {
		return term.WithHint(err, Damaged)
	}
	if _, used := errors.AsType[*lock.InUseError](err); used {
		err = term.WithHint(err, "wait for it to end, or stop it: its progress is kept")
	}
	return err
}

// A Run is what sync, audit and demo have in common: one Destination at work
// on one mirror.
type Run struct {
	State  *State
	Client *fetch.Client
	Dest   *destination.Destination
}

// Open opens the mirror and makes the Destination for command.
func Open(ctx context.Context, command string, sel *Selection, net *network.Options, do destination.Options, readOnly bool, io term.IO) (*Run, error) {
	client, err := net.Client(sel.Source, io.LookupEnv, do.Logger)
	if err != nil {
		return nil, err
	}
	do.Jobs = net.Jobs
	if err := do.Validate(); err != nil { // before anything is made
		client.Close()
		return nil, term.Usage(err, "")
	}
	m, err := OpenState(ctx, sel, readOnly, BucketClient{io.LookupEnv, net, do.Logger, command})
	if err != nil {
		client.Close()
		return nil, err
	}
	r := &Run{State: m, Client: client}
	if err := mirrordir.RememberHTTPS(client, m.https, do.Logger); err != nil {
		r.Close()
		return nil, err
	}
	do.Portable, do.Scratch, do.Versions = m.portable, m.scratch, m.Versions
	mirrordir.Harvest(&do, m.state, client)
	if r.Dest, err = destination.New(m.Store, m.Journal, client, do); err != nil {
		r.Close()
		return nil, err
	}
	return r, nil
}

// Memory returns the directory in which the memory of the mirror is.
func (r *Run) Memory() string {
	if r.State.state == "" {
		return "" // unreachable: only a run that changes nothing has none
	}
	return filepath.Dir(filepath.Join(r.State.state, filepath.FromSlash(destination.StateFile)))
}

// Note returns the note of the last run; nil: there is none.
func (r *Run) Note() note.Note { return r.State.run }

// RecordRepair records the run of an audit that repaired all of the mirror, and ended with err.
func (r *Run) RecordRepair(ctx context.Context, began time.Time, a *destination.AuditReport, err error) error {
	run := destination.Report{Source: a.Source, Created: a.Mended.Fetched, Deleted: a.Mended.Deleted, Failed: a.Mended.Failed, Requests: a.Requests}
	why := ""
	if err != nil && !errors.Is(err, destination.ErrIncomplete) {
		why = err.Error()
	}
	for _, uri := range a.Sets {
		run.BySet = append(run.BySet, destination.SetReport{URI: uri, Error: why})
	}
	return mirrordir.RecordRun(r.State.run, "audit", began, &run, err, term.HintOf(err), Interrupted(ctx, err))
}

// Within returns a context that ends when another process has taken the state of the mirror,
// too, with that as its cause. The function that it returns is to be called at the end.
func (r *Run) Within(ctx context.Context) (context.Context, func()) {
	inner, cancel := context.WithCancelCause(ctx)
	if r.State.lost == nil {
		return inner, func() { cancel(nil) }
	}
	go func() {
		select {
		case <-r.State.lost:
			cancel(r.State.mayWrite())
		case <-inner.Done():
		}
	}()
	return inner, func() { cancel(nil) }
}

// Lost returns why another process has taken the state of the mirror, or err if none has.
func (r *Run) Lost(err error) error {
	if r.State.lost == nil {
		return err
	}
	if lost := r.State.mayWrite(); lost != nil {
		return stateplace.Explain(lost)
	}
	return err
}

// Close gives everything back.
func (r *Run) Close() {
	r.State.Close()
	r.Client.Close()
}

// A Watcher turns the events of a run into what stderr shows.
type Watcher struct {
	Io      term.IO
	Quiet   bool
	Verbose bool // resources are named
	Meter   report.Meter
	Stream  func(destination.Event) // for --events; may be nil
	Once    *report.Once            // what need not be said again; nil: everything is said
	Causes  report.Causes           // of what failed
}

// Event is the callback of a Destination.
func (w *Watcher) Event(ctx context.Context, e destination.Event) {
	w.Report(ctx, e)
	w.Meter.Event(e)
	if e.Kind == destination.EventDone && !w.Quiet && w.Meter.Several() {
		w.Io.Errorf("%s\n", report.SetText(&e.Result))
	}
}

// Report shows an event on stderr if the user should know of it, and passes applied
// changes on to --events.
func (w *Watcher) Report(ctx context.Context, e destination.Event) {
	if w.Verbose && ctx.Err() == nil {
		report.NameResource(w.Io, &e)
	}
	switch e.Kind {
	case destination.EventFailed:
		switch {
		case ctx.Err() != nil: // all that is under way when a run is interrupted breaks off
		case w.Once != nil && e.Set == "": // a document: a run that goes on has no end at which to sum up
			w.Say("failed: ", e.Err)
		default:
			w.Causes.Add("failed", e)
		}
	case destination.EventRefused:
		w.Causes.Add("refused", e)
	case destination.EventRetry:
		w.Causes.Retrying()
	case destination.EventWarning:
		w.Say("warning: ", e.Err)
	case destination.EventApplied:
		if w.Stream != nil {
			w.Stream(e)
		}
	}
}

// SumUp says what has failed since it did so last.
func (w *Watcher) SumUp() {
	for _, line := range w.Causes.Take() {
		head, text, _ := strings.Cut(line, ": ")
		w.Say(head+": ", errors.New(text))
	}
}

// Say writes a line, unless it has been said.
func (w *Watcher) Say(head string, err error) {
	if text := head + report.ErrorText(err) + "\n"; w.Once == nil || w.Once.First(text) {
		w.Io.Errorf("%s", text)
	}
}

// Explain adds remedies to errors of a run that have none.
func Explain(err error, dest string) error {
	if _, other := errors.AsType[*discover.KindError](err); other {
		return term.WithHint(err, "if "+dest+" is to follow what is there now, run sync with --baseline")
	}
	err = ExplainAddress(err)
	var path *fs.PathError
	if dest != "" && errors.As(err, &path) && errors.Is(path, fs.ErrPermission) && strings.HasPrefix(path.Path, filepath.Clean(dest)) {
		return term.WithHint(err, "run this as the user to whom "+dest+" belongs")
	}
	switch {
	case errors.Is(err, destination.ErrScratch):
		return term.WithHint(err, "if "+dest+" is a mirror, or an existing directory, up to 64 GiB of scratch space are available")
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return term.WithHint(err, "free space in "+dest+" and run the same command again; finished files are kept")
	}
	return err
}

// ExplainSource adds the remedies of [Explain] to the error of a run, and one for a document at
// another host than source, which names it, that cannot be reached.
func ExplainSource(err error, source, dest string) error {
	if hint := report.OtherHost(err, "documents", source); hint != "" {
		err = term.WithHint(err, hint)
	}
	return Explain(err, dest)
}

// ExplainAddress adds a remedy to an error about the address of a Source.
func ExplainAddress(err error) error {
	dns, unknown := errors.AsType[*net.DNSError](err)
	meant := oneSlash(err)
	switch {
	case err == nil:
	case meant != "":
		return term.WithHint(err, "did you mean "+meant+"?")
	case unknown && dns.IsNotFound:
		return term.WithHint(err, "check the name of the host; if "+dns.Name+" is meant to be a file or directory, there is none here")
	case strings.Contains(err.Error(), "the server does not speak HTTPS there"):
		return term.WithHint(err, "write the address with http://")
	case errors.Is(err, discover.ErrNoSource):
		return term.WithHint(err, "try the address of its Source Description, of a Capability List, Resource List, Sitemap, Atom feed or OAI-PMH repository")
	}
	return err
}

// oneSlash returns the address that was meant by one such as http:/example.org, which was taken
// for a path at a host called http.
func oneSlash(err error) string {
	failed, ok := errors.AsType[*fetch.Error](err)
	if !ok {
		return ""
	}
	for _, scheme := range []string{"http", "https"} {
		if rest, ok := strings.CutPrefix(failed.URI, "http://"+scheme+":/"); ok {
			return scheme + "://" + strings.TrimLeft(fetch.WithoutUser(rest), "/")
		}
	}
	return ""
}

// Interrupted reports whether err was only caused by the end of ctx.
func Interrupted(ctx context.Context, err error) bool {
	return err != nil && ctx.Err() != nil
}
