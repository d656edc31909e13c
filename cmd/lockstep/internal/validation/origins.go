package validation

import (
	"context"
	"errors"
	"fmt"
	"io"

	"lockstep/aggregator"
	"lockstep/cmd/lockstep/internal/term"
	"lockstep/cmd/lockstep/internal/tracing"
	"lockstep/internal/fetch"
	"lockstep/internal/provenance"
	"lockstep/resourcesync"
	"lockstep/validate/opener"
)

// origins compares resources with their origins. A nil *origins compares nothing.
type origins struct {
	client  *fetch.Client
	checker *provenance.Checker
	shown   *tracing.Lines
}

// openOrigins returns what compares resources with their origins.
func openOrigins(o *Options, io term.IO) (*origins, error) {
	client, err := o.Network.OriginClient(io.LookupEnv, o.Out.Logger(io))
	if err != nil {
		return nil, err
	}
	c := &origins{client: client, shown: &tracing.Lines{IO: io, Quiet: o.Out.JSON}}
	c.checker = provenance.New(client, provenance.Options{OnFinding: func(f provenance.Finding) { c.shown.Add(&f) }})
	return c, nil
}

// comparer returns a function that compares the resource of an entry with its origin;
// open opens the resource itself, and may be nil.
func (c *origins) comparer(open opener.Func) func(context.Context, *resourcesync.Entry) {
	if c == nil {
		return nil
	}
	return func(ctx context.Context, e *resourcesync.Entry) {
		one := provenance.Copy{URI: e.Loc, Via: aggregator.Origin(e.Links), Length: -1}
		if e.Encoding == "" { // otherwise they are those of coded content (RS-HASH-07)
			one.Hashes = e.Hashes
			if e.HasLength {
				one.Length = e.Length
			}
		}
		if open != nil {
			one.Open = func(ctx context.Context) (io.ReadCloser, error) {
				a, err := open(ctx, opener.Request{URI: e.Loc, Resource: true})
				if err != nil {
					return nil, err
				}
				return a.Body, nil
			}
		}
		_ = c.checker.Check(ctx, &one) // its error is that of ctx, which ends the validation, too
	}
}

// end adds the results to those of the validation, and returns the error of both.
func (c *origins) end(v *validation) error {
	c.shown.End()
	r := c.checker.Report()
	r.Seed = v.Seed
	v.Origin = &r
	v.Requests += c.client.Requests()
	err := tracing.Err(&r)
	switch {
	case v.err == nil:
		return err
	case errors.Is(err, tracing.ErrAltered) && errors.Is(v.err, ErrFindings):
		return fmt.Errorf("%w; %w", v.err, err)
	case errors.Is(err, tracing.ErrAltered) && !errors.Is(v.err, term.ErrInterrupted):
		return fmt.Errorf("%w; %w", err, v.err)
	}
	return v.err
}
