package origins

import (
	"context"
	"errors"
	"fmt"
	"time"

	"lockstep/intake"
	"lockstep/intake/harvest/atompmh"
	"lockstep/internal/fetch"
)

// openFeed opens a feed that is harvested by Atom-PMH.
func (o *Opener) openFeed(s *Set) (Origin, error) {
	client, err := o.Client(s.Config.Origin.Place)
	if err != nil {
		return nil, err
	}
	ho := atompmh.Options{
		Types: s.Config.Types, Overlap: time.Duration(s.Config.Overlap), AcceptFeed: s.Config.AcceptFeed,
		Content: s.Config.HashesGiven, Algorithms: s.Hashes, AllowEmpty: o.AllowEmpty, TempDir: o.State,
		State: o.stateFile(s, "atom-pmh.json"), ScanInterval: s.ScanInterval, OnEvent: s.OnEvent,
	}
	if every := s.Config.FullInterval; every != nil {
		ho.FullInterval = Interval(time.Duration(*every))
	}
	feed, err := atompmh.New(s.Config.Origin.WithoutUser(), client, s.Catalog, s.List, o.Ledger, ho)
	if err != nil {
		return nil, err
	}
	return feedOrigin{feed}, nil
}

// A feedOrigin keeps its resources when its feed has ended.
type feedOrigin struct{ *atompmh.Harvester }

// Scan implements [Origin].
func (f feedOrigin) Scan(ctx context.Context) (intake.Report, error) {
	r, err := f.Harvester.Scan(ctx)
	st := f.Status()
	if !errors.Is(err, atompmh.ErrEnded) || st.ID == "" {
		return r, err
	}
	r.Skipped.Count++
	r.Skipped.First = append(r.Skipped.First, intake.Problem{Path: fetch.Printable(st.Address), Err: fmt.Errorf("%w; its records are kept", atompmh.ErrEnded)})
	return r, nil
}
