// Package explorer runs the command that shows what is at an address: as pages for the
// browser of the user, as a tree, or as JSON.
package explorer

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/spf13/pflag"

	"lockstep/cmd/lockstep/internal/admin"
	"lockstep/cmd/lockstep/internal/explorer/compare"
	"lockstep/cmd/lockstep/internal/explorer/gate"
	"lockstep/cmd/lockstep/internal/explorer/outline"
	"lockstep/cmd/lockstep/internal/explorer/pages"
	"lockstep/cmd/lockstep/internal/explorer/place"
	"lockstep/cmd/lockstep/internal/mirror"
	"lockstep/cmd/lockstep/internal/network"
	"lockstep/cmd/lockstep/internal/report"
	"lockstep/cmd/lockstep/internal/term"
	"lockstep/destination"
	"lockstep/source"
	"lockstep/storage/sqlite"
)

// Options are the flags of explore.
type Options struct {
	Address string // may be empty
	Network network.Options
	Out     *term.Options

	listen  string
	tree    bool
	all     bool
	entries int
	mirror  string
}

// Declare declares the flags.
func (o *Options) Declare(flags *pflag.FlagSet) {
	flags.StringVar(&o.listen, "listen", "127.0.0.1:0", "serve the pages at `HOST:PORT`, which must be a loopback address; port 0 is any that is free")
	flags.BoolVar(&o.tree, "tree", false, "print a tree instead of serving pages")
	flags.BoolVar(&o.all, "all", false, "with --tree or --json: read all parts of all lists, not only the first part of each")
	flags.IntVar(&o.entries, "entries", 0, "with --tree or --json: also print the first `N` entries of each list")
	flags.StringVar(&o.mirror, "mirror", "", "the mirror in `DIR` can be compared with ADDRESS")
	o.Network.Declare(flags, network.TheSource)
}

// check reports flags that cannot be used.
func (o *Options) check() error {
	text := o.tree || o.Out.JSON
	switch {
	case text && o.Address == "":
		return term.Usagef("explore: --tree and --json need an ADDRESS")
	case !text && (o.all || o.entries != 0):
		return term.Usage(errors.New("explore: --all and --entries are for --tree and --json"), "on the pages, read all with the button")
	case o.entries < 0:
		return term.Usagef("--entries %d: want 0 or more", o.entries)
	case o.mirror != "" && !mirror.IsBucket(o.mirror) && !mirror.IsMirror(o.mirror):
		return term.Usage(fmt.Errorf("--mirror %s: there is no mirror", o.mirror), "give the directory of a mirror")
	case !term.IsHostPort(o.listen):
		return term.Usage(fmt.Errorf("--listen %q: want HOST:PORT", o.listen), "as 127.0.0.1:8080, or 127.0.0.1:0 for any port that is free")
	}
	host, _, _ := net.SplitHostPort(o.listen) // as just checked
	if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return term.Usage(fmt.Errorf("--listen %s: not a loopback address", o.listen), "the pages are for this computer; from another one, forward the port with ssh -L")
	}
	return nil
}

// A session is what the places of one run share.
type session struct {
	o     *Options
	io    term.IO
	dir   string // for temporary files
	start func(task func(context.Context))
}

// Run shows what is at an address.
func Run(ctx context.Context, o *Options, io term.IO) error {
	if err := o.check(); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "lockstep-explore-*")
	if err != nil {
		return fmt.Errorf("create a directory for temporary files: %w", err)
	}
	defer os.RemoveAll(dir) // what is left there is of no use to anyone
	tasks, stop := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer stop()
	s := &session{o: o, io: io, dir: dir, start: func(task func(context.Context)) {
		running.Go(func() { task(tasks) })
	}}
	var p *place.Place
	if o.Address != "" {
		stopProgress := term.ShowProgress(io, o.Out.Quiet, func() string { return "looking for documents" })
		p, err = s.open(ctx, o.Address)
		stopProgress()
		if err != nil {
			return mirror.ExplainSource(err, o.Address, "")
		}
	}
	if o.tree || o.Out.JSON {
		defer p.Close()
		return s.print(ctx, p)
	}
	return s.serve(ctx, p)
}

// open opens what is at an address.
func (s *session) open(ctx context.Context, address string) (*place.Place, error) {
	client, err := s.o.Network.Client(address, s.io.LookupEnv, s.o.Out.Logger(s.io))
	if err != nil {
		return nil, err
	}
	return place.Open(ctx, place.Options{Address: address, Client: client, Dir: s.dir, Start: s.start, Mirror: openMirror})
}

// openMirror opens the state of the mirror in a directory for reading; ok is false if
// there is none.
func openMirror(ctx context.Context, dir string) (*place.MirrorState, bool, error) {
	db, err := sqlite.OpenReader(filepath.Join(dir, filepath.FromSlash(destination.StateFile)))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, false, nil
	case errors.Is(err, fs.ErrPermission):
		return nil, false, term.WithHint(fmt.Errorf("%s: only the user who runs the mirror may read its state", dir), "explore it as that user, or as root")
	case err != nil:
		return nil, false, err
	}
	state, err := destination.Inspect(ctx, db.Journal())
	if err != nil {
		return nil, false, errors.Join(fmt.Errorf("read the state of %s: %w", dir, err), db.Close())
	}
	return &place.MirrorState{MirrorState: state, Journal: db.Journal(), Close: db.Close}, true, nil
}

// print prints a place as a tree or as JSON.
func (s *session) print(ctx context.Context, p *place.Place) error {
	stop := term.ShowProgress(s.io, s.o.Out.Quiet, func() string {
		var rows int64
		for _, l := range p.Lists() {
			st := l.State()
			rows += st.Rows + st.Pending
		}
		return "reading " + p.Address + ": " + term.Count(rows, "entry")
	})
	out, err := outline.Of(ctx, p, outline.Options{All: s.o.all, Entries: s.o.entries})
	stop()
	if err == nil {
		err = unread(out)
	}
	if s.o.Out.JSON {
		out.Error = report.ErrorText(err)
		if perr := s.io.PrintJSON(out); err == nil {
			err = perr
		}
		return err
	}
	if perr := outline.Print(s.io.Out, out); err == nil {
		err = perr
	}
	return err
}

// unread returns an error if something could not be read.
func unread(p *outline.Place) error {
	failed := 0
	first := ""
	note := func(text string) {
		if text != "" {
			if failed++; first == "" {
				first = text
			}
		}
	}
	for _, s := range p.Sets {
		note(s.Error)
		for _, l := range s.Lists {
			note(l.Error)
		}
	}
	switch failed {
	case 0:
		return nil
	case 1:
		return errors.New(first)
	}
	return fmt.Errorf("%d documents cannot be read; the first: %s", failed, first)
}

// serve serves the pages until ctx ends.
func (s *session) serve(ctx context.Context, p *place.Place) error {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", s.o.listen)
	if err != nil {
		if p != nil {
			p.Close()
		}
		return term.WithHint(fmt.Errorf("listen for the browser: %w", err), "choose another port with --listen, or 127.0.0.1:0 for any that is free")
	}
	c := &compare.Comparer{Network: s.o.Network, Out: s.o.Out, IO: s.io, Dir: s.dir}
	server := pages.New(pages.Options{Open: s.open, Place: p, Mirror: s.o.mirror, Compare: c.WithMirror, Diff: c.Instants, Now: time.Now})
	defer server.Close()
	g := gate.New(l.Addr().String())
	if p != nil {
		s.io.Printf("%s: %s\n", p.Address, p.Kind)
	}
	_, _ = fmt.Fprintf(s.io.Out, "open http://%s/%s\n", l.Addr(), g.Query()) // with its token
	s.io.Notef("The address admits one browser. Ctrl-C ends the explorer.\n")
	err = admin.ServeBeside(ctx, source.NewServer(g.Handler(server.Handler(), server.Refuse)), l)
	return term.EndOfService(ctx, err, s.o.Out.Logger(s.io))
}
