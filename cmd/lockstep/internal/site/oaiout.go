package site

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

// OAIFlags are the flags of serve about answering harvesters.
type OAIFlags struct {
	All      bool // every set that does not say otherwise
	oaiAdmin string
	oaiTitle string
}

func (o *OAIFlags) Declare(flags *pflag.FlagSet) {
	flags.BoolVar(&o.All, "oai-pmh", false, "answer OAI-PMH harvesters at "+oaiName+" below the base URL")
	flags.StringVar(&o.oaiAdmin, "oai-admin", "", "the administrator that harvesters can write to, an `EMAIL` address (default postmaster at the host of the base URL)")
	flags.StringVar(&o.oaiTitle, "oai-name", "", "the `NAME` of the repository for harvesters (default the host of the base URL)")
}

// checkOAI rejects oai_pmh in commands that only write files, which cannot
// answer OAI-PMH requests.
func (o *Options) checkOAI() error {
	for i := range o.Sets {
		if c := &o.Sets[i]; c.OffersOAI() && !o.Content {
			return term.Usage(fmt.Errorf("set %s: oai_pmh: files cannot answer OAI-PMH, only a program does", c.Label(i)),
				"use lockstep serve, or leave oai_pmh out")

		}
	}
	return nil
}

// openOAI makes the repository that harvesters read, if a set is offered to them.
func (s *Site) openOAI() error {
	if !slices.ContainsFunc(s.opts.Sets, func(c config.Set) bool { return c.OffersOAI() }) {
		return nil
	}
	base, err := source.BaseURL(s.opts.BaseURL)
	if err != nil {
		return term.Usage(err, "")
	}
	u, err := url.Parse(base)
	if err != nil {
		return err // unreachable: BaseURL has parsed it
	}
	o := repository.Options{BaseURL: base + oaiName, Name: s.opts.OAI.oaiTitle, Admin: s.opts.OAI.oaiAdmin, Logger: s.log}
	for i, set := range s.sets {
		if !s.opts.Sets[i].OffersOAI() {
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

// keptContents are the kinds of origins whose contents we can read: XML among
// them is offered as it is. The contents of other origins are wherever their
// URIs say.
var keptContents = []string{"dir", "s3", "oai-pmh"}

// forHarvesters reports whether a request is for the repository: a resource of ours
// may have its address, but not with arguments.
func (s *Site) forHarvesters(r *http.Request) bool {
	if s.oai == nil || r.URL.EscapedPath() != s.oaiPath {
		return false
	}
	return r.Method == http.MethodPost || r.URL.RawQuery != "" || !s.isFile(oaiName)
}

// indexOAI brings the index for harvesters up to date, so that the first need not
// wait for it.
func (s *Site) indexOAI(ctx context.Context) error {
	if s.oai == nil {
		return nil
	}
	if err := s.oai.Refresh(ctx); err != nil && ctx.Err() == nil && !errors.Is(err, repository.ErrNotPublished) {
		s.log.WarnContext(ctx, "cannot index the sets for harvesters", slog.Any("err", err))
	}
	return nil
}
