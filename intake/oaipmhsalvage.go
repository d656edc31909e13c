package intake

import (
	"context"

	"lockstep/oaipmh"
)

// salvage takes from a response that is not well formed what can be read.
func (p *pager) salvage(ctx context.Context, uri string, why *oaipmh.SyntaxError) (t oaipmh.Token, records int64, err error) {
	return t, 0, why
}
