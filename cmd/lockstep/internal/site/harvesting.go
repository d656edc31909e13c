package site

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"lockstep/catalog"
	"lockstep/cmd/lockstep/internal/config"
	"lockstep/cmd/lockstep/internal/origins"
	"lockstep/cmd/lockstep/internal/term"
	"lockstep/repository"
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
	oaiSets  string
}

// Declare declares the flags.
func (o *OAIFlags) Declare(flags *pflag.FlagSet) {
	flags.BoolVar(&o.All, "oai-pmh", false, "answer OAI-PMH harvesters at "+oaiName+" below the base URL")
	flags.StringVar(&o.oaiAdmin, "oai-admin", "", "the administrator that harvesters can write to, an `EMAIL` address (default postmaster at the host of the base URL)")
	flags.StringVar(&o.oaiSets, "oai-sets", "", "offer harvesters more sets: with `collection` each collection that links of resources name is one")
	flags.StringVar(&o.oaiTitle, "oai-name", "", "the `NAME` of the repository for harvesters (default --title, or the host of the base URL)")
}

// oaiCollections is the value of --oai-sets.
const oaiCollections = "collection"

// checkOAI rejects an unknown --oai-sets, and oai_pmh in commands that only write files, which cannot
// answer OAI-PMH requests.
func (o *Options) checkOAI() error {
	if s := o.OAI.oaiSets; s != "" && s != oaiCollections {
		return term.Usage(fmt.Errorf("--oai-sets (oai_sets in a configuration file) %q: want %s", s, oaiCollections), "")
	}
	for i := range o.Sets {
		if c := &o.Sets[i]; c.OffersOAI() && !o.Content {
			return term.Usage(fmt.Errorf("set %s: oai_pmh: static files cannot answer OAI-PMH requests", c.Label(i)),
				"use lockstep serve, or leave oai_pmh out")

		}
	}
	return nil
}

// A harvesting answers harvesters.
type harvesting struct {
	repository *repository.Repository
	path       string                                 // of its address
	have       func(r *http.Request, rel string) bool // reports whether the client may see a resource at a path below the base URL
	log        *slog.Logger
}

// openHarvesting opens the repository that harvesters read, if a set is offered to
// them; otherwise it returns nil. have reports whether the client of a request may see a
// resource at a path below the base URL.
func openHarvesting(opts *Options, configs []config.Set, sets []*siteSet, cat catalog.Catalog, have func(r *http.Request, rel string) bool) (*harvesting, error) {
	if !slices.ContainsFunc(configs, func(c config.Set) bool { return c.OffersOAI() }) {
		return nil, nil
	}
	base, err := parseBase(opts.BaseURL)
	if err != nil {
		return nil, err
	}
	o := repository.Options{BaseURL: base.String() + oaiName, Name: cmp.Or(opts.OAI.oaiTitle, opts.Title), Admin: opts.OAI.oaiAdmin, Logger: opts.Log}
	for i, set := range sets {
		if !configs[i].OffersOAI() {
			continue
		}
		offered := repository.Set{Name: set.name, Title: set.source.Title, Summary: set.source.Summary, Catalog: set.list, Private: configs[i].Private(), Collections: opts.OAI.oaiSets != ""}
		if b, ok := set.origin.(origins.Bitstreams); ok && slices.Contains(keptContents, set.from.Kind.Scheme) && !set.from.Kind.Away {
			offered.Open = b.Bitstream
		}
		o.Sets = append(o.Sets, offered)
	}
	h := &harvesting{path: base.EscapedPath() + oaiName, have: have, log: opts.Log}
	if h.repository, err = repository.New(cat, o); err != nil {
		return nil, term.Usage(err, "give the address of its administrator: --oai-admin NAME@HOST.DOMAIN")
	}
	return h, nil
}

// keptContents are the kinds of origins whose contents can be read here: XML among
// them is offered as it is. The contents of other origins are on the servers that their
// URIs name.
var keptContents = []string{"dir", "s3", "oai-pmh", "resourcesync"}

// serve answers a request of a harvester, and reports whether r is one: a resource may
// have the address of the repository, but not with arguments.
func (h *harvesting) serve(w http.ResponseWriter, r *http.Request) bool {
	if h == nil || r.URL.EscapedPath() != h.path || r.Method != http.MethodPost && r.URL.RawQuery == "" && h.have(r, oaiName) {
		return false
	}
	h.repository.ServeHTTP(w, r)
	return true
}

// refresh brings the index for harvesters up to date, so that the first need not
// wait for it.
func (h *harvesting) refresh(ctx context.Context) error {
	if h == nil {
		return nil
	}
	if err := h.repository.Refresh(ctx); err != nil && ctx.Err() == nil && !errors.Is(err, repository.ErrNotPublished) {
		h.log.WarnContext(ctx, "cannot index the sets for harvesters", slog.Any("err", err))
	}
	return nil
}
