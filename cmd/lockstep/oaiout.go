package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"lockstep/cmd/lockstep/internal/config"
	"lockstep/cmd/lockstep/internal/term"
	"lockstep/repository"
	"lockstep/source"
)

// oaiName is where harvesters find the sets, below the base URL.
const oaiName = "oai"

// oaiAddress is the base URL of the repository, given that of the site.
func oaiAddress(baseURL string) string { return strings.TrimSuffix(baseURL, "/") + "/" + oaiName }

// oaiFlags are the flags of serve about answering harvesters.
type oaiFlags struct {
	oai      bool // every set that does not say otherwise
	oaiAdmin string
	oaiTitle string
}

func (o *oaiFlags) declare(flags *pflag.FlagSet) {
	flags.BoolVar(&o.oai, "oai-pmh", false, "answer OAI-PMH harvesters at "+oaiName+" below the base URL")
	flags.StringVar(&o.oaiAdmin, "oai-admin", "", "the administrator that harvesters can write to, an `EMAIL` address (default postmaster at the host of the base URL)")
	flags.StringVar(&o.oaiTitle, "oai-name", "", "the `NAME` of the repository for harvesters (default the host of the base URL)")
}

// settleOAI has every set offered to harvesters that does not say whether, if
// that is wanted.
func (o *serveOptions) settleOAI() {
	for i := range o.sets {
		if c := &o.sets[i]; o.oai && c.OAIPMH == nil {
			c.OAIPMH = new(true)
		}
	}
}

// checkOAI refuses to answer where there is nobody to.
func (o *siteOptions) checkOAI() error {
	for i := range o.sets {
		if c := &o.sets[i]; c.OffersOAI() && !o.content {
			return term.Usage(fmt.Errorf("set %s: oai_pmh: files cannot answer OAI-PMH, only a program does", c.Label(i)),
				"use lockstep serve, or leave oai_pmh out")

		}
	}
	return nil
}

// openOAI makes the repository that harvesters read, if a set is offered to them.
func (s *site) openOAI() error {
	if !slices.ContainsFunc(s.opts.sets, func(c config.Set) bool { return c.OffersOAI() }) {
		return nil
	}
	base, err := source.BaseURL(s.opts.baseURL)
	if err != nil {
		return term.Usage(err, "")
	}
	u, err := url.Parse(base)
	if err != nil {
		return err // unreachable: BaseURL has parsed it
	}
	o := repository.Options{BaseURL: base + oaiName, Name: s.opts.oai.oaiTitle, Admin: s.opts.oai.oaiAdmin, Logger: s.log}
	for i, set := range s.sets {
		if !s.opts.sets[i].OffersOAI() {
			continue
		}
		offered := repository.Set{Name: set.name, Catalog: set.list}
		if b, ok := set.origin.(bitstreams); ok && slices.Contains(keptContents, set.from.Kind.Scheme) {
			offered.Open = b.Bitstream
		}
		o.Sets = append(o.Sets, offered)
	}
	if s.oai, err = repository.New(s.db.Catalog(), o); err != nil {
		return term.Usage(err, "give the address of who looks after it: --oai-admin NAME@HOST.DOMAIN")
	}
	s.oaiPath = u.EscapedPath() + oaiName
	return nil
}

// keptContents are the ways in whose contents are at hand: XML among them is
// offered as it is. Those of the others are wherever their URIs say.
var keptContents = []string{"dir", "s3", "oai-pmh"}

// forHarvesters reports whether a request is for the repository: a resource of ours
// may have its address, but not with arguments.
func (s *site) forHarvesters(r *http.Request) bool {
	if s.oai == nil || r.URL.EscapedPath() != s.oaiPath {
		return false
	}
	return r.Method == http.MethodPost || r.URL.RawQuery != "" || !s.isFile(oaiName)
}

// indexOAI brings the index for harvesters up to date, so that the first need not
// wait for it.
func (s *site) indexOAI(ctx context.Context) error {
	if s.oai == nil {
		return nil
	}
	if err := s.oai.Refresh(ctx); err != nil && ctx.Err() == nil && !errors.Is(err, repository.ErrNotPublished) {
		s.log.WarnContext(ctx, "cannot index the sets for harvesters", slog.Any("err", err))
	}
	return nil
}
