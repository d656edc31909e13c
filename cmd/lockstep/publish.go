package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"lockstep/cmd/lockstep/internal/config"
	"lockstep/cmd/lockstep/internal/hubflags"
	"lockstep/cmd/lockstep/internal/mirror"
	"lockstep/cmd/lockstep/internal/term"
	"lockstep/intake"
)

// publishOptions are the flags of publish.
type publishOptions struct {
	sourceFlags
	result *term.Options
	out    string
}

func newPublish(io term.IO, out *term.Options) *cobra.Command {
	o := &publishOptions{result: out}
	cmd := &cobra.Command{
		Use:   "publish DIR --out OUT --base-url URL [flags]",
		Short: "Write the documents as static files for any web server",
		Long: `Scan DIR and write its ResourceSync documents to the directory or bucket OUT, as
static files for the web server that serves DIR. OUT may be DIR itself: the
documents are then stored beside the files and are never published as resources.
Run it again after changes, or leave it running with --watch.

In place of DIR there can be a bucket (s3://BUCKET/PREFIX), JSON lines
(jsonl:FILE, jsonl:- for standard input), a sitemap (sitemap:URL), a feed of
Atom-PMH (atom-pmh:URL) or a repository (oai-pmh:URL), whose records are written
to OUT. Several sets are described in a configuration file.

The web server must serve what is in OUT below the base URL, and DIR too.`,
		Example: `  lockstep publish /var/www --out /var/www --base-url https://data.example.org/
  lockstep publish files --out documents --base-url https://data.example.org/ --watch
  lockstep publish jsonl:export.jsonl --out s3://bucket/docs --base-url https://data.example.org/`,
		Args: arguments(0, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.settle(cmd.Flags(), args, io.LookupEnv); err != nil {
				return err
			}
			if len(args) == 0 && len(o.file.Sets) == 0 {
				return term.Usage(errors.New("publish: DIR is missing"), "usage: "+cmd.UseLine()+"; or name sets in the configuration")
			}
			return runPublish(cmd.Context(), o, io)
		},
	}
	cmd.Flags().StringVar(&o.out, "out", "", "write the documents to the directory or bucket `OUT`")
	o.declare(cmd.Flags(), "the `URL` below which the web server serves the documents, and the files", false)
	return cmd
}

// check refuses what cannot work before anything is written.
func (o *publishOptions) check() error {
	if o.out == "" {
		return term.Usage(errors.New("--out is missing"), "say where to write the documents: the directory your web server serves, --out "+o.places())
	}
	if strings.Contains(o.out, "://") && !mirror.IsBucket(o.out) {
		return term.Usagef("--out %s: want a directory or s3://BUCKET/PREFIX", o.out)
	}
	if o.baseURL == "" {
		return term.Usage(errors.New("--base-url is missing"),
			"the documents name every file by its URL: say where your web server serves them, as --base-url https://data.example.org/")

	}
	if u, err := url.Parse(o.baseURL); err != nil || u.Host == "" {
		return term.Usage(term.Usagef("--base-url %q is no URL", o.baseURL), "as --base-url https://data.example.org/")
	}
	return nil
}

// runPublish publishes once, or with --watch until ctx ends.
func runPublish(ctx context.Context, o *publishOptions, io term.IO) error {
	if err := o.check(); err != nil {
		return err
	}
	so := o.site("publish", o.result, io)
	so.documents = o.out
	n := &newsroom{io: io, quiet: o.result.Quiet}
	n.beside = slices.ContainsFunc(o.sets, func(c config.Set) bool { return beside(c.Origin, o.out) })
	if so.onEvent = n.event; o.watching() {
		so.onNotify = n.notified // else what goes wrong is an error
	}
	start := time.Now()
	s, err := openSite(ctx, so)
	if err != nil {
		return err
	}
	defer s.Close()
	stop := term.ShowProgress(io, o.result.Quiet, n.line)
	p, err := s.publishOnce(ctx, n)
	var dumpErr error
	if err == nil {
		n.dumping()
		p.dumps, dumpErr = s.dump(ctx, n)
	}
	stop()
	if err != nil {
		return err
	}
	if err := printPublish(io, o, s, &p, time.Since(start)); err != nil {
		return err
	}
	if o.watching() {
		if dumpErr != nil {
			n.warn(dumpErr)
		}
		return s.goOn(ctx, n)
	}
	return errors.Join(p.failed(), dumpErr, unreadable(p.scans), hubflags.NotifyOnce(ctx, s.src))
}

// goOn publishes changes and builds dumps as they fall due until ctx ends.
func (s *site) goOn(ctx context.Context, n *newsroom) error {
	g, gctx := errgroup.WithContext(ctx)
	g.Go(func() error { return s.watch(gctx, n) })
	g.Go(func() error { return s.upkeep(gctx, n) })
	g.Go(func() error { return s.src.Notify(gctx) })
	if err := g.Wait(); err != nil && ctx.Err() == nil {
		return err
	}
	return context.Cause(ctx)
}

// A published is what publish prints with --json.
type published struct {
	BaseURL        string         `json:"base_url"`
	Out            string         `json:"out"`
	CapabilityList []string       `json:"capability_lists"`
	Resources      int64          `json:"resources"`
	Created        int64          `json:"created"`
	Updated        int64          `json:"updated"`
	Deleted        int64          `json:"deleted"`
	Unreadable     int64          `json:"unreadable"`
	Written        bool           `json:"written"`
	DumpPackages   int            `json:"dump_packages"` // made now
	Sets           []publishedSet `json:"sets"`
	Elapsed        float64        `json:"elapsed_seconds"`
}

// A publishedSet is one set of it.
type publishedSet struct {
	Set            string `json:"set"`
	CapabilityList string `json:"capability_list"`
	Resources      int64  `json:"resources"`
	Created        int64  `json:"created"`
	Updated        int64  `json:"updated"`
	Deleted        int64  `json:"deleted"`
	Unreadable     int64  `json:"unreadable"`
	Error          string `json:"error,omitempty"`
}

// summary sums up a publication.
func (o *publishOptions) summary(p *publication, took time.Duration) published {
	sum := published{BaseURL: o.baseURL, Out: o.out, Written: p.report.Written || p.dumps.Written, Resources: p.resources(), Elapsed: took.Seconds()}
	for i, scan := range p.scans {
		set := publishedSet{
			Set: scan.set.name, CapabilityList: scan.set.list, Created: scan.Created, Updated: scan.Updated, Deleted: scan.Deleted,
			Unreadable: scan.Unreadable.Count,
		}
		if i < len(p.report.Sets) {
			set.Resources = p.report.Sets[i].Resources
		}
		if scan.err != nil {
			set.Error = scan.err.Error()
		}
		sum.Sets = append(sum.Sets, set)
		sum.CapabilityList = append(sum.CapabilityList, set.CapabilityList)
		sum.Created, sum.Updated, sum.Deleted = sum.Created+set.Created, sum.Updated+set.Updated, sum.Deleted+set.Deleted
		sum.Unreadable += set.Unreadable
	}
	for _, d := range p.dumps.Sets {
		if d.Dump {
			sum.DumpPackages += d.Packages - d.Reused
		}
		sum.DumpPackages += d.Added
	}
	return sum
}

// printPublish prints what a publication came to.
func printPublish(io term.IO, o *publishOptions, s *site, p *publication, took time.Duration) error {
	sum := o.summary(p, took)
	if o.result.JSON {
		return io.PrintJSON(sum)
	}
	if !sum.Written {
		io.Printf("nothing changed: the documents in %s are up to date\n", o.out)
	} else {
		io.Printf("published %s in %s\n", term.Count(sum.Resources, "resource"), o.out)
		io.Printf("  %s created, %s updated, %s deleted, %s\n", term.Thousands(sum.Created), term.Thousands(sum.Updated), term.Thousands(sum.Deleted), term.Elapsed(took))
	}
	s.printSets(io)
	io.Printf("  mirror it with   lockstep sync %s/ DEST\n", strings.TrimSuffix(o.baseURL, "/"))
	return nil
}

// readable says how to make files readable that are not.
func readable(files *intake.Problems) string {
	forbidden, malformed := false, false
	for _, p := range files.First {
		if _, ok := errors.AsType[*intake.EntryError](p.Err); ok {
			malformed = true
		} else if errors.Is(p.Err, fs.ErrPermission) {
			forbidden = true
		}
	}
	switch {
	case forbidden && malformed:
		return "see that this user may read them, and mend what is malformed"
	case forbidden:
		return "see that this user may read them"
	case malformed:
		return "mend what is malformed, and run the same command again"
	}
	return "run the same command again when that is mended"
}

// errUnreadable reports resources that could not be published.
var errUnreadable = errors.New("some files could not be read and are published as they were")

// unreadable returns an error if a scan could not read everything.
func unreadable(scans []scanned) error {
	var errs []error
	for _, scan := range scans {
		switch n, kind := scan.Unreadable.Count, scan.set.from.Kind; {
		case n == 0:
		case kind.Away, kind.Harvest:
			errs = append(errs, term.WithHint(fmt.Errorf("set %s: %s could not be read; what the others say is published", scan.set.name, term.Count(n, kind.Part)),
				"they are named above; as long as there are any, nothing is deleted for not being listed"))
		case kind.Part != "":
			errs = append(errs, term.WithHint(fmt.Errorf("set %s: %s could not be read and are published as they were", scan.set.name, term.Count(n, kind.Part)),
				"they are named above; see that these credentials may read them"))
		default:
			errs = append(errs, term.WithHint(errUnreadable, "they are named above; "+readable(&scan.Unreadable)))
		}
	}
	return errors.Join(errs...)
}
