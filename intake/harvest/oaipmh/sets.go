package oaipmh

import (
	"context"
	"fmt"
	"strings"

	"lockstep/internal/fetch"
	"lockstep/oaipmh"
)

const (
	maxSetPages = 100 // pages of ListSets that are read to find one set
	namedSets   = 20  // sets named in a message
)

// noSuchSet returns an error if a full list is empty because the set does not exist:
// repositories report noRecordsMatch in that case, too. If the repository does not list
// its sets, the set is assumed to be empty.
func (p *pager) noSuchSet(ctx context.Context) error {
	spec := p.h.o.SetSpec
	if spec == "" || !p.run.Full || p.run.Token != "" {
		return nil
	}
	var names []string
	uri := oaipmh.URL(p.h.base, oaipmh.VerbListSets)
	for range maxSetPages {
		var sets []oaipmh.Set
		var token oaipmh.Token
		_, err := p.h.ask(ctx, uri, func(r *oaipmh.Reader) (err error) {
			sets, err = r.Sets()
			token, _ = r.Token()
			return err
		})
		if err != nil {
			return ctx.Err()
		}
		for _, s := range sets {
			if s.Spec == spec || strings.HasPrefix(s.Spec, spec+":") {
				return nil
			}
			if len(names) < namedSets {
				names = append(names, fetch.Printable(s.Spec))
			}
		}
		if token.Value == "" {
			if len(names) == 0 {
				return nil
			}
			return fmt.Errorf("there is no set %s; its sets are %s", fetch.Printable(spec), strings.Join(names, ", "))
		}
		uri = oaipmh.URL(p.h.base, oaipmh.VerbListSets, "resumptionToken", token.Value)
	}
	return nil
}
