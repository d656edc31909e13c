package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"lockstep/cmd/lockstep/internal/alert"
	"lockstep/cmd/lockstep/internal/config"
	"lockstep/cmd/lockstep/internal/mirror"
	"lockstep/cmd/lockstep/internal/site"
	"lockstep/cmd/lockstep/internal/sourceflags"
	"lockstep/cmd/lockstep/internal/sourcereport"
	"lockstep/cmd/lockstep/internal/stateplace"
	"lockstep/cmd/lockstep/internal/term"
	"lockstep/internal/fetch"
	"lockstep/resourcesync"
)

// publishOptions are the flags of publish.
type publishOptions struct {
	sourceflags.Source
	result *term.Options
	out    string
	alerts alert.Flags
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
			if err := o.Settle(cmd.Flags(), args, io.LookupEnv); err != nil {
				return err
			}
			if len(args) == 0 && len(o.File.Sets) == 0 {
				return term.Usage(errors.New("publish: DIR is missing"), "usage: "+cmd.UseLine()+"; or name sets in the configuration")
			}
			run := func(ctx context.Context) error {
				return o.alerts.Watch(ctx, alert.Run{Command: cmd.Name(), Source: o.Places(), Dest: o.out, Roots: o.Certificates}, io, exitCode, func(io term.IO, outcome *alert.Outcome) error {
					return mirror.ExplainAddress(runPublish(ctx, o, io, outcome))
				})
			}
			if o.Watching() {
				return asService(cmd.Context(), out, io, run)
			}
			return run(cmd.Context())
		},
	}
	cmd.Flags().StringVar(&o.out, "out", "", "write the documents to the directory or bucket `OUT`")
	o.alerts.DeclareRun(cmd.Flags())
	o.Declare(cmd.Flags(), "the `URL` below which the web server serves the documents, and the files", false)
	return cmd
}

// check refuses what cannot work before anything is written.
func (o *publishOptions) check() error {
	if o.out == "" {
		return term.Usage(errors.New("--out is missing"), "say where to write the documents: the directory your web server serves, --out "+o.Places())
	}
	if strings.Contains(o.out, "://") && !mirror.IsBucket(o.out) {
		return term.Usagef("--out %s: want a directory or s3://BUCKET/PREFIX", fetch.WithoutUser(o.out))
	}
	if o.BaseURL == "" {
		return term.Usage(errors.New("--base-url is missing"),
			"the documents name every file by its URL: say where your web server serves them, as --base-url https://data.example.org/")

	}
	if !term.IsURL(o.BaseURL) {
		return term.Usage(term.Usagef("--base-url %q is no URL", fetch.WithoutUser(o.BaseURL)), "as --base-url https://data.example.org/")
	}
	return nil
}

// runPublish publishes once, or with --watch until ctx ends.
func runPublish(ctx context.Context, o *publishOptions, io term.IO, out *alert.Outcome) error {
	if err := o.check(); err != nil {
		return err
	}
	so := o.Site("publish", o.result, io)
	so.Documents, so.Gzip = o.out, o.Compresses(!mirror.IsBucket(o.out))
	n := &sourcereport.Reporter{IO: io, Quiet: o.result.Quiet}
	n.Beside = slices.ContainsFunc(o.Sets, func(c config.Set) bool { return site.Beside(c.Origin, o.out) })
	if so.OnEvent = n.Event; o.Watching() {
		so.OnNotify = n.Notified // else what goes wrong is an error
	}
	start, before := time.Now(), publishedAt(o.out)
	s, err := site.Open(ctx, so)
	if err != nil {
		return err
	}
	defer s.Close()
	ctx, done := s.WhileOwned(ctx)
	defer done()
	stop := term.ShowProgress(io, o.result.Quiet, n.Line)
	p, err := s.PublishOnce(ctx, n)
	var dumpErr error
	if err == nil {
		dumpErr = s.Dump(ctx, &p, n)
	}
	stop()
	if lost := stateplace.Cause(ctx, nil); lost != nil {
		return lost
	}
	if mirror.Interrupted(ctx, err) {
		return io.Interrupted(n.Done())
	}
	if err != nil {
		return err
	}
	sum := p.Summary(o.BaseURL, o.out, time.Since(start))
	out.Figures = alert.Publish(sum.Resources, sum.Created, sum.Updated, sum.Deleted)
	if err := printPublish(io, o, s, &sum); err != nil {
		return err
	}
	warnOfMove(n, before, publishedAt(o.out), "publish again")
	s.WarnOfOverlaps(ctx, n)
	if sum.Written && sum.Updated+sum.Deleted == 0 && (sum.Created == 0 || sum.Created == sum.Resources) {
		for _, problem := range so.Hubs.Check(ctx, so.Network, so.Log) { // no change is notified that would show a wrong address
			n.Warn(problem)
		}
	}
	if o.Watching() {
		if dumpErr != nil {
			n.Warn(dumpErr)
		}
		return stateplace.Cause(ctx, s.GoOn(ctx, n))
	}
	return errors.Join(p.Failed(), dumpErr, p.Unreadable(), s.NotifyOnce(ctx))
}

// warnOfMove warns if the base URL was another one before; again is how to undo that.
func warnOfMove(n *sourcereport.Reporter, before, now, again string) {
	if before != "" && now != "" && now != before {
		n.Warn(term.WithHint(fmt.Errorf("the base URL was %s and is %s now: everything that is published has a new address", before, now),
			"mirrors of the old address refuse this as another Source, until lockstep sync with --baseline makes them mirrors of the new address; if it is a mistake, "+again+" with --base-url "+before))
	}
}

// publishedAt returns the base URL of the documents in the directory out; "" if that is not
// known.
func publishedAt(out string) string {
	if mirror.IsBucket(out) {
		return ""
	}
	f, err := os.Open(filepath.Join(out, ".well-known", "resourcesync"))
	if err != nil {
		return ""
	}
	defer func() { _ = f.Close() }() // it was only read
	for e, err := range resourcesync.NewReader(f, resourcesync.ReaderOptions{}).Entries() {
		if base, _, ok := strings.Cut(e.Loc, "/resourcesync/"); ok && err == nil {
			return base + "/"
		}
		break
	}
	return ""
}

// printPublish prints the result of a publication.
func printPublish(io term.IO, o *publishOptions, s *site.Site, sum *site.Summary) error {
	if o.result.JSON {
		return io.PrintJSON(sum)
	}
	if o.result.Quiet {
		return nil
	}
	if !sum.Written {
		io.Printf("nothing changed: the documents in %s are up to date\n", o.out)
	} else {
		io.Printf("published %s in %s\n", term.Count(sum.Resources, "resource"), o.out)
		io.Printf("  %s created, %s updated, %s deleted, %s\n", term.Thousands(sum.Created), term.Thousands(sum.Updated), term.Thousands(sum.Deleted), term.Elapsed(time.Duration(sum.Elapsed*float64(time.Second))))
	}
	if sum.Hidden > 0 {
		io.Printf("  %s\n", sourcereport.HiddenText(sum.Hidden))
	}
	s.PrintSets(io)
	io.Printf("  mirror it with   lockstep sync %s/ DEST\n", strings.TrimSuffix(o.BaseURL, "/"))
	return nil
}
