// Package states runs the commands that look after states: what they contain, whether they are
// whole, backups, copies to another engine, and migrations.
package states

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"lockstep/cmd/lockstep/internal/stateplace"
	"lockstep/cmd/lockstep/internal/term"
	"lockstep/destination/lock"
	"lockstep/internal/fetch"
	"lockstep/internal/statebackup"
	"lockstep/internal/statedir"
	"lockstep/storage"
	"lockstep/storage/sqlite"
)

// A database is one database of a state.
type database struct {
	name  string // its path in the directory of the state, or the URL without its password
	place string // for [storage.Open]
}

// databasesAt returns the databases of what a user has named: a directory with a state, a SQLite
// file, or the URL of a PostgreSQL database.
func databasesAt(place string) ([]database, error) {
	if strings.Contains(place, "://") && !storage.IsURL(place) {
		return nil, term.Usage(fmt.Errorf("%s: not a place of a state", fetch.WithoutUser(place)), "give a directory, or the URL of a PostgreSQL database, as postgres://user@host/database")
	}
	if storage.IsURL(place) {
		return []database{{storage.WithoutPassword(place), place}}, nil
	}
	if info, err := os.Stat(place); err == nil && info.Mode().IsRegular() {
		return []database{{place, place}}, nil
	}
	found, err := statebackup.Find(place)
	if err != nil {
		return nil, explain(err)
	}
	all := make([]database, len(found.Databases))
	for i, rel := range found.Databases {
		all[i] = database{rel, filepath.Join(place, filepath.FromSlash(rel))}
	}
	return all, nil
}

// explain adds a remedy to an error.
func explain(err error) error {
	switch {
	case errors.Is(err, statebackup.ErrNoState):
		return term.Usage(err, "give a state directory (--state of serve, publish or hub), a mirror, or the URL of a PostgreSQL database; lockstep status DIR finds the state of what was published from DIR")
	case errors.Is(err, statebackup.ErrOccupied):
		return term.WithHint(err, "stop the process that uses it, and move it away; nothing is replaced")
	case errors.Is(err, fs.ErrPermission):
		return term.WithHint(err, "run this as the user who runs the process, or as root")
	}
	return stateplace.Explain(err)
}

// An Info is what the databases of a state contain.
type Info struct {
	Place     string         `json:"place"`
	Databases []DatabaseInfo `json:"databases"`
}

// A DatabaseInfo is what one database contains.
type DatabaseInfo struct {
	Name string `json:"name"`
	storage.Info
}

// Look returns what the databases at a place contain.
func Look(ctx context.Context, place string) (*Info, error) {
	all, err := databasesAt(place)
	if err != nil {
		return nil, err
	}
	info := &Info{Place: storage.WithoutPassword(place)}
	for _, d := range all {
		db, err := storage.OpenReader(ctx, d.place)
		if err != nil {
			return nil, explain(err)
		}
		i, err := db.Info(ctx)
		if err = errors.Join(err, db.Close()); err != nil {
			return nil, explain(fmt.Errorf("read %s: %w", d.name, err))
		}
		info.Databases = append(info.Databases, DatabaseInfo{d.name, i})
	}
	return info, nil
}

// nouns say what the rows of tables are, in the order in which they are shown.
var nouns = []struct{ table, noun string }{
	{"catalog_resource", "resource"}, {"catalog_change", "change"}, {"content", "stored content"}, {"memento_version", "version"},
	{"journal_held", "mirrored resource"}, {"journal_owed", "pending resource"}, {"journal_past", "earlier state"},
	{"ledger_record", "harvested record"}, {"hub_topic", "topic"}, {"hub_message", "message"}, {"hub_subscription", "subscription"}, {"hub_request", "request"},
}

// contents returns what a database contains, in words.
func (d *DatabaseInfo) contents() string {
	var parts []string
	for _, n := range nouns {
		if i := slices.IndexFunc(d.Tables, func(t storage.Table) bool { return t.Name == n.table }); i >= 0 {
			parts = append(parts, term.Count(d.Tables[i].Rows, n.noun))
		}
	}
	if len(parts) == 0 {
		return "nothing"
	}
	return strings.Join(parts, ", ")
}

// Print prints the information as a table.
func (i *Info) Print(io term.IO) {
	w := tabwriter.NewWriter(io.Out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "DATABASE\tENGINE\tSIZE\tCONTENTS")
	for k := range i.Databases {
		d := &i.Databases[k]
		fmt.Fprintf(w, "%s\t%s %s\t%s\t%s\n", d.Name, d.Engine, d.Version, term.Size(d.Bytes), d.contents())
	}
	_ = w.Flush() // there is no one left to report to
	for k := range i.Databases {
		noteOlder(io, i.Databases[k].Name, i.Databases[k].Schemas)
	}
}

// noteOlder says which tables of a database are left out.
func noteOlder(io term.IO, name string, schemas []storage.Schema) {
	for _, s := range schemas {
		if s.Version > 0 && s.Version < s.Latest {
			io.Notef("%s: the tables of the %s are left out: they are those of an earlier version (%d of %d); lockstep state migrate brings them up to date", name, s.Name, s.Version, s.Latest)
		}
	}
}

// ErrDamaged reports a state with problems; exit code 3.
var ErrDamaged = errors.New("the state is damaged")

// A Checked is the result of a check.
type Checked struct {
	Place     string            `json:"place"`
	Databases []DatabaseChecked `json:"databases"`
	Problems  int               `json:"problems"`
}

// A DatabaseChecked is the result for one database.
type DatabaseChecked struct {
	Name     string            `json:"name"`
	Problems []storage.Problem `json:"problems"`

	schemas []storage.Schema
}

// Check reads all databases at a place. If they have problems, the error wraps [ErrDamaged].
func Check(ctx context.Context, place string) (*Checked, error) {
	all, err := databasesAt(place)
	if err != nil {
		return nil, err
	}
	c := &Checked{Place: storage.WithoutPassword(place)}
	for _, d := range all {
		found, schemas, err := checkOne(ctx, d.place)
		if errors.Is(err, sqlite.ErrDamaged) {
			found, err = append(found, storage.Problem{What: err.Error()}), nil
		}
		if err != nil {
			return nil, explain(fmt.Errorf("check %s: %w", d.name, err))
		}
		if found == nil {
			found = []storage.Problem{}
		}
		c.Databases = append(c.Databases, DatabaseChecked{d.name, found, schemas})
		c.Problems += len(found)
	}
	if c.Problems > 0 {
		return c, term.WithHint(fmt.Errorf("%s: %w: %s", c.Place, ErrDamaged, term.Count(c.Problems, "problem")), "restore it from a backup (lockstep state restore); docs/guide/backup.md says what is lost without one")
	}
	return c, nil
}

func checkOne(ctx context.Context, place string) (found []storage.Problem, schemas []storage.Schema, err error) {
	db, err := storage.OpenReader(ctx, place)
	if err != nil {
		return nil, nil, err
	}
	if schemas, err = db.Schemas(ctx); err == nil {
		found, err = db.Check(ctx)
	}
	return found, schemas, errors.Join(err, db.Close())
}

// Print prints the problems.
func (c *Checked) Print(io term.IO) {
	for _, d := range c.Databases {
		if len(d.Problems) == 0 {
			io.Printf("%s: whole\n", d.Name)
		}
		noteOlder(io, d.Name, d.schemas)
		for i := range d.Problems {
			io.Printf("%s: %s\n", d.Name, d.Problems[i].String())
		}
	}
}

// Backup writes a state to a file, which must not be in the state.
func Backup(ctx context.Context, place, file string) (statebackup.Result, error) {
	if !storage.IsURL(place) {
		if _, err := databasesAt(place); err != nil {
			return statebackup.Result{}, err
		}
		if isBelow(file, place) {
			return statebackup.Result{}, term.Usage(fmt.Errorf("write the backup: %s is in %s: each backup would contain all earlier ones", file, place),
				"give a FILE outside of it, better still on another disk")
		}
	}
	r, err := statebackup.Backup(ctx, place, file, time.Now())
	if errors.Is(err, fs.ErrExist) {
		err = term.WithHint(err, "give another name; nothing is overwritten")
	}
	return r, explain(err)
}

// isBelow reports whether a file, which need not exist, is or would be below a directory,
// whatever symbolic links lead to them.
func isBelow(file, dir string) bool {
	top, err := os.Stat(dir)
	if err != nil {
		return false
	}
	at, err := filepath.Abs(filepath.Dir(file))
	if err == nil {
		at, err = filepath.EvalSymlinks(at)
	}
	for err == nil {
		var info fs.FileInfo
		if info, err = os.Stat(at); err == nil && os.SameFile(info, top) {
			return true
		}
		if filepath.Dir(at) == at {
			return false
		}
		at = filepath.Dir(at)
	}
	return false // there is no directory for the file
}

// Restore restores a state from a file.
func Restore(ctx context.Context, file, place string) (statebackup.Result, error) {
	if _, err := os.Stat(file); errors.Is(err, fs.ErrNotExist) {
		return statebackup.Result{}, term.Usage(fmt.Errorf("read the backup: %w", err), "give a file that state backup has written")
	}
	r, err := statebackup.Restore(ctx, file, place, time.Now())
	if errors.Is(err, errors.ErrUnsupported) {
		hint := "restore it to a directory"
		if r.Kind == statebackup.Database {
			hint = "restore it to an empty database, as postgres://user@host/database"
		}
		err = term.WithHint(err, hint)
	}
	return r, explain(err)
}

// PrintRestored says what was restored to a place.
func PrintRestored(io term.IO, r *statebackup.Result, place string) {
	io.Printf("%s is as it was on %s\n", storage.WithoutPassword(place), r.Saved.UTC().Format("2006-01-02 at 15:04:05Z"))
	if r.Kind != statebackup.Mirror {
		io.Notef("If it is that of a Source, the history of its changes restarts with the next publication, and Destinations compare everything once.")
	}
}

// A Copied is the result of a copy.
type Copied struct {
	From string `json:"from"`
	To   string `json:"to"`
	storage.Copied
}

// Copy copies the database at one place to another one, which is empty, or with resume an
// unfinished copy: one that is complete may be in use since. progress is called with how many rows were compared.
func Copy(ctx context.Context, from, to string, resume bool, progress func(table string, rows int64)) (c Copied, err error) {
	all, err := databasesAt(from)
	if err != nil {
		return c, err
	}
	if len(all) != 1 {
		names := make([]string, len(all))
		for i, d := range all {
			names[i] = filepath.Join(from, filepath.FromSlash(d.name))
		}
		return c, term.Usage(fmt.Errorf("%s has %d databases", from, len(all)), "give one of "+strings.Join(names, ", "))
	}
	c.From, c.To = all[0].name, storage.WithoutPassword(to)
	release, err := lockStates(ctx, "state copy", from, to)
	if err != nil {
		return c, err
	}
	defer release()
	source, err := storage.OpenReader(ctx, all[0].place)
	if err != nil {
		return c, explain(err)
	}
	defer func() { err = errors.Join(err, source.Close()) }()
	target, err := storage.Open(ctx, to)
	if err != nil {
		return c, explain(err)
	}
	defer func() { err = errors.Join(err, target.Close()) }()
	empty, err := target.IsEmpty(ctx)
	unfinished := false
	if err == nil {
		unfinished, err = target.IsUnfinished(ctx)
	}
	if err == nil && !empty && !(resume && unfinished) {
		err = fmt.Errorf("copy to %s: %w", c.To, statebackup.ErrOccupied)
		if unfinished {
			err = term.WithHint(err, "it is a copy that was interrupted: continue it with --continue, and its rows become those of FROM")
		}
	}
	if err != nil {
		return c, explain(err)
	}
	c.Copied, err = storage.Copy(ctx, source, target, progress)
	return c, err
}

// lockStates locks the states that places are, or are in. It refuses databases that processes use.
func lockStates(ctx context.Context, command string, places ...string) (release func(), err error) {
	var held []func()
	release = func() {
		for _, r := range held {
			r()
		}
	}
	for _, place := range places {
		r, err := lockState(ctx, command, place)
		if err != nil {
			release()
			return nil, explain(err)
		}
		held = append(held, r)
	}
	return release, nil
}

// lockState locks one state. A file whose name no state has is used by no process.
func lockState(ctx context.Context, command, place string) (release func(), err error) {
	if storage.IsURL(place) {
		return func() {}, storage.CheckFree(ctx, place)
	}
	state := statebackup.Of(place)
	if info, err := os.Stat(place); err == nil && info.IsDir() {
		if state, err = statebackup.Find(place); err != nil {
			return nil, err
		}
		state.Dir = place // as the user has written it
	}
	switch {
	case state == nil:
		return func() {}, nil
	case !state.Mirror:
		return statedir.Lock(state.Dir, command)
	}
	l, err := lock.Acquire(state.Dir)
	if err != nil {
		return nil, term.WithHint(err, "wait for it to end, or stop it: its progress is kept")
	}
	return func() { _ = l.Close() }, nil
}

// A Migrated is what a migration has done.
type Migrated struct {
	Place    string      `json:"place"`
	Migrated []Migration `json:"migrated"`
}

// A Migration is that of one part of a database.
type Migration struct {
	Database string `json:"database"`
	Schema   string `json:"schema"`
	From     int    `json:"from"`
	To       int    `json:"to"`
}

// Migrate brings all databases at a place up to date.
func Migrate(ctx context.Context, place string) (*Migrated, error) {
	all, err := databasesAt(place)
	if err != nil {
		return nil, err
	}
	release, err := lockStates(ctx, "state migrate", place)
	if err != nil {
		return nil, err
	}
	defer release()
	m := &Migrated{Place: storage.WithoutPassword(place), Migrated: []Migration{}}
	for _, d := range all {
		before, err := schemas(ctx, d.place)
		if err != nil {
			return nil, explain(err)
		}
		if err := storage.Migrate(ctx, d.place); err != nil {
			return nil, explain(err)
		}
		for _, s := range before {
			if s.Version < s.Latest {
				m.Migrated = append(m.Migrated, Migration{d.name, s.Name, s.Version, s.Latest})
			}
		}
	}
	return m, nil
}

func schemas(ctx context.Context, place string) ([]storage.Schema, error) {
	db, err := storage.OpenReader(ctx, place)
	if err != nil {
		return nil, err
	}
	all, err := db.Schemas(ctx)
	return all, errors.Join(err, db.Close())
}

// Print prints what was done.
func (m *Migrated) Print(io term.IO) {
	if len(m.Migrated) == 0 {
		io.Printf("%s: nothing to do, the tables are those of this version\n", m.Place)
	}
	for _, s := range m.Migrated {
		io.Printf("%s: %s brought from version %d to %d\n", s.Database, s.Schema, s.From, s.To)
	}
}
