package status

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"lockstep/cmd/lockstep/internal/admin"
	"lockstep/cmd/lockstep/internal/config"
	"lockstep/cmd/lockstep/internal/health"
	"lockstep/cmd/lockstep/internal/mirror"
	"lockstep/cmd/lockstep/internal/mirrors"
	"lockstep/cmd/lockstep/internal/stateplace"
	"lockstep/cmd/lockstep/internal/term"
	"lockstep/cmd/lockstep/internal/upstreams"
	"lockstep/destination"
	"lockstep/internal/fetch"
	"lockstep/internal/fetch/requestlog"
	"lockstep/internal/mirrordir"
	"lockstep/internal/statedir"
	"lockstep/internal/trust"
	"lockstep/storage"
	"lockstep/storage/sqlite"
)

// Options say what to look at.
type Options struct {
	Target    string   // the argument: a URL, a directory, or what serve is given; may be empty
	Names     []string // of mirrors that Config describes; none: all that it describes
	State     string   // state directory
	Config    string   // configuration file
	Admin     string   // address of the admin listener
	TokenFile string
	CertFile  string // with the certificate of the admin listener
	CAFile    string
	Log       *slog.Logger // of requests to a URL; nil: none
	LookupEnv func(string) (string, bool)
}

// Look returns the state of what the options say.
func Look(ctx context.Context, o Options) (health.Result, error) {
	if IsURL(o.Target) {
		return o.lookAtURL(ctx)
	}
	if o.Config != "" {
		places, err := o.readConfig()
		if err != nil {
			return nil, err
		}
		if len(places) > 0 {
			return LookAtAll(ctx, places), nil
		}
	}
	r, err := o.lookAtProcess(ctx)
	if p, ok := r.(*health.Process); ok && err == nil && len(o.Names) > 0 {
		return p, o.keepNamed(p)
	}
	return r, err
}

// lookAtProcess returns the state of the process, or of the mirror, that State and Admin lead to.
func (o *Options) lookAtProcess(ctx context.Context) (health.Result, error) {
	if storage.IsURL(o.State) && o.Admin != "" { // the token is in its local directory
		place, err := stateplace.Parse(o.State, o.LookupEnv)
		if err != nil {
			return nil, err
		}
		o.State = place.Dir
	}
	if o.State == "" && o.Admin == "" || o.Target != "" && o.State == "" {
		if err := o.findState(); err != nil {
			return nil, err
		}
	}
	switch o.Admin {
	case admin.AdminOff:
		return nil, term.Usage(errors.New("the process does not listen for administration: its configuration has admin: off"), "leave admin out, and start it again")
	case "":
		return o.lookAtState(ctx)
	}
	token, err := o.token()
	if err != nil {
		return nil, err
	}
	s, err := AtAddress(o.Admin, token, o.CertFile)
	if err != nil {
		return nil, err
	}
	p, err := s.Ask(ctx)
	if err != nil {
		return nil, err
	}
	return p, nil
}

// IsURL reports whether an argument is the address of a service.
func IsURL(target string) bool {
	return strings.HasPrefix(target, "http://") || strings.HasPrefix(target, "https://")
}

// lookAtURL asks a service by its public address: all, with the admin token.
func (o *Options) lookAtURL(ctx context.Context) (health.Result, error) {
	roots, err := fetch.Certificates(o.CAFile)
	if err != nil {
		return nil, term.Usage(fmt.Errorf("--ca-file: %w", err), "")
	}
	token, err := o.token()
	if err != nil {
		return nil, err
	}
	s, err := AtURL(o.Target, token, roots)
	if err != nil {
		return nil, err
	}
	s.client.Transport = requestlog.Transport(s.client.Transport, o.Log, nil)
	if token != "" {
		p, err := s.Ask(ctx)
		if err != nil {
			return nil, err
		}
		return p, nil
	}
	p, err := s.AskPublic(ctx)
	if err != nil {
		return nil, err
	}
	return p, nil
}

// readConfig takes what the options leave open from the configuration file. It returns the
// mirrors of the file, or those that are named, if no process follows them, and the file has no
// sets or mirrors are named.
func (o *Options) readConfig() ([]Place, error) {
	file, err := config.Read(o.Config)
	if err != nil {
		return nil, err
	}
	if err := o.checkNames(file); err != nil {
		return nil, err
	}
	if len(o.Names) > 0 && len(file.Sets) > 0 { // the process of the file publishes its sets
		return o.placesInConfig()
	}
	if len(file.Mirrors) > 0 && len(file.Sets) == 0 && o.State == "" && o.Admin == "" {
		if o.State, err = mirrors.StateDir(o.Config, o.LookupEnv); err != nil {
			return nil, err
		}
		if !isSocketIn(o.State) && file.FlagValues()["admin"] == nil {
			return o.placesInConfig()
		}
	}
	for _, v := range []struct {
		value *string
		name  string
	}{{&o.State, "state"}, {&o.Admin, "admin"}, {&o.TokenFile, "admin-token-file"}, {&o.CertFile, "tls-cert"}} {
		if given := file.FlagValues()[v.name]; *v.value == "" && len(given) > 0 {
			*v.value = given[0]
		}
	}
	return nil, nil
}

// checkNames refuses names of mirrors that the configuration file does not describe.
func (o *Options) checkNames(file config.File) error {
	var known, unknown []string
	for i := range file.Mirrors {
		known = append(known, file.Mirrors[i].Name)
	}
	for _, name := range o.Names {
		if !slices.Contains(known, name) {
			unknown = append(unknown, fmt.Sprintf("%q", name))
		}
	}
	switch {
	case len(unknown) == 0:
		return nil
	case len(known) == 0:
		return term.Usage(fmt.Errorf("%s describes no mirror %s", o.Config, strings.Join(unknown, ", ")), "it describes no mirrors; for the process that has this configuration, leave the name out")
	}
	return term.Usage(fmt.Errorf("%s describes no mirror %s", o.Config, strings.Join(unknown, ", ")), "its mirrors are "+strings.Join(known, ", "))
}

// placesInConfig returns the mirrors that the configuration file describes, or those that are
// named.
func (o *Options) placesInConfig() ([]Place, error) {
	all, err := mirrors.Places(o.Config)
	var places []Place
	for _, p := range all {
		if len(o.Names) == 0 || slices.Contains(o.Names, p.Name) {
			places = append(places, Place{Name: p.Name, Source: p.Source, Dest: p.Dest, State: p.State})
		}
	}
	return places, err
}

// keepNamed leaves only the named mirrors in what the process says that follows all mirrors of
// the configuration file.
func (o *Options) keepNamed(p *health.Process) error {
	for _, name := range o.Names {
		if !slices.ContainsFunc(p.Upstreams, func(u upstreams.Row) bool { return u.Mirror == name }) {
			return term.WithHint(fmt.Errorf("the process does not follow the mirror %s, which %s describes", name, o.Config), "have it read the file again: send it SIGHUP, or restart it")
		}
	}
	p.Upstreams = slices.DeleteFunc(p.Upstreams, func(u upstreams.Row) bool { return !slices.Contains(o.Names, u.Mirror) })
	p.Mirrors = len(slices.Compact(slices.Sorted(slices.Values(o.Names))))
	p.Settle()
	return nil
}

// findState determines the state directory as the process has it, or that of a mirror.
func (o *Options) findState() (err error) {
	if o.Config != "" {
		o.State, err = config.DefaultState(o.Config, true, o.LookupEnv)
		return err
	}
	place := o.Target
	if place == "" {
		place = "."
	}
	from, err := config.ParseArgument(place)
	if err != nil {
		return err
	}
	own := ""
	if dir := from.Dir(); dir != "" {
		own, err = config.DefaultState(dir, true, o.LookupEnv)
	} else {
		own, err = config.DefaultState(from.String(), false, o.LookupEnv)
	}
	if err != nil {
		return err
	}
	inMirror := mirrordir.State(place)
	for _, state := range []string{place, inMirror, own} {
		if path, err := trust.SocketIn(state); err == nil && exists(path) {
			o.State = state
			return nil
		}
	}
	catalog := filepath.Join(place, "catalog.db")
	database := filepath.Join(place, filepath.FromSlash(destination.StateFile))
	switch { // no process runs
	case exists(catalog), exists(filepath.Join(place, "hub.db")), exists(database):
		o.State = place
	case exists(own):
		o.State = own
	default:
		if err := hiddenFromUs(catalog, database, own); err != nil {
			return term.WithHint(err, "run this as the user who runs the process, or as root")
		}
		hint := "give the directory of a mirror, what serve was given, a state directory (--state), or the URL of a service"
		if term.IsHostPort(place) {
			hint = "give the URL of a service, such as http://" + place + "/, or the address at which it listens for administration, --admin " + place
		}
		return term.WithHint(fmt.Errorf("%s: there is no mirror, and no state of a service", fetch.WithoutUser(place)), hint)
	}
	return nil
}

// lookAtState asks the process that has its state in a directory, or reads the state of a
// mirror.
func (o *Options) lookAtState(ctx context.Context) (health.Result, error) {
	if storage.IsURL(o.State) {
		return o.lookAtDatabase(ctx)
	}
	dir := o.State // in which the socket is
	if IsMirror(dir) && !isSocketIn(dir) {
		dir = mirrordir.State(dir)
	}
	path, err := trust.SocketIn(dir)
	if err != nil {
		return nil, err
	}
	token, err := o.token()
	if err != nil {
		return nil, err
	}
	s, err := AtAddress(unixPrefix+path, token, "")
	if err != nil {
		return nil, err // unreachable: it is a socket
	}
	p, err := s.Ask(ctx)
	place := filepath.Dir(dir)
	isMirror := filepath.Base(dir) == filepath.Base(mirrordir.State(place)) && IsMirror(place)
	switch {
	case err == nil && isMirror:
		addRecorded(ctx, p, place)
		return p, nil
	case err == nil:
		return p, nil
	case isMirror && errors.Is(err, ErrNoProcess):
		return lookAtMirror(ctx, place, o.Target)
	case errors.Is(err, ErrNoProcess):
		if holder := statedir.Holder(dir); holder != "" {
			return nil, term.WithHint(fmt.Errorf("the state in %s is in use by %s, which does not listen for administration at %s", dir, holder, unixPrefix+path),
				"if that process was started with --admin HOST:PORT, give the same --admin HOST:PORT here; with --admin off it cannot be asked; if it is starting, try again")
		}
	}
	return nil, err
}

// lookAtDatabase asks the process of this machine that has its state in a database, or reads
// the state of a mirror.
func (o *Options) lookAtDatabase(ctx context.Context) (health.Result, error) {
	place, err := stateplace.Parse(o.State, o.LookupEnv)
	if err != nil {
		return nil, err
	}
	local := *o
	local.State = place.Dir
	if isSocketIn(place.Dir) { // of a Source or a hub
		return local.lookAtState(ctx)
	}
	m, err := lookAtMirror(ctx, o.State, cmp.Or(o.Target, place.String()))
	if errors.Is(err, mirror.ErrNoMirror) {
		return local.lookAtState(ctx)
	}
	return m, err
}

// lookAtMirror is LookAt for a mirror that was named by target, or whose state is in dir.
func lookAtMirror(ctx context.Context, dir, target string) (health.Result, error) {
	if target == "" {
		target = dir
	}
	m, err := LookAt(ctx, Place{Dest: target, State: dir})
	if err != nil {
		return nil, err
	}
	return m, nil
}

// addRecorded adds what the state of the mirror in a directory says: how much is pending.
func addRecorded(ctx context.Context, p *health.Process, dir string) {
	db, err := sqlite.OpenReader(filepath.Join(dir, filepath.FromSlash(destination.StateFile)))
	if err != nil {
		return // what the process says is what counts
	}
	state, err := destination.Inspect(ctx, db.Journal())
	if errors.Join(err, db.Close()) != nil {
		return
	}
	for i := range p.Upstreams {
		u := &p.Upstreams[i]
		for k := range state.Sets {
			if s := &state.Sets[k]; s.Name == u.Name || s.URI == u.Set {
				u.Pending += max(s.Pending-u.Unconfirmed, 0) // those are recorded, too
				u.Resources = &s.Resources
				if u.Error != "" && s.Error != "" {
					u.Error += ": " + upstreams.Sentence(s.Error)
				}
				break
			}
		}
	}
	p.Settle()
}

func isSocketIn(dir string) bool {
	path, err := trust.SocketIn(dir)
	return err == nil && exists(path)
}

// exists reports whether there is a file.
func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// hiddenFromUs returns why this user cannot see whether the first of the files exists of
// which that is so; nil if there is none.
func hiddenFromUs(files ...string) error {
	for _, file := range files {
		if _, err := os.Lstat(file); errors.Is(err, fs.ErrPermission) {
			return err
		}
	}
	return nil
}

// token returns the admin token; "" if there is none to be read: then only a socket, and
// public pages, answer.
func (o *Options) token() (string, error) {
	file := o.TokenFile
	if file == "" && o.State != "" {
		file = filepath.Join(o.State, admin.TokenName)
	}
	if file == "" {
		return "", nil
	}
	text, err := os.ReadFile(file)
	switch {
	case err != nil && o.TokenFile == "" && (errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission)):
		return "", nil
	case err != nil:
		return "", term.Usage(fmt.Errorf("--admin-token-file: %w", err), "")
	}
	token, _, _ := strings.Cut(strings.TrimSpace(string(text)), "\n")
	return strings.TrimSpace(token), nil
}
