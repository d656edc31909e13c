package validation

import (
	"context"
	"fmt"
	"slices"

	"lockstep/cmd/lockstep/internal/term"
	"lockstep/discover"
	"lockstep/internal/fetch"
	"lockstep/validate"
	"lockstep/validate/opener"
)

// sources are the targets on the network. They are checked in one run: what they have in
// common is counted and reported once.
type sources struct {
	run  *validate.Run
	open opener.Func // of the current target, with its credentials
}

func newSources(vo validate.Options, origins *origins) *sources {
	s := new(sources)
	vo.OnResource = origins.comparer(func(ctx context.Context, r opener.Request) (*opener.Answer, error) { return s.open(ctx, r) })
	s.run = validate.NewRun(vo)
	return s
}

// validate checks what one argument names, and returns the addresses at which it began, or
// the argument.
func (s *sources) validate(ctx context.Context, o *Options, target string, result *validation, io term.IO) (begun []string, err error) {
	client, err := o.Network.Client(target, io.LookupEnv, o.Out.Logger(io))
	if err != nil {
		return []string{fetch.WithoutUser(target)}, err
	}
	defer client.Close()
	defer func() { result.Requests += client.Requests() }()
	s.open = openerOf(client)
	starts, way, err := startsOf(ctx, client, s.open, target, o.Alone)
	if err != nil {
		return []string{fetch.WithoutUser(target)}, err
	}
	for _, step := range way {
		result.Way = append(result.Way, step.String())
	}
	for _, start := range starts {
		check := s.run.Source
		switch start.kind {
		case discover.AtomPMH:
			check = s.run.Feed
		case discover.OAIPMH:
			check = s.run.Repository
		}
		if !slices.Contains(result.Sources, start.uri) {
			begun = append(begun, start.uri)
		}
		if err := check(ctx, s.open, start.uri); err != nil {
			return begun, fmt.Errorf("validate %s: %w", fetch.Printable(start.uri), err)
		}
	}
	return begun, nil
}
