package validate

import (
	"context"
	"errors"
)

var oaiSpaces = []string{"http://www.openarchives.org/OAI/2.0/", "http://www.openarchives.org/OAI/2.0/oai_dc/"}

var errUnwritten = errors.New("not written yet")

func (w *walk) response(string) error       { return errUnwritten }
func (w *walk) responseAlone(*source) error { return errUnwritten }

// Repository asks the OAI-PMH repository at address a few things.
func Repository(ctx context.Context, open Opener, address string, o Options) (*Report, error) {
	return nil, errUnwritten
}
