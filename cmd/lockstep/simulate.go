package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"lockstep/cmd/lockstep/internal/admin"
	"lockstep/cmd/lockstep/internal/certificate"
	"lockstep/cmd/lockstep/internal/listen"
	"lockstep/cmd/lockstep/internal/term"
	"lockstep/internal/simulate"
	"lockstep/source"
)

// simulateOptions are the flags of simulate.
type simulateOptions struct {
	out       *term.Options
	listen    string
	tls       certificate.Flags
	baseURL   string
	resources int
	size      string
	rate      float64
	changes   int64
	mix       string
	seed      uint64
	every     time.Duration
	faults    string
	dump      bool
	entries   int
}

func newSimulate(io term.IO, out *term.Options) *cobra.Command {
	o := &simulateOptions{out: out}
	cmd := &cobra.Command{
		Use:   "simulate [flags]",
		Short: "Run a Source whose resources keep changing, for tests and load",
		Long: `Be a Source of made-up resources that keep changing. Nothing is stored: what a
resource holds follows from the seed, so that any number of simulations with the
same flags hold the same after the same number of changes, to the byte.

The line "ready: URL" on stdout says that everything is served. With --faults it
answers as a bad network or a broken server would.`,
		Example: `  lockstep simulate --resources 100000 --size 1KB-100KB --rate 50
  lockstep simulate --rate 10 --faults status=2%,reset=2%,cut=2%,stall=1%`,
		Args: arguments(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return asService(cmd.Context(), out, io, func(ctx context.Context) error { return runSimulate(ctx, o, io) })
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&o.listen, "listen", "127.0.0.1:8080", "serve at `HOST:PORT`; port 0 takes a free one")
	o.tls.Declare(flags)
	flags.StringVar(&o.baseURL, "base-url", "", "the public `URL` of this Source (default: that of --listen)")
	flags.IntVar(&o.resources, "resources", simulate.DefaultResources, "begin with `N` resources")
	flags.StringVar(&o.size, "size", "4KB", "`SIZE` of a resource, or a range of sizes as 1KB-10MB, each order of magnitude as frequent")
	flags.Float64Var(&o.rate, "rate", 1, "make `R` changes a second; 0 none")
	flags.Int64Var(&o.changes, "changes", 0, "stop changing after `N` changes, and go on serving; 0 never")
	flags.StringVar(&o.mix, "mix", "10:80:10", "`CREATED:UPDATED:DELETED`, the shares of the three kinds of change")
	flags.Uint64Var(&o.seed, "seed", 1, "`NUMBER` from which everything follows")
	flags.DurationVar(&o.every, "every", simulate.DefaultEvery, "publish changes once in this `DURATION`")
	flags.StringVar(&o.faults, "faults", "", "fail in these `SHARES` of requests: status=2%,reset=2%,cut=2%,stall=1%,flip=1%")
	flags.BoolVar(&o.dump, "dump", false, "offer a Resource Dump and a Change Dump too")
	flags.IntVar(&o.entries, "part-entries", 0, "close a part of the Change List when it has `N` changes; 0 when it must be")
	return cmd
}

// settings returns what the flags say.
func (o *simulateOptions) settings() (so simulate.Options, err error) {
	if o.resources < 0 || o.rate < 0 || o.changes < 0 || o.entries < 0 || o.every <= 0 {
		return so, term.Usage(errors.New("--resources, --rate, --changes and --part-entries must not be below 0, --every above it"), "")
	}
	so = simulate.Options{
		BaseURL: o.baseURL, Seed: o.seed, Resources: o.resources, Rate: o.rate, Changes: o.changes, Every: o.every,
		ChangeList: source.ChangeList{Entries: o.entries},
	}
	if o.resources == 0 {
		so.Resources = -1
	}
	if so.Sizes, err = simulate.ParseSizes(o.size); err != nil {
		return so, term.Usage(fmt.Errorf("--size %w", err), "")
	}
	if so.Faults, err = simulate.ParseFaults(o.faults); err != nil {
		return so, term.Usage(fmt.Errorf("--faults %w", err), "")
	}
	if so.Mix, err = parseMix(o.mix); err != nil {
		return so, err
	}
	if o.dump {
		so.ResourceDump, so.ChangeDump = new(source.ResourceDump), new(source.ChangeDump)
	}
	return so, nil
}

// parseMix reads --mix.
func parseMix(s string) (simulate.Mix, error) {
	var shares [3]uint
	parts := strings.Split(s, ":")
	ok := len(parts) == len(shares)
	for i := 0; ok && i < len(parts); i++ {
		n, err := strconv.ParseUint(parts[i], 10, 16)
		shares[i], ok = uint(n), err == nil
	}
	if !ok || shares[0]+shares[1]+shares[2] == 0 {
		return simulate.Mix{}, term.Usage(term.Usagef("--mix %q: want three whole numbers, not all 0", s), "as 10:80:10")
	}
	return simulate.Mix{Created: shares[0], Updated: shares[1], Deleted: shares[2]}, nil
}

// A simulation is what simulate prints with --json.
type simulation struct {
	BaseURL        string `json:"base_url"`
	Listen         string `json:"listen"`
	CapabilityList string `json:"capability_list"`
	Resources      int64  `json:"resources"`
	Seed           uint64 `json:"seed"`
}

// runSimulate simulates until ctx ends.
func runSimulate(ctx context.Context, o *simulateOptions, io term.IO) error {
	so, err := o.settings()
	if err != nil {
		return err
	}
	if err := so.Check(); err != nil {
		return term.Usage(err, "")
	}
	so.Logger = o.out.Logger(io)
	tls, err := o.tls.Open(so.Logger)
	if err != nil {
		return err
	}
	l, err := listen.Open(ctx, o.listen)
	if err != nil {
		return err
	}
	defer func() { _ = l.Close() }() // the server closes it as well
	if so.BaseURL == "" {
		so.BaseURL = listen.BaseURL(tls.Scheme(), l.Addr(), io)
	}
	tls.WarnAbout(so.BaseURL, io)
	var made simulate.Progress
	so.OnDone = func(p simulate.Progress) {
		if !o.out.Quiet && p.Changes/1000 != made.Changes/1000 {
			io.Errorf("%s made; %s\n", term.Count(p.Changes, "change"), term.Count(p.Resources, "resource"))
		}
		made = p
	}
	sim, err := simulate.New(ctx, so)
	if err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return term.Usage(err, "")
	}
	list, err := source.CapabilityListURI(so.BaseURL, source.DefaultSet)
	if err != nil {
		return err
	}
	switch {
	case o.out.JSON:
		err = io.PrintJSON(simulation{BaseURL: so.BaseURL, Listen: l.Addr().String(), CapabilityList: list, Resources: sim.Progress().Resources, Seed: o.seed})
		if err != nil {
			return err
		}
	case o.out.Quiet:
		io.Printf("%s%s\n", listen.ReadyPrefix, so.BaseURL)
	default:
		io.Printf("simulating %s, %v changes a second, seed %d\n", term.Count(sim.Progress().Resources, "resource"), o.rate, o.seed)
		io.Printf("  capability list  %s\n", list)
		io.Printf("  mirror it with   lockstep sync %s DEST\n", so.BaseURL)
		io.Printf("%s%s\n", listen.ReadyPrefix, so.BaseURL)
	}
	srv := source.NewServer(sim.Handler())
	srv.ErrorLog = slog.NewLogLogger(so.Logger.Handler(), slog.LevelDebug)
	return admin.ServeBeside(ctx, srv, tls.Over(l), sim.Run)
}
